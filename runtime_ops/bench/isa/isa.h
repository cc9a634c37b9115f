// The instruction sets of a build. The file of the same name defines each.
#ifndef EDGE_EMBED_BENCH_ISA_ISA_H_
#define EDGE_EMBED_BENCH_ISA_ISA_H_

#include <stddef.h>

#include "kernels/isa/isa.h"

namespace edge_embed::bench {

// bench/bench.h describes both functions.
struct Peaks {
  bool (*runs_here)();
  float (*read)(const void* buffer, size_t bytes, size_t times);
  double (*multiply_add)(size_t rounds);
};

extern const Peaks kPortable;
#if EDGE_EMBED_X86
extern const Peaks kAvx2;
extern const Peaks kAvx512;
#endif

}  // namespace edge_embed::bench

#endif  // EDGE_EMBED_BENCH_ISA_ISA_H_
