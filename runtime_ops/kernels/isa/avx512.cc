// All code of this file is in an unnamed namespace or inlined. The linker could otherwise use a function of
// this file on other processors.
#include "kernels/ant/fast_sum.h"
#include "kernels/dpq/fast_topk.h"
#include "kernels/dpq_scaled/fast.h"
#include "kernels/fast_offer.h"
#include "kernels/isa/isa.h"
#include "kernels/tiered/fast_interleave.h"
#include "kernels/tt/fast.h"

namespace edge_embed {
namespace {

ee_status AntGather(const ant::Table& table, const Ids& ids, size_t begin, size_t end, const Output& rows,
                    double* scratch, size_t* bad_position) {
  return Avx2AntGather(ant::kLoops, table, ids, begin, end, rows, scratch, bad_position);
}
Size AntGatherScratch(const ant::Table& table) { return kAvx2ANT.gather.scratch(table); }

ee_status AntBag(const ant::Table& table, const Ids& ids, const Bags& bags, size_t begin, size_t end,
                 const Output& out, double* scratch, size_t* bad_position) {
  return Avx2AntBag(ant::kLoops, table, ids, bags, begin, end, out, scratch, bad_position);
}
Size AntBagScratch(const ant::Table& table) { return kAvx2ANT.bag.scratch(table); }

void AntPrepare(const ant::Table& table, const float* hidden, size_t batch, double* prepared) {
  kAvx2ANT.logits.prepare(table, hidden, batch, prepared);
}
Size AntPrepared(const ant::Table& table, size_t batch) { return kAvx2ANT.logits.prepared(table, batch); }
ee_status AntLogits(const ant::Table& table, const LogitsInput& input, size_t begin, size_t end,
                    const LogitsOutput& logits, double* scratch, size_t* bad_position) {
  return kAvx2ANT.logits.run(table, input, begin, end, logits, scratch, bad_position);
}
Size AntLogitsScratch(const ant::Table& table) { return kAvx2ANT.logits.scratch(table); }

// Kernels of single columns are those of rows with scales, which a library may lack.
#if defined(EDGE_EMBED_NO_DPQ_SCALED)
constexpr bool kHasColumns = false;
#else
constexpr bool kHasColumns = true;
#endif
bool IsColumnwise(const dpq::Table& table) { return kHasColumns && dpq_scaled::IsColumnwise(table); }
bool MakesColumns(const dpq::Table& table) { return kHasColumns && dpq_scaled::MakesColumns(table); }

// The same table for the kernels of rows with scales.
__attribute__((noinline)) dpq_scaled::Table Unscaled(const dpq::Table& table) {
  dpq_scaled::Table unscaled{};
  static_cast<dpq::Table&>(unscaled) = table;
  return unscaled;
}

ee_status DpqGather(const dpq::Table& table, const Ids& ids, size_t begin, size_t end, const Output& rows,
                    double* scratch, size_t* bad_position) {
  constexpr size_t kFewRows = 2;  // eight are looked up together
  if (!IsColumnwise(table) || end - begin <= kFewRows) {
    return kAvx2DPQ.gather.run(table, ids, begin, end, rows, scratch, bad_position);
  }
  return dpq_scaled::Gather(Unscaled(table), ids, begin, end, rows, scratch, bad_position);
}
Size DpqGatherScratch(const dpq::Table& table) {
  return IsColumnwise(table) ? dpq_scaled::GatherScratch(Unscaled(table)) : kAvx2DPQ.gather.scratch(table);
}

ee_status DpqBag(const dpq::Table& table, const Ids& ids, const Bags& bags, size_t begin, size_t end,
                 const Output& out, double* scratch, size_t* bad_position) {
  if (!IsColumnwise(table)) {
    return kAvx2DPQ.bag.run(table, ids, bags, begin, end, out, scratch, bad_position);
  }
  return dpq_scaled::Bag(Unscaled(table), ids, bags, begin, end, out, scratch, bad_position);
}
Size DpqBagScratch(const dpq::Table& table) {
  return IsColumnwise(table) ? dpq_scaled::BagScratch(Unscaled(table)) : kAvx2DPQ.bag.scratch(table);
}

void PermutedPrepare(const dpq::Table& table, const float* hidden, size_t batch, double* prepared) {
  if (dpq::Permutes(table)) return dpq::PreparePermuted(table, hidden, batch, prepared);
  kAvx2DPQ.logits.prepare(table, hidden, batch, prepared);
}
Size PermutedPrepared(const dpq::Table& table, size_t batch) {
  return dpq::Permutes(table) ? dpq::PartsDoubles(table, batch) : kAvx2DPQ.logits.prepared(table, batch);
}
ee_status PermutedLogits(const dpq::Table& table, const LogitsInput& input, size_t begin, size_t end,
                         const LogitsOutput& logits, double* scratch, size_t* bad_position) {
  if (!dpq::Permutes(table)) {
    return kAvx2DPQ.logits.run(table, input, begin, end, logits, scratch, bad_position);
  }
  dpq::PermuteLogits(table, {input, begin, end, logits});
  return EE_OK;
}
// Blocks save a third of the time of an output layer. With AVX2 and NEON, lookups dominate, and blocks save
// less than a tenth.
Size DpqBlocks(const dpq::Table& table) { return dpq::Permutes(table) ? dpq::BlocksBytes(table) : Size(0); }
Size PermutedScratch(const dpq::Table& table) { return kAvx2DPQ.logits.scratch(table); }

constexpr LogitsKernel<dpq::Table> kPlainLogits{PermutedLogits, PermutedScratch, PermutedPrepare,
                                                PermutedPrepared, DpqBlocks};
constexpr Kernels<dpq_scaled::Table> kDPQ_SCALED = dpq_scaled::kAround<kPlainLogits>;

void DpqPrepare(const dpq::Table& table, const float* hidden, size_t batch, double* prepared) {
  if (!MakesColumns(table)) return PermutedPrepare(table, hidden, batch, prepared);
  kDPQ_SCALED.logits.prepare(Unscaled(table), hidden, batch, prepared);
}
Size DpqPrepared(const dpq::Table& table, size_t batch) {
  return MakesColumns(table) ? kDPQ_SCALED.logits.prepared(Unscaled(table), batch)
                             : PermutedPrepared(table, batch);
}
ee_status DpqLogits(const dpq::Table& table, const LogitsInput& input, size_t begin, size_t end,
                    const LogitsOutput& logits, double* scratch, size_t* bad_position) {
  if (!MakesColumns(table)) {
    return PermutedLogits(table, input, begin, end, logits, scratch, bad_position);
  }
  return kDPQ_SCALED.logits.run(Unscaled(table), input, begin, end, logits, scratch, bad_position);
}
Size DpqLogitsScratch(const dpq::Table& table) {
  return MakesColumns(table) ? kDPQ_SCALED.logits.scratch(Unscaled(table)) : PermutedScratch(table);
}

constexpr Kernels<ant::Table> kANT{{AntGather, AntGatherScratch},
                                   {AntBag, AntBagScratch},
                                   {AntLogits, AntLogitsScratch, AntPrepare, AntPrepared}};
constexpr Kernels<dpq::Table> kDPQ{{DpqGather, DpqGatherScratch},
                                   {DpqBag, DpqBagScratch},
                                   {DpqLogits, DpqLogitsScratch, DpqPrepare, DpqPrepared, DpqBlocks},
                                   dpq::kTopK};
constexpr tiered::TierKernels kTierKernels{&kDPQ, &kDPQ_SCALED, &kAvx2TierLoops, tiered::Interleave};
constexpr Kernels<tiered::Table> kTIERED = tiered::Around<kTierKernels>::kKernels;
constexpr Kernels<tt::Table> kTT = tt::kFast;

}  // namespace

#define EDGE_EMBED_KERNELS(method, NAME) &k##NAME,
constexpr Variant kAvx512{"avx512", HasAvx512, OfferAll, EDGE_EMBED_METHODS(EDGE_EMBED_KERNELS)};
#undef EDGE_EMBED_KERNELS

}  // namespace edge_embed
