// A TT or TR table with its expected rows: sums over every path of ranks, one number at a time.
#ifndef EDGE_EMBED_TESTS_TT_CASE_H_
#define EDGE_EMBED_TESTS_TT_CASE_H_

#include <memory>
#include <random>
#include <string>

#include "kernels/tt/merge.h"
#include "tests/call.h"

namespace edge_embed::testing {

struct TtShape {
  std::vector<int64_t> row_shape;
  std::vector<int64_t> col_shape;
  std::vector<int64_t> ranks;  // R_0 .. R_N
  int64_t rows;
  ee_type type = EE_FLOAT32;
  int64_t padding_idx = kNoPadding;
  size_t misalign = 0;
};

inline std::string Describe(const TtShape& s) {
  std::string text = "rows=" + std::to_string(s.rows) + " type=" + std::to_string(s.type) + " cores";
  for (size_t k = 0; k < s.row_shape.size(); ++k) {
    text += " [" + std::to_string(s.row_shape[k]) + "," + std::to_string(s.ranks[k]) + "," +
            std::to_string(s.col_shape[k]) + "," + std::to_string(s.ranks[k + 1]) + "]";
  }
  return text + " misalign=" + std::to_string(s.misalign);
}

class TtCase {
 public:
  explicit TtCase(const TtShape& shape, uint32_t seed = 1) : shape_(shape) {
    std::mt19937 random(seed);
    std::normal_distribution<double> draw;
    for (size_t k = 0; k < shape.row_shape.size(); ++k) {
      std::vector<double> core(
          static_cast<size_t>(shape.row_shape[k] * shape.ranks[k] * shape.col_shape[k] * shape.ranks[k + 1]));
      for (double& value : core) value = draw(random);
      cores_.emplace_back(core, shape.type);
      buffers_.push_back(std::make_unique<Placed>(cores_.back().bytes(), shape.misalign));
    }
    Context() = Describe(shape);
  }

  tt::Table table() const {
    tt::Table table{};
    for (size_t k = 0; k < cores_.size(); ++k) {
      table.cores[k] = {buffers_[k]->data(), buffers_[k]->size(), shape_.row_shape[k],
                        shape_.ranks[k],     shape_.col_shape[k], shape_.ranks[k + 1]};
    }
    table.num_cores = static_cast<int64_t>(cores_.size());
    table.num_embeddings = shape_.rows;
    table.padding_idx = shape_.padding_idx;
    table.core_type = shape_.type;
    return table;
  }

  size_t columns() const {
    int64_t columns = 1;
    for (const int64_t size : shape_.col_shape) columns *= size;
    return static_cast<size_t>(columns);
  }
  int64_t rows() const { return shape_.rows; }

  std::vector<double> Row(int64_t id, bool absolute = false) const {
    std::vector<double> row(columns());
    if (id == shape_.padding_idx) return row;
    for (size_t c = 0; c < row.size(); ++c) {
      for (int64_t ring = 0; ring < shape_.ranks[0]; ++ring) {
        row[c] += Paths(id, static_cast<int64_t>(c), 0, ring, ring, absolute);
      }
    }
    return row;
  }

 private:
  // Digit k of a number in a mixed radix; the first digit is the most significant.
  static int64_t Digit(int64_t number, const std::vector<int64_t>& radix, size_t k) {
    for (size_t later = radix.size() - 1; later > k; --later) number /= radix[later];
    return number % radix[k];
  }

  // The sum over the ranks r_{k+1} .. r_{N-1} of products of the cores k .. N-1, from r_k to r_N = ring.
  double Paths(int64_t id, int64_t column, size_t k, int64_t rank, int64_t ring, bool absolute) const {
    if (k == cores_.size()) return rank == ring ? 1.0 : 0.0;
    const int64_t i = Digit(id, shape_.row_shape, k), j = Digit(column, shape_.col_shape, k);
    double sum = 0;
    for (int64_t next = 0; next < shape_.ranks[k + 1]; ++next) {
      const int64_t at =
          ((i * shape_.ranks[k] + rank) * shape_.col_shape[k] + j) * shape_.ranks[k + 1] + next;
      const double value = cores_[k].values()[static_cast<size_t>(at)];
      sum += (absolute ? std::fabs(value) : value) * Paths(id, column, k + 1, next, ring, absolute);
    }
    return sum;
  }

  TtShape shape_;
  std::vector<Encoded> cores_;
  std::vector<std::unique_ptr<Placed>> buffers_;
};

// The same table with prepacked cores, in memory of exactly the required size.
class MergedTable {
 public:
  MergedTable(const tt::Table& table, uint64_t most_bytes, size_t misalign = 0)
      : merging_(tt::BestMerging(table, most_bytes)), memory_(merging_.bytes + misalign) {
    const GuardedBuffer scratch(merging_.scratch_doubles * sizeof(double));
    table_ = merging_.bytes == 0 ? table : tt::Merge(table, merging_, memory_.data(), Doubles(scratch));
  }

  const tt::Table& table() const { return table_; }
  size_t bytes() const { return merging_.bytes; }

 private:
  tt::Merging merging_;
  GuardedBuffer memory_;
  tt::Table table_;
};

// A case whose kernels run on that table.
class MergedCase : public TtCase {
 public:
  explicit MergedCase(const TtShape& shape, uint64_t most_bytes = UINT64_MAX)
      : TtCase(shape), merged_(TtCase::table(), most_bytes, shape.misalign) {}

  tt::Table table() const { return merged_.table(); }
  size_t bytes() const { return merged_.bytes(); }

 private:
  MergedTable merged_;
};

}  // namespace edge_embed::testing

#endif  // EDGE_EMBED_TESTS_TT_CASE_H_
