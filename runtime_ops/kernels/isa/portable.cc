// All code of this file is in an unnamed namespace or inlined. The linker could otherwise use a function of
// this file on other processors.
#include "kernels/fast.h"
#include "kernels/isa/isa.h"

namespace edge_embed {
namespace {

bool Always() { return true; }

}  // namespace

#define EDGE_EMBED_KERNELS(method, NAME) &method::kFast,
constexpr Variant kPortable{"portable", Always, OfferAll, EDGE_EMBED_METHODS(EDGE_EMBED_KERNELS)};
#undef EDGE_EMBED_KERNELS

}  // namespace edge_embed
