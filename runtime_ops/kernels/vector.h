// Loops over vectors of doubles.
#ifndef EDGE_EMBED_KERNELS_VECTOR_H_
#define EDGE_EMBED_KERNELS_VECTOR_H_

#include <stddef.h>

namespace edge_embed {

void Fill(double value, size_t count, double* out);

// sum[k] += weight * vector[k]
void AddVector(double weight, const double* vector, size_t count, double* sum);

// largest[k] = max(largest[k], vector[k]); NaN stays, as in numpy.
void KeepLargest(const double* vector, size_t count, double* largest);

// sum over k of a[k] * b[k]; a at any alignment.
double Dot(const float* a, const double* b, size_t count);

}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_VECTOR_H_
