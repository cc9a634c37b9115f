// All functions of training.h, for the instruction set that a file of training/isa/ is compiled for.
#ifndef EDGE_EMBED_TRAINING_COMPILED_H_
#define EDGE_EMBED_TRAINING_COMPILED_H_

#include "kernels/entmax/fast.h"
#include "training/attention.h"
#include "training/dpq.h"
#include "training/kernels.h"

namespace edge_embed {
namespace {

constexpr training::Kernels Compiled(const char* name, bool (*runs_here)()) {
  return {name,
          runs_here,
          Nearest,
          Rows,
          SoftBackward,
          CentroidBackward,
          Products,
          ProductsBackward,
          entmax::Forward,
          entmax::Backward,
          entmax::AlphaBackward,
          attention::Attention};
}

}  // namespace
}  // namespace edge_embed

#endif  // EDGE_EMBED_TRAINING_COMPILED_H_
