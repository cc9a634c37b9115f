// Kernels in variants, one for each instruction set: the list that dispatch, tests and benchmarks go through.
//
// Kernels of a method are templates in kernels/<method>/fast.h, written once. kernels/isa/<variant>.cc
// compiles them for one instruction set, with flags of its own (cmake/OpsLibrary.cmake), and has the row of
// the list.
#ifndef EDGE_EMBED_KERNELS_VARIANT_H_
#define EDGE_EMBED_KERNELS_VARIANT_H_

#include "kernels/candidate.h"
#include "kernels/methods.h"

namespace edge_embed {

// One kernel, and the doubles of scratch that any call of it needs.
template <class Table, class Run>
struct Kernel {
  Run* run;
  Size (*scratch)(const Table&);
};

// A head's kernel may make something of the hidden states before the first row, once for all parts of the
// work: as many doubles as `prepared` says, which may be none. Where it never makes anything, both are null.
// `blocks`: how many bytes of blocks it reads where the table has them (dpq/blocks.h); null: none.
template <class Table>
struct Head {
  decltype(LogitsReference<Table>)* run;
  Size (*scratch)(const Table&);
  void (*prepare)(const Table&, const float* hidden, size_t batch, double* prepared) = nullptr;
  Size (*prepared)(const Table&, size_t batch) = nullptr;
  Size (*blocks)(const Table&) = nullptr;

  Size Prepared(const Table& table, size_t batch) const {
    return prepared == nullptr ? Size(0) : prepared(table, batch);
  }
  Size Blocks(const Table& table) const { return blocks == nullptr ? Size(0) : blocks(table); }
  HeadInput Prepare(const Table& table, const float* hidden, size_t batch, double* memory) const {
    if (prepare != nullptr) prepare(table, hidden, batch, memory);
    return {hidden, batch, memory};
  }
};

// What the k largest logits are of (kernels/topk.h).
struct TopKInput {
  HeadInput head;
  size_t k;
  const void* bias;  // [n] of `type`, any alignment; null: none
  ee_type type;      // float32 or float16, that logits are rounded to
  Candidate* best;   // [batch, k], then [batch] locks

  Best BestOf(size_t state) const { return {best + state * k, k, best + head.batch * k + state}; }
};

// A way to candidates that makes no logits, for some tables.
template <class Table>
struct TopKKernel {
  bool (*takes)(const Table&);
  void (*prepare)(const Table&, const float* hidden, size_t batch, double* prepared);
  Size (*prepared)(const Table&, size_t batch);
  // Offers the rows begin .. end-1.
  void (*run)(const Table&, const TopKInput&, size_t begin, size_t end);
};

// What kernels/use.h says of the reference kernels holds for all of them, but for how sums are rounded.
template <class Table>
struct Kernels {
  Kernel<Table, decltype(GatherReference<Table>)> gather;
  Kernel<Table, decltype(BagReference<Table>)> bag;
  Head<Table> logits;
  const TopKKernel<Table>* topk = nullptr;
};

struct Variant {
  const char* name;
  bool (*runs_here)();
  // Offers logits of the rows first .. first+count-1.
  void (*offer_all)(const float* logits, size_t count, size_t first, const Best& best);
#define EDGE_EMBED_KERNELS(method, NAME) const Kernels<method::Table>* method;
  EDGE_EMBED_METHODS(EDGE_EMBED_KERNELS)
#undef EDGE_EMBED_KERNELS
};

// All that this build has, best first; the last one, "reference", runs everywhere.
extern const Variant* const kVariants[];
extern const size_t kNumVariants;

// The best that runs here, or the one that EDGE_EMBED_FORCE_ISA names, found out at the first call. A name
// that is not in the list, or does not run here, is no choice.
const Variant& ChosenVariant();

// What EDGE_EMBED_FORCE_ISA asks for in vain, or null.
const char* RefusedVariant();

#define EDGE_EMBED_KERNELS_OF(method, NAME)                                                      \
  inline const Kernels<method::Table>& KernelsOf(const Variant& variant, const method::Table&) { \
    return *variant.method;                                                                      \
  }
EDGE_EMBED_METHODS(EDGE_EMBED_KERNELS_OF)
#undef EDGE_EMBED_KERNELS_OF

// Those to use for a table.
template <class Table>
const Kernels<Table>& ChosenKernels(const Table& table) {
  return KernelsOf(ChosenVariant(), table);
}

}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_VARIANT_H_
