// Variants of the kernels, one for each instruction set: the list that dispatch, tests and benchmarks use.
//
// Kernels of a method are templates in kernels/<method>/fast.h, written once. kernels/isa/<variant>.cc
// compiles them for one instruction set, with its own flags (cmake/OpsLibrary.cmake). It defines an entry of
// the list.
#ifndef EDGE_EMBED_KERNELS_VARIANT_H_
#define EDGE_EMBED_KERNELS_VARIANT_H_

#include "kernels/candidate.h"
#include "kernels/methods.h"

namespace edge_embed {

// A kernel, and the doubles of scratch of any call.
template <class Table, class Run>
struct Kernel {
  Run* run;
  Size (*scratch)(const Table&);
};

// A kernel of an output layer may prepare data of the hidden states before the first row, once for all parts
// of the work. `prepared` returns its size in doubles, which may be 0. Both functions are null if the kernel
// never prepares anything. `blocks` returns the bytes of prepacked blocks that the kernel reads
// (dpq/blocks.h); null: none.
template <class Table>
struct LogitsKernel {
  decltype(LogitsReference<Table>)* run;
  Size (*scratch)(const Table&);
  void (*prepare)(const Table&, const float* hidden, size_t batch, double* prepared) = nullptr;
  Size (*prepared)(const Table&, size_t batch) = nullptr;
  Size (*blocks)(const Table&) = nullptr;

  Size Prepared(const Table& table, size_t batch) const {
    return prepared == nullptr ? Size(0) : prepared(table, batch);
  }
  Size Blocks(const Table& table) const { return blocks == nullptr ? Size(0) : blocks(table); }
  LogitsInput Prepare(const Table& table, const float* hidden, size_t batch, double* memory) const {
    if (prepare != nullptr) prepare(table, hidden, batch, memory);
    return {hidden, batch, memory};
  }
};

// Input of top-k (kernels/topk.h).
struct TopKInput {
  LogitsInput logits;
  size_t k;
  const void* bias;  // [n] of `type`, any alignment; null: none
  ee_type type;      // float32 or float16, to which logits are rounded
  Candidate* best;   // [batch, k], then [batch] locks

  Best BestOf(size_t state) const { return {best + state * k, k, best + logits.batch * k + state}; }
};

// A kernel that finds candidates without logits, for some tables.
template <class Table>
struct TopKKernel {
  bool (*takes)(const Table&);
  void (*prepare)(const Table&, const float* hidden, size_t batch, double* prepared);
  Size (*prepared)(const Table&, size_t batch);
  // Offers the rows begin .. end-1.
  void (*run)(const Table&, const TopKInput&, size_t begin, size_t end);
};

// The kernels of a variant. kernels/use.h describes them, except for the rounding of sums.
template <class Table>
struct Kernels {
  Kernel<Table, decltype(GatherReference<Table>)> gather;
  Kernel<Table, decltype(BagReference<Table>)> bag;
  LogitsKernel<Table> logits;
  const TopKKernel<Table>* topk = nullptr;
};

struct Variant {
  const char* name;
  bool (*runs_here)();
  // Offers the logits of the rows first .. first+count-1.
  void (*offer_all)(const float* logits, size_t count, size_t first, const Best& best);
#define EDGE_EMBED_KERNELS(method, NAME) const Kernels<method::Table>* method;
  EDGE_EMBED_METHODS(EDGE_EMBED_KERNELS)
#undef EDGE_EMBED_KERNELS
};

// All variants of this build, best first. The last one runs on every processor; it is
// "reference", or "portable" for WebAssembly.
extern const Variant* const kVariants[];
extern const size_t kNumVariants;

// The best variant of this processor, or the one that EDGE_EMBED_FORCE_ISA names. The first call selects it.
// An unknown or unsupported name is ignored.
const Variant& ChosenVariant();

// The value of EDGE_EMBED_FORCE_ISA if it is unknown or unsupported, else null.
const char* RefusedVariant();

// Whether there is such a value. The first call reads it, so that later calls cost nothing.
bool IsVariantRefused();

#define EDGE_EMBED_KERNELS_OF(method, NAME)                                                      \
  inline const Kernels<method::Table>& KernelsOf(const Variant& variant, const method::Table&) { \
    return *variant.method;                                                                      \
  }
EDGE_EMBED_METHODS(EDGE_EMBED_KERNELS_OF)
#undef EDGE_EMBED_KERNELS_OF

// The selected kernels for a table.
template <class Table>
const Kernels<Table>& ChosenKernels(const Table& table) {
  return KernelsOf(ChosenVariant(), table);
}

}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_VARIANT_H_
