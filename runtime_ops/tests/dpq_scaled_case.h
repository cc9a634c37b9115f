// A DPQ table with row scales, with its expected rows: those of a DpqCase, cut and multiplied.
#ifndef EDGE_EMBED_TESTS_DPQ_SCALED_CASE_H_
#define EDGE_EMBED_TESTS_DPQ_SCALED_CASE_H_

#include "kernels/dpq_scaled/dpq_scaled.h"
#include "tests/dpq_case.h"

namespace edge_embed::testing {

struct ScaledShape {
  DpqShape plain;
  int64_t scales = 5;  // 0: rows have none
  int64_t unused = 0;
  bool integers = false;  // the values are first, first + 1, ...
  int64_t first = -3;
};

class ScaledCase {
 public:
  explicit ScaledCase(const ScaledShape& shape)
      : shape_(shape),
        plain_(shape.plain),
        random_(2),
        integers_(MakeIntegers(), shape.plain.type),
        scales_(MakeScales(), EE_FLOAT32),
        codes_(MakeCodes()),
        integer_buffer_(integers_.bytes(), shape.plain.misalign),
        scale_buffer_(scales_.bytes(), shape.plain.misalign),
        code_buffer_(codes_, 0) {
    Context() = Describe(shape.plain) + " scales=" + std::to_string(shape.scales) +
                " unused=" + std::to_string(shape.unused) + " integers=" + std::to_string(shape.integers);
  }

  dpq_scaled::Table table() const {
    dpq_scaled::Table table{};
    static_cast<dpq::Table&>(table) = plain_.table();
    if (shape_.integers) {
      table.values = integer_buffer_.data();
      table.values_bytes = integer_buffer_.size();
    }
    table.num_row_scales = shape_.scales;
    table.unused_columns = shape_.unused;
    if (shape_.scales == 0) return table;
    table.row_scale_codes = code_buffer_.data();
    table.row_scale_codes_bytes = code_buffer_.size();
    table.row_scales = scale_buffer_.data();
    table.row_scales_bytes = scale_buffer_.size();
    return table;
  }

  size_t columns() const { return plain_.columns() - static_cast<size_t>(shape_.unused); }
  int64_t rows() const { return shape_.plain.rows; }

  std::vector<double> Row(int64_t id, bool absolute = false) const {
    std::vector<double> row = shape_.integers ? IntegerRow(id, absolute) : plain_.Row(id, absolute);
    row.resize(columns());
    if (shape_.scales == 0) return row;
    for (double& number : row) number = static_cast<double>(static_cast<float>(number * ScaleOf(id)));
    return row;
  }

  // Bits of the numbers of a row.
  std::vector<float> ExpectedRow(int64_t id) const {
    std::vector<float> row;
    for (const double value : Row(id)) row.push_back(static_cast<float>(value));
    return row;
  }

 private:
  double ScaleOf(int64_t id) const {
    return id == shape_.plain.padding_idx ? 1 : scales_.values()[codes_[static_cast<size_t>(id)]];
  }

  std::vector<double> IntegerRow(int64_t id, bool absolute) const {
    std::vector<double> row;
    if (id == shape_.plain.padding_idx) return std::vector<double>(plain_.columns());
    for (const int64_t code : plain_.Codes(id)) {
      const double value = static_cast<double>(code + shape_.first);
      row.push_back(absolute ? std::fabs(value) : value);
    }
    return row;
  }

  std::vector<double> MakeIntegers() const {
    std::vector<double> values;
    for (int64_t k = 0; shape_.integers && k < shape_.plain.num_codes; ++k) {
      values.push_back(static_cast<double>(k + shape_.first));
    }
    return values;
  }

  std::vector<double> MakeScales() {
    std::uniform_real_distribution<double> draw(0.001, 2);
    std::vector<double> scales(static_cast<size_t>(shape_.scales));
    for (double& scale : scales) scale = draw(random_);
    return scales;
  }

  std::vector<unsigned char> MakeCodes() {
    std::vector<unsigned char> codes(static_cast<size_t>(shape_.scales == 0 ? 0 : shape_.plain.rows));
    std::uniform_int_distribution<int> draw(0, static_cast<int>(shape_.scales) - 1);
    for (unsigned char& code : codes) code = static_cast<unsigned char>(draw(random_));
    return codes;
  }

  ScaledShape shape_;
  DpqCase plain_;
  std::mt19937 random_;
  Encoded integers_;
  Encoded scales_;
  std::vector<unsigned char> codes_;
  Placed integer_buffer_;
  Placed scale_buffer_;
  Placed code_buffer_;
};

}  // namespace edge_embed::testing

#endif  // EDGE_EMBED_TESTS_DPQ_SCALED_CASE_H_
