// Everything that is compiled here is in an unnamed namespace or inlined: a function with a name of its own
// would be the linker's to share with code for other processors.
#include "kernels/isa/isa.h"
#include "kernels/tt/fast.h"

namespace edge_embed {

constexpr Variant kAvx512{"avx512", HasAvx512, &kAvx2Ant, &kAvx2Dpq, &tt::kFast};

}  // namespace edge_embed
