// Rows and bags of tiered tables: the rows of some ids are made at their places, or reduced in the order
// of the ids.
#include "kernels/tiered/chunk.h"

namespace edge_embed::tiered {
namespace {

// Doubles of the two totals of a bag.
Size TotalsDoubles(const Table& table) { return Size(Columns(table)) + kMostLanes; }

// Reduces the bags of a call, which end before `last`.
class BagRows {
 public:
  BagRows(const TierKernels& kernels, const Table& table, const Ids& ids, const Bags& bags, size_t last,
          const Output& out, double* scratch)
      : loops_(*kernels.loops),
        table_(table),
        ids_(ids),
        bags_(bags),
        last_(last),
        out_(out),
        chunk_(kernels, table, ids, scratch + TotalsDoubles(table).saturated()),
        part_{rows_,
              weights_,
              0,
              Columns(table),
              true,
              reinterpret_cast<float*>(scratch),
              reinterpret_cast<float*>(scratch) + Columns(table) + kMostLanes} {}

  // A bag that exceeds a chunk is reduced in several parts.
  ee_status Run(size_t bag, size_t* bad_position) {
    const size_t end = Offset(bag + 1);
    size_t begin = Offset(bag), counted = 0;
    do {
      part_.first = counted == 0;
      begin = Take(bag, begin, end);
      if (begin < end && chunk_.status() != EE_OK) {
        *bad_position = begin;
        return chunk_.status();
      }
      (bags_.mode == BagMode::kMax ? loops_.keep_largest : loops_.add)(part_);
      counted += part_.count;
    } while (begin < end);
    const float divisor = bags_.mode == BagMode::kMean && counted > 0 ? static_cast<float>(counted) : 1;
    loops_.write_totals(part_, divisor, out_, bag * part_.columns);
    return EE_OK;
  }

 private:
  size_t Offset(size_t bag) const { return static_cast<size_t>(Load<int64_t>(bags_.offsets, bag)); }

  // Takes the rows of a bag from the id `begin` on, without padding rows, and returns the position after
  // them.
  size_t Take(size_t bag, size_t begin, size_t end) {
    part_.count = 0;
    if (begin == end) return end;
    if (end > first_ + chunk_.count()) {
      chunk_.Make(begin, EndOfBags(bag, begin));
      first_ = begin;
    }
    const size_t made = first_ + chunk_.count(), next = end < made ? end : made;
    for (size_t i = begin; i < next; ++i) {
      if (table_.padding_idx != kNoPadding && ids_.At(i) == table_.padding_idx) continue;
      rows_[part_.count] = chunk_.rows()[i - first_];
      weights_[part_.count++] = Weight(i);
    }
    return next;
  }

  // The end of the bags from `bag` on whose rows are made together.
  size_t EndOfBags(size_t bag, size_t begin) const {
    do ++bag;
    while (bag < last_ && Offset(bag + 1) - begin <= chunk_.MostIds());
    return Offset(bag);
  }

  float Weight(size_t i) const {
    if (bags_.sample_weights == nullptr) return 1;
    return static_cast<float>(LoadNumber(bags_.sample_weights, bags_.sample_weight_type, i));
  }

  const Loops& loops_;
  const Table& table_;
  const Ids& ids_;
  const Bags& bags_;
  const size_t last_;
  const Output& out_;
  Chunk chunk_;
  size_t first_ = 0;  // id of the chunk
  const float* rows_[kMostIds];
  float weights_[kMostIds];
  BagPart part_;
};

}  // namespace

Size GatherScratchBy(const TierKernels& kernels, const Table& table) {
  return Chunk::WriteDoubles(kernels, table);
}

ee_status GatherBy(const TierKernels& kernels, const Table& table, const Ids& ids, size_t begin, size_t end,
                   const Output& rows, double* scratch, size_t* bad_position) {
  if (rows.type != EE_FLOAT32) return EE_BAD_TYPE;
  const size_t columns = Columns(table);
  Chunk chunk(kernels, table, ids, scratch);
  for (size_t first = begin; first < end; first += chunk.count()) {
    chunk.Write(first, end, static_cast<float*>(rows.data) + first * columns);
    if (chunk.status() == EE_OK) continue;
    *bad_position = first + chunk.count();
    return chunk.status();
  }
  return EE_OK;
}

Size BagScratchBy(const TierKernels& kernels, const Table& table) {
  return Chunk::MakeDoubles(kernels, table) + TotalsDoubles(table);
}

ee_status BagBy(const TierKernels& kernels, const Table& table, const Ids& ids, const Bags& bags,
                size_t begin, size_t end, const Output& out, double* scratch, size_t* bad_position) {
  BagRows rows(kernels, table, ids, bags, end, out, scratch);
  for (size_t bag = begin; bag < end; ++bag) {
    const ee_status status = rows.Run(bag, bad_position);
    if (status != EE_OK) return status;
  }
  return EE_OK;
}

}  // namespace edge_embed::tiered
