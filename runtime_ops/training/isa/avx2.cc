// All code of this file is in an unnamed namespace or inlined, as in kernels/isa/.
#include "training/compiled.h"
#include "training/isa/isa.h"

namespace edge_embed::training {

const Kernels kAvx2 = Compiled("avx2", HasAvx2);

}  // namespace edge_embed::training
