// The variants that a build may have, each defined in the file of its name.
#ifndef EDGE_EMBED_KERNELS_ISA_ISA_H_
#define EDGE_EMBED_KERNELS_ISA_ISA_H_

#include "kernels/variant.h"

#if defined(__x86_64__)
#define EDGE_EMBED_X86 1
#else
#define EDGE_EMBED_X86 0
#endif

namespace edge_embed {

extern const Variant kPortable;  // what every processor of the architecture has: SSE2, NEON
#if EDGE_EMBED_X86
extern const Variant kAvx2;  // AVX2, FMA, F16C, BMI2
extern const Variant
    kAvx512;  // F, BW, DQ, VL, VBMI, VNNI as well: for TT and for heads of DPQ with four bits

// Kernels of AVX2 that are not worth being compiled again.
extern const Kernels<ant::Table> kAvx2Ant;
extern const Kernels<dpq::Table> kAvx2Dpq;

bool HasAvx2();
bool HasAvx512();
#endif

}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_ISA_ISA_H_
