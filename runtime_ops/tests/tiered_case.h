// A tiered table with its expected rows: those of a ScaledCase for each tier, at places counted one by one.
#ifndef EDGE_EMBED_TESTS_TIERED_CASE_H_
#define EDGE_EMBED_TESTS_TIERED_CASE_H_

#include <algorithm>
#include <memory>

#include "kernels/tiered/tiered.h"
#include "tests/dpq_scaled_case.h"

namespace edge_embed::testing {

struct TieredShape {
  std::vector<ScaledShape> tiers;
  bool mapped = true;  // false: rows are sorted by tier
  int64_t padding_idx = kNoPadding;
};

class TieredCase {
 public:
  explicit TieredCase(const TieredShape& shape) : shape_(shape) {
    for (size_t t = 0; t < shape.tiers.size(); ++t) {
      tiers_.push_back(std::make_unique<ScaledCase>(shape.tiers[t]));
      tier_of_.insert(tier_of_.end(), static_cast<size_t>(shape.tiers[t].plain.rows), t);
    }
    if (shape.mapped) std::shuffle(tier_of_.begin(), tier_of_.end(), std::mt19937(5));
    MakeMap();
    Context() = "tiers=" + std::to_string(tiers_.size()) + " rows=" + std::to_string(rows()) +
                " columns=" + std::to_string(columns()) + " mapped=" + std::to_string(shape.mapped) +
                " padding=" + std::to_string(shape.padding_idx);
  }

  tiered::Table table() const {
    tiered::Table table{};
    for (size_t t = 0; t < tiers_.size(); ++t) table.tiers[t] = tiers_[t]->table();
    table.num_embeddings = rows();
    table.padding_idx = shape_.padding_idx;
    if (!shape_.mapped) return table;
    table.map = map_->data();
    table.map_bytes = map_->size();
    table.ranks = ranks_->data();
    table.ranks_bytes = ranks_->size();
    return table;
  }

  size_t columns() const { return tiers_[0]->columns(); }
  int64_t rows() const { return static_cast<int64_t>(tier_of_.size()); }
  // The bytes of the map, which a test may change.
  unsigned char* map() { return map_->mutable_data(); }
  unsigned char* ranks() { return ranks_->mutable_data(); }

  std::vector<double> Row(int64_t id, bool absolute = false) const {
    if (id == shape_.padding_idx) return std::vector<double>(columns());
    const size_t index = static_cast<size_t>(id);
    return tiers_[tier_of_[index]]->Row(places_[index], absolute);
  }

  // Bits of the numbers of a row.
  std::vector<float> ExpectedRow(int64_t id) const {
    std::vector<float> row;
    for (const double value : Row(id)) row.push_back(static_cast<float>(value));
    return row;
  }

 private:
  void MakeMap() {
    const size_t blocks = (tier_of_.size() + 255) / 256;
    std::vector<unsigned char> map(blocks * 64), ranks;
    std::vector<int32_t> counts(tiers_.size());
    for (size_t id = 0; id < tier_of_.size(); ++id) {
      if (id % 256 == 0) {
        const auto* const bytes = reinterpret_cast<const unsigned char*>(counts.data());
        ranks.insert(ranks.end(), bytes, bytes + counts.size() * sizeof(int32_t));
      }
      map[id / 4] = static_cast<unsigned char>(map[id / 4] + tier_of_[id] * (size_t{1} << (id % 4 * 2)));
      places_.push_back(counts[tier_of_[id]]++);
    }
    map_ = std::make_unique<Placed>(map);
    ranks_ = std::make_unique<Placed>(ranks, 1);
  }

  TieredShape shape_;
  std::vector<std::unique_ptr<ScaledCase>> tiers_;
  std::vector<size_t> tier_of_;
  std::vector<int64_t> places_;
  std::unique_ptr<Placed> map_, ranks_;
};

// Tiers of `columns` columns, a multiple of four: rows of integers, groups of columns and shared rows.
inline std::vector<ScaledShape> SomeTiers(int64_t columns, int64_t first, int64_t second, int64_t third,
                                          ee_type type = EE_FLOAT32) {
  const DpqShape integers{first, 256, columns, 1, true, kNoPadding, 0, false, type};
  const DpqShape groups{second, 10, columns / 4, 4, false, kNoPadding, 1, true, type};
  const DpqShape shared{third, 16, 1, columns, false, kNoPadding, 0, false, type};
  return {{integers, 5, 0, true, -128}, {groups, 0}, {shared, 0}};
}

// Floats, whose codes number them, integers of four bits and of two bits.
inline std::vector<ScaledShape> OtherTiers(int64_t columns, int64_t first, int64_t second, int64_t third,
                                           ee_type type = EE_FLOAT32) {
  const DpqShape floats{first, 300, 1, columns, false, kNoPadding, 0, false, type};
  const DpqShape fours{second, 16, columns, 1, true, kNoPadding, 0, false, type};
  const DpqShape twos{third, 4, columns, 1, true, kNoPadding, 0, false, type};
  return {{floats, 0}, {fours, 3, 0, true, -8}, {twos, 2, 0, true, -2}};
}

}  // namespace edge_embed::testing

#endif  // EDGE_EMBED_TESTS_TIERED_CASE_H_
