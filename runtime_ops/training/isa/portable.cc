// All code of this file is in an unnamed namespace or inlined, as in kernels/isa/.
#include "training/compiled.h"
#include "training/isa/isa.h"

namespace edge_embed::training {
namespace {

bool Always() { return true; }

}  // namespace
const Kernels kPortable = Compiled("portable", Always);

}  // namespace edge_embed::training
