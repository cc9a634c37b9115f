// The kernels of a build. The file of the same name defines each.
#ifndef EDGE_EMBED_TRAINING_ISA_ISA_H_
#define EDGE_EMBED_TRAINING_ISA_ISA_H_

#include "kernels/isa/isa.h"
#include "training/kernels.h"

namespace edge_embed::training {

extern const Kernels kPortable;
#if EDGE_EMBED_X86
extern const Kernels kAvx2;
extern const Kernels kAvx512;
#endif

}  // namespace edge_embed::training

#endif  // EDGE_EMBED_TRAINING_ISA_ISA_H_
