// The tables of cases as structs of the C interface.
#ifndef EDGE_EMBED_TESTS_C_TABLES_H_
#define EDGE_EMBED_TESTS_C_TABLES_H_

#include "c_api/tables.h"
#include "tests/ant_case.h"
#include "tests/c_structs.h"
#include "tests/dpq_case.h"
#include "tests/tt_case.h"

namespace edge_embed::testing {

inline ee_table ToC(const dpq::Table& t) {
  ee_table tagged = Tagged(EE_DPQ);
  ee_dpq_table& c = tagged.dpq;
  c.codes = t.codes;
  c.codes_bytes = t.codes_bytes;
  c.values = t.values;
  c.values_bytes = t.values_bytes;
  c.value_scales = t.value_scales;
  c.value_scales_bytes = t.value_scales_bytes;
  c.blocks = t.blocks;
  c.blocks_bytes = t.blocks_bytes;
  c.num_embeddings = t.num_embeddings;
  c.num_codes = t.num_codes;
  c.num_groups = t.num_groups;
  c.group_width = t.group_width;
  c.padding_idx = t.padding_idx;
  c.bits = t.bits;
  c.shared = t.shared ? 1 : 0;
  c.value_type = t.value_type;
  return tagged;
}

inline ee_table ToC(const ant::Table& t) {
  ee_table tagged = Tagged(EE_ANT);
  ee_ant_table& c = tagged.ant;
  c.row_offsets = t.row_offsets;
  c.row_offsets_bytes = t.row_offsets_bytes;
  c.anchor_ids = t.anchor_ids;
  c.anchor_ids_bytes = t.anchor_ids_bytes;
  c.weights = t.weights;
  c.weights_bytes = t.weights_bytes;
  c.anchors = t.anchors;
  c.anchors_bytes = t.anchors_bytes;
  c.num_embeddings = t.num_embeddings;
  c.num_weights = t.num_weights;
  c.num_anchors = t.num_anchors;
  c.embedding_dim = t.embedding_dim;
  c.padding_idx = t.padding_idx;
  c.weight_scale = t.weight_scale;
  c.anchor_id_type = t.anchor_id_type;
  c.weight_type = t.weight_type;
  c.anchor_type = t.anchor_type;
  return tagged;
}

inline ee_table ToC(const tt::Table& t) {
  ee_table tagged = Tagged(EE_TT);
  tagged.tt = c_api::ToC(t);
  return tagged;
}

// Scratch of exactly the size of a use.
class UseScratch {
 public:
  UseScratch(const ee_table& table, ee_use use, int64_t k = 0)
      : size_(Needed(table, use, k)), buffer_(size_) {}

  void* data() const { return buffer_.data(); }
  size_t size() const { return size_; }

 private:
  static size_t Needed(const ee_table& table, ee_use use, int64_t k) {
    size_t bytes = 0;
    CHECK(ee_scratch_bytes(&table, use, k, &bytes) == EE_OK);
    return bytes;
  }

  size_t size_;
  GuardedBuffer buffer_;
};

}  // namespace edge_embed::testing

#endif  // EDGE_EMBED_TESTS_C_TABLES_H_
