#include "ort/parallel.h"

namespace edge_embed::ort {
namespace {

// Number of multiplications or copied numbers that outweighs waking a thread (some microseconds).
constexpr uint64_t kBlockWork = 1 << 16;
// Every block has its own scratch for the whole run, so their number is limited. Rows of one block share
// work, so above some number of blocks, larger blocks are faster than a finer division.
constexpr size_t kMaxBlocks = 64, kManyBlocks = 16, kManyRows = 256;
// Up to this number of doubles, scratch is on the stack if one thread does all work.
constexpr size_t kStackDoubles = 1024;
constexpr size_t kCacheLine = 128 / sizeof(double);

// A block is useful if its rows outweigh waking a thread.
size_t CountBlocks(size_t rows, uint64_t row_work) {
  const uint64_t block = row_work < kBlockWork ? kBlockWork / (row_work == 0 ? 1 : row_work) : 1;
  if (rows / 2 <= block) return 1;
  const uint64_t blocks = rows / block + (rows % block != 0);
  size_t most = rows / kManyRows;
  if (most < kManyBlocks) most = kManyBlocks;
  if (most > kMaxBlocks) most = kMaxBlocks;
  return blocks < most ? static_cast<size_t>(blocks) : most;
}

struct Job {
  DoRows* do_rows;
  const void* work;
  size_t rows;
  size_t blocks;
  double* scratch;
  size_t stride;  // doubles from the scratch of one block to that of the next
};

// The first row of a block, and the end of the previous block. Output layers compute sixteen rows at once, so
// a multiple of sixteen is best. For blocks of few rows, equal sizes are more important.
size_t FirstRow(const Job& job, size_t index) {
  constexpr size_t kAtOnce = 16;
  if (index == job.blocks) return job.rows;
  const size_t share = job.rows / job.blocks, longer = job.rows % job.blocks;  // `longer` blocks get one more
  const size_t first = index * share + (index < longer ? index : longer);
  return share < 4 * kAtOnce ? first : first / kAtOnce * kAtOnce;
}

void RunBlock(void* data, size_t index) {
  const Job& job = *static_cast<const Job*>(data);
  job.do_rows(job.work, FirstRow(job, index), FirstRow(job, index + 1), job.scratch + index * job.stride);
}

}  // namespace

OrtStatus* RunRows(const Node& node, const OrtKernelContext* context, size_t rows, uint64_t row_work,
                   Size scratch_doubles, DoRows* do_rows, const void* work) {
  const size_t blocks = CountBlocks(rows, row_work);
  if (blocks == 1 && scratch_doubles.saturated() <= kStackDoubles) {
    double scratch[kStackDoubles];
    do_rows(work, 0, rows, scratch);
    return nullptr;
  }
  Buffer buffer(*node.api);
  const Size stride = scratch_doubles + kCacheLine;  // no two blocks write to the same cache line
  if (OrtStatus* status = buffer.Allocate(node, stride * blocks, sizeof(double))) return status;
  Job job{do_rows,
          work,
          rows,
          blocks,
          static_cast<double*>(buffer.data()),
          static_cast<size_t>(stride.saturated())};
  if (blocks == 1) {
    RunBlock(&job, 0);
    return nullptr;
  }
  return node.api->KernelContext_ParallelFor(context, RunBlock, blocks, 0, &job);
}

}  // namespace edge_embed::ort
