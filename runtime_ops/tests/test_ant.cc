// The reference kernels of ANT against the definition, for every mixture of types; and damaged tables, which
// give a status and never an access outside the buffers. Every buffer ends at a page that no one may touch.
#include "tests/ant_case.h"
#include "tests/use_checks.h"

namespace edge_embed::testing {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
const AntShape kShape{6, 5, 3};

void TestEveryMixtureOfTypes() {
  for (const ee_type ids : {EE_UINT8, EE_UINT16, EE_UINT32}) {
    for (const ee_type weights : {EE_FLOAT32, EE_FLOAT16, EE_INT8}) {
      for (const ee_type anchors : {EE_FLOAT32, EE_FLOAT16}) {
        CheckAllRows(AntCase({9, 7, 5, ids, weights, anchors, 3}));
      }
    }
  }
}

void TestSizes() {
  for (const int64_t columns : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65}) {
    for (const int64_t anchors : {1, 2, 8, 256}) CheckAllRows(AntCase({4, anchors, columns}));
  }
  CheckAllRows(AntCase({3, 300, 5, EE_UINT16}));
  CheckAllRows(AntCase({3, 70000, 2, EE_UINT32, EE_FLOAT32, EE_FLOAT32, kNoPadding, 0.0001}));
}

void TestAnyAlignment() {
  for (size_t misalign = 0; misalign < 8; ++misalign) {
    CheckAllRows(AntCase({9, 7, 5, EE_UINT16, EE_FLOAT16, EE_FLOAT32, kNoPadding, 0.4, misalign}));
    CheckAllRows(AntCase({9, 7, 5, EE_UINT32, EE_FLOAT32, EE_FLOAT16, kNoPadding, 0.4, misalign}));
  }
}

void TestUses() {
  CheckUses(AntCase({7, 5, 9, EE_UINT8, EE_INT8, EE_FLOAT32, 2}));
  CheckUses(AntCase({7, 5, 9, EE_UINT8, EE_FLOAT32, EE_FLOAT16}));
  CheckParts(AntCase({6, 8, 3, EE_UINT8, EE_FLOAT32, EE_FLOAT32, kNoPadding, 1.0}));
  CheckBadIds(AntCase(kShape));
}

void TestATableWithoutWeights() {
  const AntCase made({4, 3, 2, EE_UINT8, EE_FLOAT32, EE_FLOAT32, kNoPadding, 0.0});
  CheckAllRows(made);
  ant::Table table = made.table();
  table.anchor_ids = table.weights = nullptr;
  CHECK(ant::Validate(table) == EE_OK);
}

// Both uses of row `id` give the status and the position of its id.
void CheckRow(const AntCase& made, int64_t id, ee_status expected) {
  const ant::Table table = made.table();
  CHECK(ant::Validate(table) == EE_OK);
  const GuardedBuffer scratch = MakeScratch(table);
  const std::vector<int64_t> ids = {1, 1, id}, offsets = {0, 3};
  const Bags bags{offsets.data(), 1, nullptr, EE_FLOAT32, BagMode::kSum};
  std::vector<float> out(ids.size() * made.columns());
  const std::vector<float> hidden(made.columns());
  size_t bad = 77;
  CHECK(GatherReference(table, ToIds(ids), 0, 3, Output{out.data(), EE_FLOAT32}, Doubles(scratch), &bad) ==
        expected);
  CHECK(bad == (expected == EE_OK ? 77 : 2));
  CHECK(BagReference(table, ToIds(ids), bags, 0, 1, Output{out.data(), EE_FLOAT32}, Doubles(scratch), &bad) ==
        expected);
  bad = 77;
  const size_t row = static_cast<size_t>(id);
  CHECK(LogitsReference(table, hidden.data(), 1, row, row + 1, Output{out.data(), EE_FLOAT32},
                        Doubles(scratch), &bad) == expected);
  CHECK(bad == (expected == EE_OK ? 77 : row));
}

void TestDamagedRowOffsets() {
  for (const int32_t offset :
       {-1, 1000, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()}) {
    for (const size_t index : {size_t{3}, size_t{4}}) {
      AntCase made({6, 5, 3, EE_UINT8, EE_FLOAT32, EE_FLOAT32, kNoPadding, 0.7});
      std::memcpy(made.row_offset_buffer().mutable_data() + 4 * index, &offset, sizeof(offset));
      CheckRow(made, 3, EE_BAD_ROW_OFFSETS);
      CheckRow(made, 0, EE_OK);
    }
  }
}

void TestADamagedAnchorId() {
  for (const ee_type type : {EE_UINT8, EE_UINT16, EE_UINT32}) {
    for (const int byte : {5, 200, 255}) {
      AntCase made({6, 5, 3, type, EE_FLOAT32, EE_FLOAT32, kNoPadding, 1.0});
      const size_t entry = static_cast<size_t>(made.row_offsets()[3]) + 2;
      std::memset(made.anchor_id_buffer().mutable_data() + entry * Encoded::Bytes(type), byte, 1);
      CheckRow(made, 3, EE_BAD_ANCHOR_ID);
      CheckRow(made, 4, EE_OK);
    }
  }
}

void TestARowLongerThanThereAreAnchors() {
  AntCase made({6, 5, 3, EE_UINT8, EE_FLOAT32, EE_FLOAT32, kNoPadding, 1.0});
  const int32_t offset = 0;
  std::memcpy(made.row_offset_buffer().mutable_data() + 4 * 3, &offset, sizeof(offset));
  CheckRow(made, 3, EE_LONG_ROW);
}

template <typename Change>
ee_status After(Change change) {
  const AntCase made(kShape);
  ant::Table table = made.table();
  CHECK(ant::Validate(table) == EE_OK);
  change(table);
  return ant::Validate(table);
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
  TestEveryMixtureOfTypes();
  TestSizes();
  TestAnyAlignment();
  TestUses();
  TestATableWithoutWeights();
  TestDamagedRowOffsets();
  TestADamagedAnchorId();
  TestARowLongerThanThereAreAnchors();
  TestWrongFields();
  TestShortBuffers();
  TestSizesThatOverflow();
  return 0;
}
