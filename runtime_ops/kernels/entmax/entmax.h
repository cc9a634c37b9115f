// Probabilities that can be exactly zero: alpha-entmax of rows of scores, among them softmax (alpha = 1),
// 1.5-entmax and sparsemax (alpha = 2).
//
//     p = argmax over the simplex of  p . z + H(p)        H(p) = sum_i (p_i - p_i^alpha) / (alpha (alpha -
//     1)) p_i = max(0, (alpha - 1)(z_i - max z) - tau)^(1 / (alpha - 1))        tau in [-1, 0): the sum of p
//     is 1
//
// Sources: Martins and Astudillo, "From Softmax to Sparsemax", 2016; Peters, Niculae and Martins, "Sparse
// Sequence-to-Sequence Models", 2019; Correia, Niculae and Martins, "Adaptively Sparse Transformers", 2019.
//
// A score of minus infinity gets 0. A row with NaN or plus infinity, or without any score above minus
// infinity, is NaN.
#ifndef EDGE_EMBED_KERNELS_ENTMAX_ENTMAX_H_
#define EDGE_EMBED_KERNELS_ENTMAX_ENTMAX_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Rows of scores.
typedef struct {
  const float* scores;  // [rows, n]
  const float* alphas;  // [rows], or one for all rows
  size_t n;
  int32_t alpha_per_row;  // 1: alphas are [rows]; 0: one
} ee_score_rows;

#ifdef __cplusplus
}
#endif

#endif  // EDGE_EMBED_KERNELS_ENTMAX_ENTMAX_H_
