// The innermost loops of tiered tables, which are compiled for each instruction set (fast.h). All other code
// is compiled once.
#ifndef EDGE_EMBED_KERNELS_TIERED_LOOPS_H_
#define EDGE_EMBED_KERNELS_TIERED_LOOPS_H_

#include "kernels/tiered/tiered.h"
#include "kernels/variant.h"

namespace edge_embed::tiered {

// A number below 2^16 for each tier in one word, so that no tier is a branch or an index into memory.
class Counts {
 public:
  __attribute__((always_inline)) void Add(size_t tier, uint64_t count) { packed_ += count << 16 * tier; }
  __attribute__((always_inline)) size_t Of(size_t tier) const { return packed_ >> 16 * tier & 0xFFFF; }

 private:
  uint64_t packed_ = 0;
};

// Some ids by tier: rows[t][k] is the row of the id at position positions[t][k].
constexpr size_t kMostIds = 256;
struct Lists {
  size_t rows[kTiers][kMostIds];
  uint16_t positions[kTiers][kMostIds];
  Counts counts;     // of each tier
  size_t count;      // ids before the first error
  ee_status status;  // of the id after them, if there is an error
};

// Some rows of a bag, and its totals so far: for sums with their rounding errors.
struct BagPart {
  const float* const* rows;  // kMostLanes numbers can be read after each
  const float* weights;
  size_t count, columns;
  bool first;
  float *high, *low;  // [columns], rounded up to kMostLanes
};
constexpr size_t kMostLanes = 16;

// Logits of consecutive ids of one state. The logits of tier t begin at from[begins.Of(t)]; kMostLanes
// numbers can be read after the last.
struct Span {
  size_t first, rows;
  const float* from;
  Counts begins;
};

struct Loops {
  // Finds the ids begin .. end-1, at most kMostIds.
  void (*find)(const Table& table, const Ids& ids, size_t begin, size_t end, Lists* lists);
  // Rows of a tier at positions begin .. end-1 of a block of the map.
  size_t (*count)(const unsigned char* block, size_t tier, size_t begin, size_t end);
  void (*add)(const BagPart& part);
  void (*keep_largest)(const BagPart& part);
  void (*write_totals)(const BagPart& part, float divisor, const Output& out, size_t at);
};

// The kernels of the tiers and the loops of a variant.
struct TierKernels {
  const Kernels<dpq::Table>* plain;
  const Kernels<dpq_scaled::Table>* scaled;
  const Loops* loops;
  // Writes the logits of a span in the order of the ids.
  void (*interleave)(const Table& table, const Span& span, ee_type type, unsigned char* to);
};

Size GatherScratchBy(const TierKernels& kernels, const Table& table);
ee_status GatherBy(const TierKernels& kernels, const Table& table, const Ids& ids, size_t begin, size_t end,
                   const Output& rows, double* scratch, size_t* bad_position);
Size BagScratchBy(const TierKernels& kernels, const Table& table);
ee_status BagBy(const TierKernels& kernels, const Table& table, const Ids& ids, const Bags& bags,
                size_t begin, size_t end, const Output& out, double* scratch, size_t* bad_position);
Size LogitsScratchBy(const TierKernels& kernels, const Table& table);
ee_status LogitsBy(const TierKernels& kernels, const Table& table, const LogitsInput& input, size_t begin,
                   size_t end, const LogitsOutput& logits, double* scratch, size_t* bad_position);
void PrepareBy(const TierKernels& kernels, const Table& table, const float* hidden, size_t batch,
               double* memory);
Size PreparedBy(const TierKernels& kernels, const Table& table, size_t batch);

// The kernels of a variant, as functions of tables alone.
template <const TierKernels& kTiers>
struct Around {
  static Size GatherScratch(const Table& table) { return GatherScratchBy(kTiers, table); }
  static ee_status Gather(const Table& table, const Ids& ids, size_t begin, size_t end, const Output& rows,
                          double* scratch, size_t* bad_position) {
    return GatherBy(kTiers, table, ids, begin, end, rows, scratch, bad_position);
  }
  static Size BagScratch(const Table& table) { return BagScratchBy(kTiers, table); }
  static ee_status Bag(const Table& table, const Ids& ids, const Bags& bags, size_t begin, size_t end,
                       const Output& out, double* scratch, size_t* bad_position) {
    return BagBy(kTiers, table, ids, bags, begin, end, out, scratch, bad_position);
  }
  static Size LogitsScratch(const Table& table) { return LogitsScratchBy(kTiers, table); }
  static ee_status Logits(const Table& table, const LogitsInput& input, size_t begin, size_t end,
                          const LogitsOutput& logits, double* scratch, size_t* bad_position) {
    return LogitsBy(kTiers, table, input, begin, end, logits, scratch, bad_position);
  }
  static void Prepare(const Table& table, const float* hidden, size_t batch, double* memory) {
    PrepareBy(kTiers, table, hidden, batch, memory);
  }
  static Size Prepared(const Table& table, size_t batch) { return PreparedBy(kTiers, table, batch); }

  static constexpr Kernels<Table> kKernels{
      {Gather, GatherScratch}, {Bag, BagScratch}, {Logits, LogitsScratch, Prepare, Prepared}};
};

}  // namespace edge_embed::tiered

#endif  // EDGE_EMBED_KERNELS_TIERED_LOOPS_H_
