// Splits the rows of a result over the runtime's own threads.
#ifndef EDGE_EMBED_ORT_PARALLEL_H_
#define EDGE_EMBED_ORT_PARALLEL_H_

#include "ort/buffer.h"

namespace edge_embed::ort {

// Multiplications or copied numbers that outweigh waking a thread (some microseconds).
constexpr uint64_t kBlockWork = 1 << 16;
// Every block has its own scratch for the whole run, so there is a limit to their number.
constexpr size_t kMaxBlocks = 64;
// Up to this many doubles of scratch are on the stack where one thread does it all.
constexpr size_t kStackDoubles = 1024;
constexpr size_t kCacheLine = 128 / sizeof(double);

// The first thing that went wrong, by its position: every block runs to its own first error, so the lowest of
// them is the first of all.
class FirstError {
 public:
  void Note(ee_status status, size_t position) {
    const uint64_t error = uint64_t{position} << 8 | static_cast<uint64_t>(status);
    uint64_t seen = __atomic_load_n(&first_, __ATOMIC_RELAXED);
    while (error < seen &&
           !__atomic_compare_exchange_n(&first_, &seen, error, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
  }

  // Once all blocks are done.
  bool none() const { return first_ == UINT64_MAX; }
  ee_status status() const { return static_cast<ee_status>(first_ & 0xFF); }
  size_t position() const { return static_cast<size_t>(first_ >> 8); }

 private:
  uint64_t first_ = UINT64_MAX;
};

// A block pays where its rows outweigh waking a thread.
inline size_t CountBlocks(size_t rows, uint64_t row_work) {
  const uint64_t block = row_work < kBlockWork ? kBlockWork / (row_work == 0 ? 1 : row_work) : 1;
  if (rows / 2 <= block) return 1;
  const uint64_t blocks = rows / block + (rows % block != 0);
  return blocks < kMaxBlocks ? static_cast<size_t>(blocks) : kMaxBlocks;
}

// Calls work(begin, end, scratch) until every row of [0, rows) is done, from several threads where that pays.
// Work must be callable from several threads at once and must not throw; no two calls share scratch, which
// has the number of doubles asked for. Works are multiplications or copied numbers.
template <typename Work>
OrtStatus* ForRows(const Node& node, const OrtKernelContext* context, size_t rows, uint64_t row_work,
                   Size scratch_doubles, const Work& work) {
  struct Job {
    const Work* work;
    size_t rows;
    size_t blocks;
    double* scratch;
    size_t stride;  // doubles from the scratch of one block to that of the next
  };
  const auto run_block = [](void* data, size_t index) {
    const Job& job = *static_cast<const Job*>(data);
    const size_t share = job.rows / job.blocks,
                 longer = job.rows % job.blocks;  // `longer` blocks get one more
    const size_t begin = index * share + (index < longer ? index : longer);
    (*job.work)(begin, begin + share + (index < longer ? 1 : 0), job.scratch + index * job.stride);
  };

  const size_t blocks = CountBlocks(rows, row_work);
  if (blocks == 1 && scratch_doubles.saturated() <= kStackDoubles) {
    double scratch[kStackDoubles];
    work(size_t{0}, rows, scratch);
    return nullptr;
  }
  Buffer buffer(*node.api);
  const Size stride = scratch_doubles + kCacheLine;  // no two blocks write to one cache line
  if (OrtStatus* status = buffer.Allocate(node, stride * blocks, sizeof(double))) return status;
  Job job{&work, rows, blocks, static_cast<double*>(buffer.data()), static_cast<size_t>(stride.saturated())};
  if (blocks == 1) {
    run_block(&job, 0);
    return nullptr;
  }
  return node.api->KernelContext_ParallelFor(context, run_block, blocks, 0, &job);
}

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_PARALLEL_H_
