// A DPQ table made from plain integer codes, with its expected rows. They are computed from the integers and
// never from packed bytes, so they share no code with the tested unpacking.
#ifndef EDGE_EMBED_TESTS_DPQ_CASE_H_
#define EDGE_EMBED_TESTS_DPQ_CASE_H_

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/dpq/dpq.h"
#include "tests/call.h"

namespace edge_embed::testing {

struct DpqShape {
  int64_t rows;
  int64_t num_codes;
  int64_t groups;
  int64_t width;
  bool shared = false;
  int64_t padding_idx = kNoPadding;
  // Bytes between the end of codes and values and the page at their end, which sets their alignment.
  size_t misalign = 0;
  bool hostile = false;  // codes up to 2^bits - 1, above num_codes
  ee_type type = EE_FLOAT32;
  bool blocked = false;  // the table has blocks
};

inline std::string Describe(const DpqShape& s) {
  return "rows=" + std::to_string(s.rows) + " num_codes=" + std::to_string(s.num_codes) +
         " groups=" + std::to_string(s.groups) + " width=" + std::to_string(s.width) +
         " shared=" + std::to_string(s.shared) + " padding=" + std::to_string(s.padding_idx) +
         " misalign=" + std::to_string(s.misalign) + " hostile=" + std::to_string(s.hostile) +
         " type=" + std::to_string(s.type) + " blocked=" + std::to_string(s.blocked);
}

inline int BitsOf(int64_t num_codes) {
  int bits = 0;
  for (int64_t left = num_codes - 1; left > 0; left /= 2) ++bits;
  return bits;
}

class DpqCase {
 public:
  explicit DpqCase(const DpqShape& shape, uint32_t seed = 1)
      : shape_(shape),
        bits_(BitsOf(shape.num_codes)),
        random_(seed),
        codes_(MakeCodes()),
        values_(MakeValues(), shape.type),
        scales_(MakeScales(), EE_FLOAT32),
        code_buffer_(Pack(), shape.misalign),
        value_buffer_(values_.bytes(), shape.misalign),
        scale_buffer_(scales_.bytes(), shape.misalign),
        block_buffer_(shape.blocked ? Blocks() : std::vector<unsigned char>(), shape.misalign) {
    Context() = Describe(shape);
  }

  dpq::Table table() const {
    dpq::Table table{};
    table.codes = code_buffer_.data();
    table.codes_bytes = code_buffer_.size();
    table.values = value_buffer_.data();
    table.values_bytes = value_buffer_.size();
    if (shape_.type == EE_INT8) {
      table.value_scales = scale_buffer_.data();
      table.value_scales_bytes = scale_buffer_.size();
    }
    if (shape_.blocked) {
      table.blocks = block_buffer_.data();
      table.blocks_bytes = block_buffer_.size();
    }
    table.num_embeddings = shape_.rows;
    table.num_codes = shape_.num_codes;
    table.num_groups = shape_.groups;
    table.group_width = shape_.width;
    table.padding_idx = shape_.padding_idx;
    table.value_type = shape_.type;
    table.bits = bits_;
    table.shared = shape_.shared;
    return table;
  }

  size_t dim() const { return static_cast<size_t>(shape_.groups * shape_.width); }

  // The codes of a row, one for each group.
  std::vector<int64_t> Codes(int64_t id) const {
    const auto first = codes_.begin() + id * shape_.groups;
    return {first, first + shape_.groups};
  }

  size_t columns() const { return dim(); }
  int64_t rows() const { return shape_.rows; }

  std::vector<double> Row(int64_t id, bool absolute = false) const {
    std::vector<double> row(dim());
    if (id == shape_.padding_idx) return row;
    for (int64_t group = 0; group < shape_.groups; ++group) {
      int64_t code = codes_[static_cast<size_t>(id * shape_.groups + group)];
      if (code >= shape_.num_codes) code = shape_.num_codes - 1;
      const int64_t codebook = shape_.shared ? 0 : group;
      for (int64_t k = 0; k < shape_.width; ++k) {
        const double value = Value(codebook, (codebook * shape_.num_codes + code) * shape_.width + k);
        row[static_cast<size_t>(group * shape_.width + k)] = absolute ? std::fabs(value) : value;
      }
    }
    return row;
  }

  // Exact: every value is a float.
  std::vector<float> ExpectedRow(int64_t id) const {
    std::vector<float> row;
    for (const double value : Row(id)) row.push_back(static_cast<float>(value));
    return row;
  }

 private:
  std::vector<int64_t> MakeCodes() {
    const int64_t top = shape_.hostile ? (int64_t{1} << bits_) - 1 : shape_.num_codes - 1;
    std::uniform_int_distribution<int64_t> draw(0, top);
    std::vector<int64_t> codes(static_cast<size_t>(shape_.rows * shape_.groups));
    for (int64_t& code : codes) code = draw(random_);
    codes.front() = top;  // the extremes are always included
    codes.back() = top;
    return codes;
  }

  // Drawn once for a few thousand, and then repeated: drawing would be slower than most tests.
  std::vector<double> MakeValues() {
    constexpr size_t kDrawn = 4099;
    const int64_t codebooks = shape_.shared ? 1 : shape_.groups;
    std::normal_distribution<double> draw;
    std::vector<double> values(static_cast<size_t>(codebooks * shape_.num_codes * shape_.width));
    for (size_t k = 0; k < values.size(); ++k) {
      if (k >= kDrawn) {
        values[k] = values[k - kDrawn];
        continue;
      }
      values[k] = draw(random_);
      if (shape_.type == EE_INT8) values[k] = std::fmax(-127, std::fmin(127, std::round(50 * values[k])));
    }
    return values;
  }

  // Each group has another scale, so that a wrong group is detected.
  std::vector<double> MakeScales() {
    std::vector<double> scales(static_cast<size_t>(shape_.shared ? 1 : shape_.groups));
    std::uniform_real_distribution<double> draw(0.001, 0.1);
    for (double& scale : scales) scale = draw(random_);
    return scales;
  }

  // The value in a row: for int8, a product rounded to float32.
  double Value(int64_t codebook, int64_t index) const {
    const double stored = values_.values()[static_cast<size_t>(index)];
    if (shape_.type != EE_INT8) return stored;
    return static_cast<float>(stored * scales_.values()[static_cast<size_t>(codebook)]);
  }

  // Reads bit by bit, from the definition of the layout.
  std::vector<unsigned char> Pack() const {
    const size_t row_bytes = static_cast<size_t>((shape_.groups * bits_ + 7) / 8);
    std::vector<unsigned char> packed(static_cast<size_t>(shape_.rows) * row_bytes, 0);
    for (int64_t row = 0; row < shape_.rows; ++row) {
      for (int64_t bit = 0; bit < shape_.groups * bits_; ++bit) {
        const int64_t code = codes_[static_cast<size_t>(row * shape_.groups + bit / bits_)];
        if (((code >> (bit % bits_)) & 1) == 0) continue;
        unsigned char& byte = packed[static_cast<size_t>(row) * row_bytes + static_cast<size_t>(bit / 8)];
        byte = static_cast<unsigned char>(byte | (1U << (bit % 8)));
      }
    }
    return packed;
  }

  // From the definition: words of four bytes, of sixteen rows each, with zeros for missing rows and bytes.
  std::vector<unsigned char> Blocks() const {
    const size_t rows = static_cast<size_t>(shape_.rows), blocks = (rows + 15) / 16;
    const size_t row_bytes = static_cast<size_t>(shape_.groups + 1) / 2, words = (row_bytes + 3) / 4;
    std::vector<unsigned char> all;
    for (size_t block = 0; block < blocks; ++block) {
      for (size_t word = 0; word < words; ++word) {
        for (size_t row = block * 16; row < block * 16 + 16; ++row) {
          for (size_t byte = word * 4; byte < word * 4 + 4; ++byte) {
            const bool stored = row < rows && byte < row_bytes;
            all.push_back(stored ? code_buffer_.data()[row * row_bytes + byte] : 0);
          }
        }
      }
    }
    return all;
  }

  DpqShape shape_;
  int bits_;
  std::mt19937 random_;
  std::vector<int64_t> codes_;
  Encoded values_;
  Encoded scales_;
  Placed code_buffer_;
  Placed value_buffer_;
  Placed scale_buffer_;
  Placed block_buffer_;
};

// Calls check(case) for the table, and again with blocks if the table may have them.
template <class Check>
void WithAndWithoutBlocks(DpqShape shape, const Check& check) {
  check(DpqCase(shape));
  shape.blocked = BitsOf(shape.num_codes) == 4;
  if (shape.blocked) check(DpqCase(shape));
}

}  // namespace edge_embed::testing

#endif  // EDGE_EMBED_TESTS_DPQ_CASE_H_
