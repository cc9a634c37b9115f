#include "bench/bench.h"

#include <string.h>

#include "bench/isa/isa.h"

namespace edge_embed::bench {
namespace {

constexpr size_t kAhead =
    8;  // rows: enough to hide memory latency behind the copies, few enough to stay in L1
constexpr size_t kLine = 64;

void Prefetch(const float* row, size_t dim) {
  const char* line = reinterpret_cast<const char*>(row);
  for (size_t at = 0; at < dim * sizeof(float); at += kLine) {
    __builtin_prefetch(line + at);
  }
}

const Peaks* const kPeaks[] = {
#if EDGE_EMBED_X86
    &kAvx512,
    &kAvx2,
#endif
    &kPortable,
};

const Peaks* Choose() {
  size_t best = 0;
  while (!kPeaks[best]->runs_here()) ++best;
  return kPeaks[best];
}

// The query of the processor takes as long as a short measurement on virtual machines.
const Peaks* const kBest = Choose();

}  // namespace
}  // namespace edge_embed::bench

using edge_embed::bench::kAhead;
using edge_embed::bench::kBest;
using edge_embed::bench::Prefetch;

void eb_copy_rows(const float* table, size_t dim, const int64_t* ids, size_t ids_a_call, size_t calls,
                  float* rows) {
  for (size_t call = 0; call < calls; ++call, ids += ids_a_call) {
    for (size_t i = 0; i < kAhead && i < ids_a_call; ++i) {
      Prefetch(table + static_cast<size_t>(ids[i]) * dim, dim);
    }
    for (size_t i = 0; i < ids_a_call; ++i) {
      if (i + kAhead < ids_a_call) {
        Prefetch(table + static_cast<size_t>(ids[i + kAhead]) * dim, dim);
      }
      memcpy(rows + i * dim, table + static_cast<size_t>(ids[i]) * dim, dim * sizeof(float));
    }
  }
}

int32_t eb_gather(void* gather, const ee_table* table, const int64_t* ids, size_t ids_a_call, size_t calls,
                  float* rows, size_t rows_bytes, void* scratch, size_t scratch_bytes) {
  const auto function = reinterpret_cast<decltype(&ee_gather)>(gather);
  int32_t status = EE_OK;
  for (size_t call = 0; call < calls && status == EE_OK; ++call, ids += ids_a_call) {
    const ee_ids some{ids, static_cast<int64_t>(ids_a_call), EE_INT64};
    status = function(table, &some, rows, rows_bytes, scratch, scratch_bytes, nullptr);
  }
  return status;
}

float eb_read(const void* buffer, size_t bytes, size_t times) { return kBest->read(buffer, bytes, times); }

double eb_multiply_add(size_t rounds) { return kBest->multiply_add(rounds); }
