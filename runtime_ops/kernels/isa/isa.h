// The variants that a build can have. The file of the same name defines each.
#ifndef EDGE_EMBED_KERNELS_ISA_ISA_H_
#define EDGE_EMBED_KERNELS_ISA_ISA_H_

#include "kernels/variant.h"

#if defined(__x86_64__)
#define EDGE_EMBED_X86 1
#else
#define EDGE_EMBED_X86 0
#endif

namespace edge_embed {

namespace ant {
struct Loops;  // kernels/ant/fast_sum.h
}
namespace tiered {
struct Loops;  // kernels/tiered/loops.h
}

extern const Variant kPortable;  // SSE2 or NEON, which every processor of the architecture has
#if EDGE_EMBED_X86
extern const Variant kAvx2;    // AVX2, FMA, F16C, BMI2
extern const Variant kAvx512;  // also F, BW, DQ, VL, VBMI and VNNI: for TT, for rows of integers, for
                               // column-wise rows, for output layers of DPQ with one, two or four bits and
                               // for the innermost loops of ANT

// Kernels of AVX2 that the AVX-512 variant uses, because a second compilation gains too little.
extern const Kernels<ant::Table> kAvx2ANT;
extern const Kernels<dpq::Table> kAvx2DPQ;
extern const Kernels<dpq_scaled::Table> kAvx2DPQ_SCALED;
extern const Kernels<tt::Table> kAvx2TT;

// Kernels of ANT with the innermost loops of another instruction set.
ee_status Avx2AntGather(const ant::Loops& loops, const ant::Table& table, const Ids& ids, size_t begin,
                        size_t end, const Output& rows, double* scratch, size_t* bad_position);
ee_status Avx2AntBag(const ant::Loops& loops, const ant::Table& table, const Ids& ids, const Bags& bags,
                     size_t begin, size_t end, const Output& out, double* scratch, size_t* bad_position);

extern const tiered::Loops kAvx2TierLoops;

bool HasAvx2();
bool HasAvx512();
#endif

}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_ISA_ISA_H_
