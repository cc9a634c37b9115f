// All code of this file is in an unnamed namespace or inlined, as in kernels/isa/.
#include "bench/peaks.h"

namespace edge_embed::bench {

const Peaks kAvx2{HasAvx2, Read<32>, MultiplyAdd<32>};

}  // namespace edge_embed::bench
