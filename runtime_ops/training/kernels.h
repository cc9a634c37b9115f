// The functions of training.h for each instruction set.
#ifndef EDGE_EMBED_TRAINING_KERNELS_H_
#define EDGE_EMBED_TRAINING_KERNELS_H_

#include "training/training.h"

namespace edge_embed::training {

struct Kernels {
  const char* name;
  bool (*runs_here)();
  decltype(ee_training_nearest)* nearest;
  decltype(ee_training_rows)* rows;
  decltype(ee_training_soft_backward)* soft_backward;
  decltype(ee_training_centroid_backward)* centroid_backward;
  decltype(ee_training_products)* products;
  decltype(ee_training_products_backward)* products_backward;
  decltype(ee_training_entmax)* entmax;
  decltype(ee_training_entmax_backward)* entmax_backward;
  decltype(ee_training_entmax_alpha_backward)* entmax_alpha_backward;
  decltype(ee_training_attention)* attention;
};

extern const Kernels* const kKernels[];  // best first; the last runs everywhere
extern const size_t kNumKernels;

}  // namespace edge_embed::training

#endif  // EDGE_EMBED_TRAINING_KERNELS_H_
