// All code of this file is in an unnamed namespace or inlined, as in kernels/isa/.
#include "bench/peaks.h"

namespace edge_embed::bench {

const Peaks kAvx512{HasAvx512, Read<64>, MultiplyAdd<64>};

}  // namespace edge_embed::bench
