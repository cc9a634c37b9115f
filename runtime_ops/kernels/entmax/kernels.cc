#include "kernels/entmax/kernels.h"

#include "kernels/variant.h"

namespace edge_embed::entmax {

const Kernels& ChosenKernels() {
#if defined(__x86_64__)
  constexpr const Kernels* kOthers[] = {&kAvx512, &kAvx2};
  for (const Kernels* kernels : kOthers) {
    const char *known = kernels->name, *chosen = ChosenVariant().name;
    while (*known != 0 && *known == *chosen) ++known, ++chosen;
    if (*known == *chosen) return *kernels;
  }
#endif
  return kPortable;  // for "reference" too
}

}  // namespace edge_embed::entmax
