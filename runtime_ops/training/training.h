// What training and compression compute of product quantisation (DPQ) on the host, in C. No part of what runs
// a model: a library of its own, which no device needs. `edge_embed/ops/dpq_kernels.py` calls it.
//
//     r[b, j, k] = sum_i features(q[b, j])[i] * weights[j, i, k]         larger is nearer
//     features(q) = (q, 1), (q, |q|^2, 1), or (q / |q|, 1)              by metric: dot, euclidean, cosine
//
// Source of the formulas: edge_embed/ops/dpq_distance.py. Shapes: B queries, D groups of key width w, f
// features of each (f = w + 1, or w + 2 for euclidean), K codes per group, values of width s. All numbers are
// float32 unless told otherwise; sums over queries are float64 and added to what is there. A sum for one
// query has an order of its own, whatever the other queries are. Every function takes the queries begin ..
// end - 1, so that threads may share them (sums each in memory of its own), checks nothing, and gives 0, or 1
// where there is no memory.
#ifndef EDGE_EMBED_TRAINING_TRAINING_H_
#define EDGE_EMBED_TRAINING_TRAINING_H_

#include <stddef.h>
#include <stdint.h>

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
  int32_t per_group;  // whether weights are [D, f, K]
} ee_distances;

typedef struct {
  const float* data;  // [D, K, s], or [1, K, s] for all groups
  size_t width;       // s
  int32_t per_group;  // whether there are D of them
} ee_values;

typedef struct {
  void* data;     // [D, B]: uint8, or int32
  int32_t bytes;  // of each: 1, for K of up to 256, or 4
} ee_codes;

// Codes of the largest r, the lowest of equals. `leads` [D, B]: how much larger it is than the
// second largest, infinite where K is 1; null: not wanted. Where r is not finite the code is any.
EE_TRAINING_API int ee_training_nearest(const ee_distances* distances, size_t begin, size_t end,
                                        const ee_codes* codes, float* leads);

// The values of codes as rows [B, D s]. Of `distances` B, D and K alone are read.
EE_TRAINING_API int ee_training_rows(const ee_distances* distances, const ee_values* values,
                                     const ee_codes* codes, size_t begin, size_t end, float* rows);

// What queries [B, D w], weights and values learn from `gradient` [B, D s] of rows that pass the choice on
// the way back, with p = softmax(r / temperature):
//
//     of_choice[k] = <gradient[b, j], values[j, k]>      dr[k] = p[k] (of_choice[k] - <p, of_choice>) /
//     temperature
//
// The first is written, to `query_gradient`; the others are added to sums [D or 1, f, K] and [D or 1, K, s].
// Values learn from the choice alone, `codes`.
EE_TRAINING_API int ee_training_soft_backward(const ee_distances* distances, const ee_values* values,
                                              const ee_codes* codes, float temperature, const float* gradient,
                                              size_t begin, size_t end, float* query_gradient,
                                              double* weights_gradient, double* values_gradient);

// What values learn from being near to the queries that chose them: 2 shares[b] (values[j, c] - q[b, j]), c
// of `codes`, is added to `values_gradient` [D or 1, K, w]. The width of values is w; weights are not
// read.
EE_TRAINING_API int ee_training_centroid_backward(const ee_distances* distances, const ee_values* values,
                                                  const ee_codes* codes, const float* shares, size_t begin,
                                                  size_t end, double* values_gradient);

// Adds sum_b shares[b] x x^T to `products` [D, f, f], with x = features(q[b, j]) - origin[j]; weights are not
// read. Where the origin [D, f] has a 0 for the feature 1, the last column is sum_b shares[b] x.
EE_TRAINING_API int ee_training_products(const ee_distances* distances, const float* shares,
                                         const float* origin, size_t begin, size_t end, double* products);

// Writes what queries learn from sums [D, f] and products [D, f, f] of x, to `query_gradient` [B, D w]:
// features learn shares[b] (sums_gradient[j] + products_gradient[j] x). Gradients of products are symmetric.
EE_TRAINING_API int ee_training_products_backward(const ee_distances* distances, const float* shares,
                                                  const float* origin, const float* sums_gradient,
                                                  const float* products_gradient, size_t begin, size_t end,
                                                  float* query_gradient);

// The set of instructions that is used: avx512, avx2 or portable; EDGE_EMBED_FORCE_ISA names another one, if
// it is there.
EE_TRAINING_API const char* ee_training_isa(void);

#ifdef __cplusplus
}
#endif

#endif  // EDGE_EMBED_TRAINING_TRAINING_H_
