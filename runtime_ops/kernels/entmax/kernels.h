// Kernels of sparse activations in the operator library, one set for each instruction set.
#ifndef EDGE_EMBED_KERNELS_ENTMAX_KERNELS_H_
#define EDGE_EMBED_KERNELS_ENTMAX_KERNELS_H_

#include "kernels/entmax/entmax.h"

namespace edge_embed::entmax {

// Both write the rows begin .. end-1 of out [rows, n], which must not overlap the scores.
struct Kernels {
  const char* name;  // of the variant in kernels/variant.h
  void (*forward)(const ee_score_rows* of, size_t begin, size_t end, float* out);
  // Sparsemax of the k largest scores of a row, 1 <= k <= n. The others get 0, and of equal scores, the first
  // ones count as the largest.
  void (*topk)(const ee_score_rows* of, size_t k, size_t begin, size_t end, float* out);
};

extern const Kernels kPortable;
#if defined(__x86_64__)
extern const Kernels kAvx2;
extern const Kernels kAvx512;
#endif

// Those of the chosen variant (kernels/variant.h).
const Kernels& ChosenKernels();

}  // namespace edge_embed::entmax

#endif  // EDGE_EMBED_KERNELS_ENTMAX_KERNELS_H_
