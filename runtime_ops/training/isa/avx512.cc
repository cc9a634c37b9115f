// All code of this file is in an unnamed namespace or inlined, as in kernels/isa/.
#include "training/compiled.h"
#include "training/isa/isa.h"

namespace edge_embed::training {

const Kernels kAvx512 = Compiled("avx512", HasAvx512);

}  // namespace edge_embed::training
