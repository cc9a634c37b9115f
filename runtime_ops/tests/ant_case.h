// An ANT table made from a dense transform, with its expected rows. They are computed from the transform and
// never from row_offsets.
#ifndef EDGE_EMBED_TESTS_ANT_CASE_H_
#define EDGE_EMBED_TESTS_ANT_CASE_H_

#include <random>
#include <string>

#include "kernels/ant/ant.h"
#include "tests/call.h"

namespace edge_embed::testing {

struct AntShape {
  int64_t rows;
  int64_t anchors;
  int64_t columns;
  ee_type anchor_id_type = EE_UINT8;
  ee_type weight_type = EE_FLOAT32;
  ee_type anchor_type = EE_FLOAT32;
  int64_t padding_idx = kNoPadding;
  double density = 0.4;
  size_t misalign = 0;
};

inline std::string Describe(const AntShape& s) {
  return "rows=" + std::to_string(s.rows) + " anchors=" + std::to_string(s.anchors) +
         " columns=" + std::to_string(s.columns) + " types=" + std::to_string(s.anchor_id_type) +
         std::to_string(s.weight_type) + std::to_string(s.anchor_type) +
         " padding=" + std::to_string(s.padding_idx) + " misalign=" + std::to_string(s.misalign);
}

class AntCase {
 public:
  explicit AntCase(const AntShape& shape, uint32_t seed = 1)
      : shape_(shape),
        random_(seed),
        anchors_(Normal(shape.anchors * shape.columns), shape.anchor_type),
        transform_(Transform()),
        weights_(Stored(), shape.weight_type),
        stored_before_(StoredBefore()),
        row_offset_buffer_(Encoded(row_offsets_, EE_INT32).bytes(), shape.misalign),
        anchor_id_buffer_(Encoded(anchor_ids_, shape.anchor_id_type).bytes(), shape.misalign),
        weight_buffer_(weights_.bytes(), shape.misalign),
        anchor_buffer_(anchors_.bytes(), shape.misalign) {
    Context() = Describe(shape);
  }

  ant::Table table() const {
    ant::Table table{};
    table.row_offsets = row_offset_buffer_.data();
    table.row_offsets_bytes = row_offset_buffer_.size();
    table.anchor_ids = anchor_id_buffer_.data();
    table.anchor_ids_bytes = anchor_id_buffer_.size();
    table.weights = weight_buffer_.data();
    table.weights_bytes = weight_buffer_.size();
    table.anchors = anchor_buffer_.data();
    table.anchors_bytes = anchor_buffer_.size();
    table.num_embeddings = shape_.rows;
    table.num_weights = static_cast<int64_t>(weights_.values().size());
    table.num_anchors = shape_.anchors;
    table.embedding_dim = shape_.columns;
    table.padding_idx = shape_.padding_idx;
    table.anchor_id_type = shape_.anchor_id_type;
    table.weight_type = shape_.weight_type;
    table.anchor_type = shape_.anchor_type;
    table.weight_scale = Scale();
    return table;
  }

  size_t columns() const { return static_cast<size_t>(shape_.columns); }
  int64_t rows() const { return shape_.rows; }

  // The row, or with `absolute` the sum of the absolute values of the terms.
  std::vector<double> Row(int64_t id, bool absolute = false) const {
    std::vector<double> row(columns());
    if (id == shape_.padding_idx) return row;
    const size_t anchors = static_cast<size_t>(shape_.anchors), first = static_cast<size_t>(id) * anchors;
    size_t stored = stored_before_[static_cast<size_t>(id)];
    for (size_t anchor = 0; anchor < anchors; ++anchor) {
      if (transform_[first + anchor] == 0) continue;
      const double weight = static_cast<double>(Scale()) * weights_.values()[stored++];
      for (size_t c = 0; c < columns(); ++c) {
        const double term = weight * anchors_.values()[anchor * columns() + c];
        row[c] += absolute ? std::fabs(term) : term;
      }
    }
    return row;
  }

  Placed& row_offset_buffer() { return row_offset_buffer_; }
  Placed& anchor_id_buffer() { return anchor_id_buffer_; }
  Placed& weight_buffer() { return weight_buffer_; }
  Placed& anchor_buffer() { return anchor_buffer_; }
  const std::vector<double>& row_offsets() const { return row_offsets_; }

 private:
  float Scale() const { return shape_.weight_type == EE_INT8 ? 0.037F : 1.0F; }

  std::vector<double> Normal(int64_t count) {
    std::normal_distribution<double> draw;
    std::vector<double> values(static_cast<size_t>(count));
    for (double& value : values) value = draw(random_);
    return values;
  }

  // 0 or a weight for every row and anchor. Row 1 and the padding row are empty.
  std::vector<double> Transform() {
    std::uniform_real_distribution<double> draw;
    std::vector<double> transform(static_cast<size_t>(shape_.rows * shape_.anchors));
    row_offsets_.push_back(0);
    for (size_t cell = 0; cell < transform.size(); ++cell) {
      const int64_t row = static_cast<int64_t>(cell) / shape_.anchors;
      const bool kept = draw(random_) < shape_.density && row != 1 && row != shape_.padding_idx;
      const double weight =
          shape_.weight_type == EE_INT8 ? std::ceil(draw(random_) * 127) : draw(random_) + 0.1;
      if (kept) {
        transform[cell] = weight;
        anchor_ids_.push_back(static_cast<double>(static_cast<int64_t>(cell) % shape_.anchors));
      }
      if ((static_cast<int64_t>(cell) + 1) % shape_.anchors == 0) {
        row_offsets_.push_back(static_cast<double>(anchor_ids_.size()));
      }
    }
    return transform;
  }

  std::vector<double> Stored() const {
    std::vector<double> weights;
    for (const double weight : transform_) {
      if (weight != 0) weights.push_back(weight);
    }
    return weights;
  }

  // For each row, the number of weights before it, counted in the transform.
  std::vector<size_t> StoredBefore() const {
    std::vector<size_t> before;
    size_t stored = 0;
    for (size_t cell = 0; cell < transform_.size(); ++cell) {
      if (cell % static_cast<size_t>(shape_.anchors) == 0) before.push_back(stored);
      if (transform_[cell] != 0) ++stored;
    }
    return before;
  }

  AntShape shape_;
  std::mt19937 random_;
  std::vector<double> row_offsets_, anchor_ids_;
  Encoded anchors_;
  std::vector<double> transform_;
  Encoded weights_;
  std::vector<size_t> stored_before_;
  Placed row_offset_buffer_, anchor_id_buffer_, weight_buffer_, anchor_buffer_;
};

}  // namespace edge_embed::testing

#endif  // EDGE_EMBED_TESTS_ANT_CASE_H_
