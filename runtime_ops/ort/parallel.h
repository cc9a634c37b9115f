// Splits the rows of an output over the runtime's own threads.
#ifndef EDGE_EMBED_ORT_PARALLEL_H_
#define EDGE_EMBED_ORT_PARALLEL_H_

#include <onnxruntime_c_api.h>

namespace edge_embed::ort {

// One block is large enough to outweigh waking a thread (some microseconds) and small enough to stay in
// cache.
constexpr size_t kBlockBytes = 32 * 1024;

// Calls work(begin, end) until every row of [0, rows) is done, from several threads where that pays: up to
// two blocks are done here. Work must be callable from several threads at once and must not throw.
template <typename Work>
OrtStatus* ForRows(const OrtApi& api, const OrtKernelContext* context, size_t rows, size_t row_bytes,
                   const Work& work) {
  const size_t block = row_bytes < kBlockBytes ? kBlockBytes / row_bytes : 1;
  if (rows <= 2 * block) {
    work(size_t{0}, rows);
    return nullptr;
  }
  struct Job {
    const Work* work;
    size_t rows;
    size_t block;
  } job{&work, rows, block};
  const auto run_block = [](void* data, size_t index) {
    const Job& shared = *static_cast<const Job*>(data);
    const size_t begin = index * shared.block;
    const size_t left = shared.rows - begin;
    (*shared.work)(begin, begin + (left < shared.block ? left : shared.block));
  };
  const size_t blocks = rows / block + (rows % block != 0);
  return api.KernelContext_ParallelFor(context, run_block, blocks, 0, &job);
}

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_PARALLEL_H_
