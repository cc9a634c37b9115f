// Splits the rows of a result over the threads of the runtime.
#ifndef EDGE_EMBED_ORT_PARALLEL_H_
#define EDGE_EMBED_ORT_PARALLEL_H_

#include "ort/buffer.h"

namespace edge_embed::ort {

// The first error by position. Every block stops at its own first error, so the lowest of these is the first
// of all.
class FirstError {
 public:
  void Note(ee_status status, size_t position) {
    const uint64_t error = uint64_t{position} << 8 | static_cast<uint64_t>(status);
    uint64_t seen = __atomic_load_n(&first_, __ATOMIC_RELAXED);
    while (error < seen &&
           !__atomic_compare_exchange_n(&first_, &seen, error, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
  }

  // Call it after all blocks.
  bool none() const { return first_ == UINT64_MAX; }
  ee_status status() const { return static_cast<ee_status>(first_ & 0xFF); }
  size_t position() const { return static_cast<size_t>(first_ >> 8); }

 private:
  uint64_t first_ = UINT64_MAX;
};

// Computes the rows begin .. end-1 of some work.
using DoRows = void(const void* work, size_t begin, size_t end, double* scratch);

OrtStatus* RunRows(const Node& node, const OrtKernelContext* context, size_t rows, uint64_t row_work,
                   Size scratch_doubles, DoRows* do_rows, const void* work);

// Calls work(begin, end, scratch) until every row of [0, rows) is done, from several threads if that is
// faster. Calls may run at the same time and must not throw. Each has its own scratch of the required number
// of doubles. The unit of work is one multiplication or one copied number.
template <typename Work>
OrtStatus* ForRows(const Node& node, const OrtKernelContext* context, size_t rows, uint64_t row_work,
                   Size scratch_doubles, const Work& work) {
  const auto do_rows = [](const void* data, size_t begin, size_t end, double* scratch) {
    (*static_cast<const Work*>(data))(begin, end, scratch);
  };
  return RunRows(node, context, rows, row_work, scratch_doubles, do_rows, &work);
}

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_PARALLEL_H_
