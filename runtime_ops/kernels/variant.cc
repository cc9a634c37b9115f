#include "kernels/variant.h"

#include "kernels/isa/isa.h"

#if __STDC_HOSTED__
#include <stdlib.h>
#endif

namespace edge_embed {
namespace {

template <class Table>
constexpr Kernels<Table> kReferenceKernels{{GatherReference<Table>, ScratchDoubles<Table>},
                                           {BagReference<Table>, ScratchDoubles<Table>},
                                           {LogitsReference<Table>, ScratchDoubles<Table>}};

void OfferEach(const float* logits, size_t count, size_t first, const Best& best) {
  best.Offer(logits, count, first);
}

bool Always() { return true; }

#define EDGE_EMBED_KERNELS(method, NAME) &kReferenceKernels<method::Table>,
[[maybe_unused]] constexpr Variant kReference{"reference", Always, OfferEach,
                                              EDGE_EMBED_METHODS(EDGE_EMBED_KERNELS)};
#undef EDGE_EMBED_KERNELS

// A library without libc has no environment.
const char* ForcedName() {
#if __STDC_HOSTED__
  const char* name = getenv("EDGE_EMBED_FORCE_ISA");
  return name == nullptr || *name == 0 ? nullptr : name;
#else
  return nullptr;
#endif
}

bool Equal(const char* a, const char* b) {
  while (*a != 0 && *a == *b) ++a, ++b;
  return *a == *b;
}

const Variant* Named(const char* name) {
  for (size_t i = 0; i < kNumVariants; ++i) {
    if (Equal(kVariants[i]->name, name)) return kVariants[i]->runs_here() ? kVariants[i] : nullptr;
  }
  return nullptr;
}

const Variant* Choose() {
  const char* forced = ForcedName();
  if (forced != nullptr) {
    if (const Variant* named = Named(forced)) return named;
  }
  size_t best = 0;
  while (!kVariants[best]->runs_here()) ++best;
  return kVariants[best];
}

const Variant* chosen = nullptr;
int is_refused = -1;  // whether EDGE_EMBED_FORCE_ISA names no variant that runs here; -1: not read yet

}  // namespace

const Variant* const kVariants[] = {
#if EDGE_EMBED_X86
    &kAvx512,
    &kAvx2,
#endif
    &kPortable,
#if !defined(__wasm__)  // every engine runs the portable kernels, and the file is downloaded
    &kReference,
#endif
};
const size_t kNumVariants = sizeof(kVariants) / sizeof(kVariants[0]);

const Variant& ChosenVariant() {
  const Variant* variant = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
  if (variant == nullptr) {  // several threads may select at the same time; all select the same variant
    variant = Choose();
    __atomic_store_n(&chosen, variant, __ATOMIC_RELAXED);
  }
  return *variant;
}

bool IsVariantRefused() {
  int refused = __atomic_load_n(&is_refused, __ATOMIC_RELAXED);
  if (refused < 0) {  // several threads may read it at the same time; all read the same
    refused = RefusedVariant() != nullptr ? 1 : 0;
    __atomic_store_n(&is_refused, refused, __ATOMIC_RELAXED);
  }
  return refused != 0;
}

const char* RefusedVariant() {
  const char* forced = ForcedName();
  return forced != nullptr && Named(forced) == nullptr ? forced : nullptr;
}

}  // namespace edge_embed
