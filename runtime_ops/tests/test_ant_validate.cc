// Wrong sizes of an ANT table.
#include "tests/ant_case.h"

namespace edge_embed::testing {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
const AntShape kShape{6, 5, 3};

template <typename Change>
ee_status After(Change change) {
  return ValidateAfter(AntCase(kShape), change);
}

void TestWrongFields() {
  using Table = ant::Table;
  CHECK(After([](Table& t) { t.row_offsets = nullptr; }) == EE_NULL_POINTER);
  CHECK(After([](Table& t) { t.anchor_ids = nullptr; }) == EE_NULL_POINTER);
  CHECK(After([](Table& t) { t.weights = nullptr; }) == EE_NULL_POINTER);
  CHECK(After([](Table& t) { t.anchors = nullptr; }) == EE_NULL_POINTER);
  for (const int64_t count : {int64_t{0}, int64_t{-1}, -kHuge}) {
    CHECK(After([=](Table& t) { t.num_embeddings = count; }) == EE_BAD_SHAPE);
    CHECK(After([=](Table& t) { t.num_anchors = count; }) == EE_BAD_SHAPE);
    CHECK(After([=](Table& t) { t.embedding_dim = count; }) == EE_BAD_SHAPE);
  }
  CHECK(After([](Table& t) { t.num_weights = -1; }) == EE_BAD_SHAPE);
  CHECK(After([](Table& t) { t.anchor_id_type = EE_INT8; }) == EE_BAD_TYPE);
  CHECK(After([](Table& t) { t.weight_type = EE_UINT8; }) == EE_BAD_TYPE);
  CHECK(After([](Table& t) { t.anchor_type = EE_INT8; }) == EE_BAD_TYPE);
  for (const int64_t padding : {int64_t{-2}, int64_t{6}, kHuge, -kHuge}) {
    CHECK(After([=](Table& t) { t.padding_idx = padding; }) == EE_BAD_PADDING);
  }
}

void TestShortBuffers() {
  using Table = ant::Table;
  CHECK(After([](Table& t) { --t.row_offsets_bytes; }) == EE_SHORT_ROW_OFFSETS);
  CHECK(After([](Table& t) { ++t.num_embeddings; }) == EE_SHORT_ROW_OFFSETS);
  CHECK(After([](Table& t) { --t.anchor_ids_bytes; }) == EE_SHORT_ANCHOR_IDS);
  CHECK(After([](Table& t) { ++t.num_weights; }) == EE_SHORT_ANCHOR_IDS);
  CHECK(After([](Table& t) { t.anchor_id_type = EE_UINT16; }) == EE_SHORT_ANCHOR_IDS);
  CHECK(After([](Table& t) { --t.weights_bytes; }) == EE_SHORT_WEIGHTS);
  CHECK(After([](Table& t) { --t.anchors_bytes; }) == EE_SHORT_ANCHORS);
  CHECK(After([](Table& t) { ++t.num_anchors; }) == EE_SHORT_ANCHORS);
  CHECK(After([](Table& t) { ++t.embedding_dim; }) == EE_SHORT_ANCHORS);
}

void TestSizesThatOverflow() {
  using Table = ant::Table;
  for (const int64_t huge : {kHuge, int64_t{1} << 62, int64_t{1} << 61}) {
    CHECK(After([=](Table& t) { t.num_embeddings = huge; }) == EE_SIZE_OVERFLOW);
    CHECK(After([=](Table& t) { t.num_anchors = huge; }) == EE_SIZE_OVERFLOW);
    CHECK(After([=](Table& t) { t.embedding_dim = huge; }) == EE_SIZE_OVERFLOW);
  }
  CHECK(After([](Table& t) {
          t.weight_type = EE_FLOAT32;
          t.num_weights = kHuge / 2;
          t.anchor_ids_bytes = size_t{1} << 63;
        }) == EE_SIZE_OVERFLOW);
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  TestWrongFields();
  TestShortBuffers();
  TestSizesThatOverflow();
  return 0;
}
