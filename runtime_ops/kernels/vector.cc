#include "kernels/vector.h"

#include "kernels/element.h"

namespace edge_embed {

void Fill(double value, size_t count, double* out) {
  for (size_t k = 0; k < count; ++k) out[k] = value;
}

void AddVector(double weight, const double* vector, size_t count, double* sum) {
  for (size_t k = 0; k < count; ++k) sum[k] += weight * vector[k];
}

void KeepLargest(const double* vector, size_t count, double* largest) {
  for (size_t k = 0; k < count; ++k) {
    if (!(vector[k] <= largest[k]) && largest[k] == largest[k]) largest[k] = vector[k];
  }
}

// Eight independent sums, so that an addition does not wait for the one before it.
double Dot(const float* a, const double* b, size_t count) {
  constexpr size_t kLanes = 8;
  double sums[kLanes] = {};
  size_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += ToDouble(Load<float>(a, k + lane)) * b[k + lane];
    }
  }
  double total = 0;
  for (; k < count; ++k) total += ToDouble(Load<float>(a, k)) * b[k];
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace edge_embed
