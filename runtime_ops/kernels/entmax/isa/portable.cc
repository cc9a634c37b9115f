// All code of this file is in an unnamed namespace or inlined, as in kernels/isa/.
#include "kernels/entmax/kernels.h"
#include "kernels/entmax/topk.h"

namespace edge_embed::entmax {

const Kernels kPortable{"portable", Forward, TopK};

}  // namespace edge_embed::entmax
