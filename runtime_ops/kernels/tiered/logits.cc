// logits[b, i] = hidden[b] . row of tier(i) at place(i)
//
// Consecutive ids are consecutive rows of each tier. The kernels of the tiers compute the logits of these
// rows, which are then put in the order of the ids.
#include "kernels/tiered/chunk.h"

namespace edge_embed::tiered {
namespace {

// Logits that are computed together, for all states: below 2^16, the limit of Counts.
constexpr size_t kSpanLogits = 16384;

// Some consecutive ids, and their rows of each tier.
struct TierRows {
  size_t rows = 0;
  size_t starts[kTiers] = {};
  size_t counts[kTiers + 1] = {};  // the last one is that of a tier that does not exist
};

// The ids from `first` on, at most `most`. In a damaged table, a rank may differ from the end of the block
// before: the ids then end there.
TierRows TakeRows(const TierKernels& kernels, const Table& table, size_t first, size_t most) {
  TierRows taken;
  while (taken.rows < most) {
    const size_t id = first + taken.rows, block = id / kBlockRows, begin = id % kBlockRows;
    const size_t left = most - taken.rows, end = kBlockRows - begin < left ? kBlockRows : begin + left;
    const unsigned char* const codes = table.map + block * kBlockBytes;
    TierRows next = taken;
    size_t others = end - begin;
    for (size_t t = 0; t < kTiers; ++t) {
      const int64_t rank = Load<int32_t>(table.ranks, block * kTiers + t);
      const size_t start = static_cast<size_t>(rank) + kernels.loops->count(codes, t, 0, begin);
      const size_t rows = kernels.loops->count(codes, t, begin, end);
      if (taken.rows == 0) next.starts[t] = start;
      if (start != next.starts[t] + taken.counts[t]) return taken;
      next.counts[t] += rows;
      others -= rows;
    }
    next.counts[kTiers] += others;
    next.rows += end - begin;
    taken = next;
  }
  return taken;
}

// The logits of a call.
class TieredLogits {
 public:
  TieredLogits(const TierKernels& kernels, const Table& table, const LogitsInput& input,
               const LogitsOutput& logits, double* scratch)
      : kernels_(kernels),
        table_(table),
        tiers_(table),
        input_(input),
        logits_(logits),
        span_logits_(reinterpret_cast<float*>(scratch)),
        scratch_(scratch + (kSpanLogits + kMostLanes) / 2),
        most_(RowsAtOnce(input.batch)) {
    const double* prepared = input.prepared;
    for (size_t t = 0; t < kTiers; ++t) {
      prepared_[t] = prepared;
      prepared += WithTier(kernels, table.tiers[t], [&](const auto& inner, const auto& tier) {
                    return inner.logits.Prepared(tier, input.batch);
                  }).saturated();
    }
  }

  // Without a map, the logits of a tier follow each other.
  ee_status Sorted(size_t begin, size_t end, size_t* bad_position) const {
    size_t start = 0;
    for (size_t t = 0; t < kTiers; ++t) {
      const size_t stop = start + static_cast<size_t>(tiers_.tables[t].num_embeddings);
      const size_t first = begin < start ? start : begin, last = end < stop ? end : stop;
      if (first < last) {
        size_t bad = 0;
        const LogitsOutput own{logits_.out, logits_.step, logits_.first - start};
        const ee_status status = Run(t, first - start, last - start, own, &bad);
        if (status != EE_OK) *bad_position = bad + start;
        if (status != EE_OK) return status;
      }
      start = stop;
    }
    return EE_OK;
  }

  ee_status Mapped(size_t begin, size_t end, size_t* bad_position) const {
    for (size_t first = begin; first < end;) {
      const size_t most = end - first < most_ ? end - first : most_;
      const TierRows taken = TakeRows(kernels_, table_, first, most);
      size_t rows = taken.rows;
      const ee_status status = Together(first, taken, &rows);
      first += rows;
      if (status != EE_OK) *bad_position = first;
      if (status != EE_OK) return status;
    }
    return EE_OK;
  }

 private:
  // Not a power of two: the logits of all states of a row would share a few places of a cache.
  static size_t RowsAtOnce(size_t batch) {
    const size_t rows = batch < kSpanLogits ? kSpanLogits / batch : 1;
    return rows > kMostLanes ? rows - kMostLanes : rows;
  }

  // Logits of the rows begin .. end-1 of a tier.
  ee_status Run(size_t t, size_t begin, size_t end, const LogitsOutput& logits, size_t* bad) const {
    const LogitsInput input{input_.hidden, input_.batch, prepared_[t]};
    return WithTier(kernels_, tiers_.tables[t], [&](const auto& inner, const auto& tier) {
      return inner.logits.run(tier, input, begin, end, logits, scratch_, bad);
    });
  }

  // Logits of consecutive ids. On an error, *rows is their number before the first damaged row.
  ee_status Together(size_t first, const TierRows& taken, size_t* rows) const {
    size_t sound[kTiers + 1] = {}, begun = 0;
    ee_status statuses[kTiers + 1] = {EE_BAD_TIER_PLACE, EE_BAD_TIER_PLACE, EE_BAD_TIER_PLACE,
                                      EE_BAD_TIER_PLACE};
    Counts begins;
    for (size_t t = 0; t < kTiers; begun += taken.counts[t], ++t) {
      begins.Add(t, begun);
      const size_t all = static_cast<size_t>(table_.tiers[t].num_embeddings), start = taken.starts[t];
      const size_t left = start < all ? all - start : 0;
      sound[t] = taken.counts[t] < left ? taken.counts[t] : left;
      if (sound[t] == 0) continue;
      size_t bad = 0;
      const LogitsOutput own{{span_logits_, EE_FLOAT32}, most_, start - begun};
      const ee_status status = Run(t, start, start + sound[t], own, &bad);
      if (status == EE_OK) continue;
      statuses[t] = status;
      sound[t] = bad - start;
    }
    const size_t ending = End(first, taken, sound, rows);
    const ee_type type = logits_.out.type;
    for (size_t b = 0; b < input_.batch; ++b) {
      auto* const to = static_cast<unsigned char*>(logits_.out.data) + logits_.At(b, first) * SizeOf(type);
      kernels_.interleave(table_, {first, *rows, span_logits_ + b * most_, begins}, type, to);
    }
    return *rows == taken.rows ? EE_OK : statuses[ending];
  }

  // Sets *rows to the number of ids before the first whose tier has no more sound logits, and returns that
  // tier.
  size_t End(size_t first, const TierRows& taken, const size_t (&sound)[kTiers + 1], size_t* rows) const {
    size_t used[kTiers + 1] = {}, missing = 0;
    for (size_t t = 0; t <= kTiers; ++t) missing += taken.counts[t] - sound[t];
    for (size_t i = 0; missing > 0; ++i) {
      const size_t tier = TierOf(table_.map, first + i);
      if (used[tier]++ < sound[tier]) continue;
      *rows = i;
      return tier;
    }
    return 0;
  }

  const TierKernels& kernels_;
  const Table& table_;
  const Tiers tiers_;
  const LogitsInput& input_;
  const LogitsOutput& logits_;
  float* const span_logits_;
  double* const scratch_;
  const size_t most_;  // ids of which logits are computed together
  const double* prepared_[kTiers];
};

}  // namespace

Size LogitsScratchBy(const TierKernels& kernels, const Table& table) {
  const Size own = LargestOf(kernels, table,
                             [](const auto& inner, const auto& tier) { return inner.logits.scratch(tier); });
  return own + (kSpanLogits + kMostLanes) / 2;
}

ee_status LogitsBy(const TierKernels& kernels, const Table& table, const LogitsInput& input, size_t begin,
                   size_t end, const LogitsOutput& logits, double* scratch, size_t* bad_position) {
  if (input.batch == 0) return EE_OK;
  const TieredLogits call(kernels, table, input, logits, scratch);
  return table.map == nullptr ? call.Sorted(begin, end, bad_position) : call.Mapped(begin, end, bad_position);
}

// The prepared data of each tier, one after another.
Size PreparedBy(const TierKernels& kernels, const Table& table, size_t batch) {
  Size doubles = 0;
  for (const dpq_scaled::Table& one : table.tiers) {
    doubles = doubles + WithTier(kernels, one, [=](const auto& inner, const auto& tier) {
                return inner.logits.Prepared(tier, batch);
              });
  }
  return doubles;
}

void PrepareBy(const TierKernels& kernels, const Table& table, const float* hidden, size_t batch,
               double* memory) {
  for (const dpq_scaled::Table& one : table.tiers) {
    WithTier(kernels, one, [&](const auto& inner, const auto& tier) {
      inner.logits.Prepare(tier, hidden, batch, memory);
      memory += inner.logits.Prepared(tier, batch).saturated();
    });
  }
}

}  // namespace edge_embed::tiered
