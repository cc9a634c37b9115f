// The fast kernels of DPQ, compiled once for each instruction set (kernels/isa/).
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_H_

#include "kernels/dpq/fast_bag.h"
#include "kernels/dpq/fast_gather.h"
#include "kernels/dpq/fast_logits.h"
#include "kernels/variant.h"

namespace edge_embed::dpq {
namespace {

// Tables of products are made from values that are floats.
inline ee_status AnyLogits(const Table& table, const float* hidden, size_t batch, size_t begin, size_t end,
                           const Output& logits, double* scratch, size_t* bad_row) {
  return (table.value_type == EE_INT8 ? LogitsReference<Table> : Logits)(table, hidden, batch, begin, end,
                                                                         logits, scratch, bad_row);
}
inline Size AnyLogitsScratch(const Table& table) {
  return table.value_type == EE_INT8 ? ScratchDoubles(table) : LogitsScratch(table);
}

constexpr Kernels<Table> kFast{{Gather, GatherScratch}, {Bag, BagScratch}, {AnyLogits, AnyLogitsScratch}};

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_H_
