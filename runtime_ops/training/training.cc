#include "training/training.h"

#include <stdlib.h>
#include <string.h>

#include "training/isa/isa.h"

namespace edge_embed::training {

const Kernels* const kKernels[] = {
#if EDGE_EMBED_X86
    &kAvx512,
    &kAvx2,
#endif
    &kPortable,
};
const size_t kNumKernels = sizeof(kKernels) / sizeof(kKernels[0]);

namespace {

const Kernels& Choose() {
  const char* forced = getenv("EDGE_EMBED_FORCE_ISA");
  const Kernels* best = nullptr;
  for (const Kernels* kernels : kKernels) {
    if (!kernels->runs_here()) continue;
    if (forced != nullptr && strcmp(forced, kernels->name) == 0) return *kernels;
    if (best == nullptr) best = kernels;
  }
  return *best;
}

const Kernels* chosen = nullptr;

const Kernels& Chosen() {
  const Kernels* kernels = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
  if (kernels == nullptr) {  // several threads may select at the same time; all select the same kernels
    kernels = &Choose();
    __atomic_store_n(&chosen, kernels, __ATOMIC_RELAXED);
  }
  return *kernels;
}

}  // namespace
}  // namespace edge_embed::training

using edge_embed::training::Chosen;

int ee_training_nearest(const ee_distances* distances, size_t begin, size_t end, const ee_codes* codes,
                        float* leads) {
  return Chosen().nearest(distances, begin, end, codes, leads);
}

int ee_training_rows(const ee_distances* distances, const ee_values* values, const ee_codes* codes,
                     size_t begin, size_t end, float* rows) {
  return Chosen().rows(distances, values, codes, begin, end, rows);
}

int ee_training_soft_backward(const ee_distances* distances, const ee_values* values, const ee_codes* codes,
                              float temperature, const float* gradient, size_t begin, size_t end,
                              float* query_gradient, double* weights_gradient, double* values_gradient) {
  return Chosen().soft_backward(distances, values, codes, temperature, gradient, begin, end, query_gradient,
                                weights_gradient, values_gradient);
}

int ee_training_centroid_backward(const ee_distances* distances, const ee_values* values,
                                  const ee_codes* codes, const float* shares, size_t begin, size_t end,
                                  double* values_gradient) {
  return Chosen().centroid_backward(distances, values, codes, shares, begin, end, values_gradient);
}

int ee_training_products(const ee_distances* distances, const float* shares, const float* origin,
                         size_t begin, size_t end, double* products) {
  return Chosen().products(distances, shares, origin, begin, end, products);
}

int ee_training_products_backward(const ee_distances* distances, const float* shares, const float* origin,
                                  const float* sums_gradient, const float* products_gradient, size_t begin,
                                  size_t end, float* query_gradient) {
  return Chosen().products_backward(distances, shares, origin, sums_gradient, products_gradient, begin, end,
                                    query_gradient);
}

void ee_training_entmax(const ee_score_rows* rows, size_t begin, size_t end, float* probabilities) {
  Chosen().entmax(rows, begin, end, probabilities);
}

void ee_training_entmax_backward(const ee_score_rows* probabilities, const float* gradient, size_t begin,
                                 size_t end, float* scores_gradient) {
  Chosen().entmax_backward(probabilities, gradient, begin, end, scores_gradient);
}

void ee_training_entmax_alpha_backward(const ee_score_rows* probabilities, const float* gradient,
                                       size_t begin, size_t end, float* alphas_gradient) {
  Chosen().entmax_alpha_backward(probabilities, gradient, begin, end, alphas_gradient);
}

int ee_training_attention(const ee_attention* attention, size_t begin, size_t end, float* out,
                          float* probabilities) {
  return Chosen().attention(attention, begin, end, out, probabilities);
}

const char* ee_training_isa(void) { return Chosen().name; }
