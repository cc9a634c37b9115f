// C interface for training and compression on the host: product quantisation (DPQ), sparse activations and
// sparse attention. It is a library of its own, which no device needs. `edge_embed/ops/dpq_kernels.py`,
// `edge_embed/ops/entmax_kernels.py` and `edge_embed/ops/attention_kernels.py` call it.
//
//     r[b, j, k] = sum_i features(q[b, j])[i] * weights[j, i, k]         larger is nearer
//     features(q) = (q, 1), (q, |q|^2, 1), or (q / |q|, 1)              by metric: dot, euclidean, cosine
//
// edge_embed/ops/dpq_distance.py is the source of the formulas.
//
// Shapes: B queries, D groups of key width w, K codes of a group, and values of width s. A query of a group
// has f features: w + 1, or w + 2 for euclidean. Numbers are float32 unless stated otherwise. Sums over
// queries are float64 and added to the existing contents. The order of a sum for one query does not depend on
// other queries.
//
// Every function processes the queries begin .. end - 1, so that threads can share them, each with its own
// sums. It checks no argument. It returns 0 on success, and 1 if an allocation fails.
#ifndef EDGE_EMBED_TRAINING_TRAINING_H_
#define EDGE_EMBED_TRAINING_TRAINING_H_

#include <stddef.h>
#include <stdint.h>

#include "kernels/entmax/entmax.h"

#if defined(_WIN32)
#define EE_TRAINING_API __declspec(dllexport)
#else
#define EE_TRAINING_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { EE_DOT = 0, EE_EUCLIDEAN = 1, EE_COSINE = 2 } ee_metric;

typedef struct {
  const float* query;    // [B, D w]
  const float* weights;  // [D, f, K], or [1, f, K] for all groups
  size_t num_queries, num_groups, width, num_codes;
  int32_t metric;     // ee_metric
  int32_t per_group;  // 1: weights are [D, f, K]; 0: [1, f, K]
} ee_distances;

typedef struct {
  const float* data;  // [D, K, s], or [1, K, s] for all groups
  size_t width;       // s
  int32_t per_group;  // 1: data is [D, K, s]; 0: [1, K, s]
} ee_values;

typedef struct {
  void* data;     // [D, B]: uint8, or int32
  int32_t bytes;  // bytes of a code: 1 (K up to 256), or 4
} ee_codes;

// Writes the codes of the largest r; of equal ones the lowest. `leads` [D, B] is the difference between the
// largest and the second largest r, infinite if K is 1; null: not computed. If r is not finite, the code is
// unspecified.
EE_TRAINING_API int ee_training_nearest(const ee_distances* distances, size_t begin, size_t end,
                                        const ee_codes* codes, float* leads);

// Writes the values of codes as rows [B, D s]. Of `distances`, only B, D and K are read.
EE_TRAINING_API int ee_training_rows(const ee_distances* distances, const ee_values* values,
                                     const ee_codes* codes, size_t begin, size_t end, float* rows);

// Gradients with respect to queries [B, D w], weights and values. `gradient` [B, D s] is that of the rows,
// and it passes the choice of codes by p = softmax(r / temperature):
//
//     of_choice[k] = <gradient[b, j], values[j, k]>
//     dr[k] = p[k] (of_choice[k] - <p, of_choice>) / temperature
//
// The gradient of the queries is written to `query_gradient`. The others are added to sums [D or 1, f, K] and
// [D or 1, K, s]. Values have a gradient from the chosen `codes` only.
EE_TRAINING_API int ee_training_soft_backward(const ee_distances* distances, const ee_values* values,
                                              const ee_codes* codes, float temperature, const float* gradient,
                                              size_t begin, size_t end, float* query_gradient,
                                              double* weights_gradient, double* values_gradient);

// Gradient of the distance between values and the queries that chose them. It adds 2 shares[b] (values[j, c]
// - q[b, j]) to `values_gradient` [D or 1, K, w], with c of `codes`. The width of values is w; weights are
// not read.
EE_TRAINING_API int ee_training_centroid_backward(const ee_distances* distances, const ee_values* values,
                                                  const ee_codes* codes, const float* shares, size_t begin,
                                                  size_t end, double* values_gradient);

// Adds sum_b shares[b] x x^T to `products` [D, f, f], with x = features(q[b, j]) - origin[j]; weights are not
// read. If the origin [D, f] is 0 for the feature 1, the last column is sum_b shares[b] x.
EE_TRAINING_API int ee_training_products(const ee_distances* distances, const float* shares,
                                         const float* origin, size_t begin, size_t end, double* products);

// Writes the gradient with respect to queries to `query_gradient` [B, D w], from gradients of sums [D, f] and
// of products [D, f, f] of x. The gradient of the features is shares[b] (sums_gradient[j] +
// products_gradient[j] x). Gradients of products are symmetric.
EE_TRAINING_API int ee_training_products_backward(const ee_distances* distances, const float* shares,
                                                  const float* origin, const float* sums_gradient,
                                                  const float* products_gradient, size_t begin, size_t end,
                                                  float* query_gradient);

// Writes the alpha-entmax of every row of scores to `probabilities` [rows, n] (kernels/entmax/entmax.h),
// which must not overlap them.
EE_TRAINING_API void ee_training_entmax(const ee_score_rows* rows, size_t begin, size_t end,
                                        float* probabilities);

// Writes the gradient of scores from the gradient [rows, n] of their probabilities, which `probabilities` has
// in place of the scores.
EE_TRAINING_API void ee_training_entmax_backward(const ee_score_rows* probabilities, const float* gradient,
                                                 size_t begin, size_t end, float* scores_gradient);

// Writes the gradient of each row's alpha to `alphas_gradient` [rows], from the same arguments.
EE_TRAINING_API void ee_training_entmax_alpha_backward(const ee_score_rows* probabilities,
                                                       const float* gradient, size_t begin, size_t end,
                                                       float* alphas_gradient);

// Attention of B sequences, H attention heads, T queries and S keys. Strides are those of a sequence, an
// attention head and a position, in floats, and 0 where an array repeats; numbers of a position are adjacent.
typedef struct {
  const float* query;   // [B, H, T, d]
  const float* key;     // [B, G, S, d]: attention heads h G / H share keys and values; G divides H
  const float* value;   // [B, G, S, e]
  const float* mask;    // [B, H, T, S], added to the scores; null: none
  const float* alphas;  // [H], or one for all attention heads
  size_t query_strides[3], key_strides[3], value_strides[3], mask_strides[3];
  size_t out_strides[3];  // of the output [B, H, T, e]
  size_t num_heads, num_kv_heads, queries, keys, width, value_width;
  float scale;
  int32_t alpha_per_attention_head;  // 1: alphas are [H]; 0: one
} ee_attention;

// Writes out = sum_j p_j v_j with p = alpha-entmax(scale q k^T + mask) for rows begin .. end - 1 of the B H T
// rows, and p to `probabilities` [B, H, T, S] unless that is null. Values with p = 0 are not read. A key with
// mask -inf is left out, whatever its numbers; a query without any other key has p = 0 and out = 0.
EE_TRAINING_API int ee_training_attention(const ee_attention* attention, size_t begin, size_t end, float* out,
                                          float* probabilities);

// Returns the selected instruction set: avx512, avx2 or portable. EDGE_EMBED_FORCE_ISA selects another one
// that is supported.
EE_TRAINING_API const char* ee_training_isa(void);

#ifdef __cplusplus
}
#endif

#endif  // EDGE_EMBED_TRAINING_TRAINING_H_
