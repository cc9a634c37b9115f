// Damaged rows of ANT return a status and cause no access outside the buffers, each of which ends at a page
// without access.
#include "tests/ant_case.h"
#include "tests/use_checks.h"

namespace edge_embed::testing {
namespace {

// All rows before the first damaged one are written, and no others.
template <typename Damage>
void CheckDamage(const AntShape& shape, size_t bad_row, ee_status expected, Damage damage) {
  AntCase made(shape);
  damage(made);
  const ant::Table table = made.table();
  const GuardedBuffer scratch = MakeScratch(table);
  const size_t rows = static_cast<size_t>(made.rows()), columns = made.columns(), batch = 35;
  std::vector<int64_t> ids(rows);
  for (size_t i = 0; i < rows; ++i) ids[i] = static_cast<int64_t>(i);
  std::vector<float> gathered(rows * columns, -7.0F), logits(batch * rows, -7.0F);
  const std::vector<float> hidden(batch * columns, 1.0F);
  size_t bad = 0;
  CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, rows, Output{gathered.data(), EE_FLOAT32},
                                        Doubles(scratch), &bad) == expected);
  CHECK(bad == bad_row);
  bad = 0;
  CHECK(RunLogits(table, hidden.data(), batch, 0, rows, Output{logits.data(), EE_FLOAT32}, Doubles(scratch),
                  &bad) == expected);
  CHECK(bad == bad_row);
  for (size_t k = 0; k < gathered.size(); ++k) CHECK((gathered[k] == -7.0F) == (k >= bad_row * columns));
  for (size_t k = 0; k < logits.size(); ++k) CHECK((logits[k] == -7.0F) == (k % rows >= bad_row));

  const std::vector<int64_t> offsets = {0, static_cast<int64_t>(bad_row / 2), static_cast<int64_t>(rows)};
  const Bags bags{offsets.data(), 2, nullptr, EE_FLOAT32, BagMode::kSum};
  std::vector<float> bagged(2 * columns, -7.0F);
  CHECK(TestedKernels(table).bag.run(table, ToIds(ids), bags, 0, 2, Output{bagged.data(), EE_FLOAT32},
                                     Doubles(scratch), &bad) == expected);
  CHECK(bad == bad_row);
  for (size_t k = 0; k < bagged.size(); ++k) CHECK((bagged[k] == -7.0F) == (k >= columns));
}

void TestTheFirstDamagedRowIsNamed() {
  const AntShape shape{150, 9, 17, EE_UINT8, EE_FLOAT32, EE_FLOAT32, kNoPadding, 1.0};
  const auto set_anchor = [](AntCase& made, size_t row, int offset) {
    const size_t entry = static_cast<size_t>(static_cast<int64_t>(made.row_offsets()[row]) + offset);
    made.anchor_id_buffer().mutable_data()[entry] = 9;
  };
  const auto set_offset = [](AntCase& made, size_t index, int32_t offset) {
    std::memcpy(made.row_offset_buffer().mutable_data() + 4 * index, &offset, sizeof(offset));
  };
  for (const size_t row : std::vector<size_t>{2, 55, 56, 57, 63, 64, 65, 111, 112, 149}) {
    for (const int offset : {0, 4, 8}) {  // another row of the same block has damage of another kind
      CheckDamage(shape, row, EE_BAD_ANCHOR_ID, [&](AntCase& made) {
        set_anchor(made, row, offset);
        if (row < 149) set_offset(made, row + 2, -1);
      });
    }
    CheckDamage(shape, row, EE_BAD_ROW_OFFSETS, [&](AntCase& made) {
      set_offset(made, row + 1, 100000);
      if (row < 149) set_anchor(made, row + 1, 3);
    });
  }
  const AntShape long_rows{5, 1100, 17, EE_UINT16, EE_FLOAT32, EE_FLOAT32, kNoPadding, 1.0};
  for (const size_t offset : std::vector<size_t>{5, 511, 512, 1024, 1099}) {
    CheckDamage(long_rows, 3, EE_BAD_ANCHOR_ID, [&](AntCase& made) {
      const size_t entry = static_cast<size_t>(made.row_offsets()[3]) + offset;
      made.anchor_id_buffer().mutable_data()[2 * entry + 1] = 0xFF;
    });
  }
}

// Both uses of row `id` return the status and the position of its id.
void CheckRow(const AntCase& made, int64_t id, ee_status expected) {
  const ant::Table table = made.table();
  CHECK(ant::Validate(table) == EE_OK);
  const GuardedBuffer scratch = MakeScratch(table);
  const std::vector<int64_t> ids = {1, 1, id}, offsets = {0, 3};
  const Bags bags{offsets.data(), 1, nullptr, EE_FLOAT32, BagMode::kSum};
  std::vector<float> out(ids.size() * made.columns());
  const std::vector<float> hidden(made.columns());
  size_t bad = 77;
  CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, 3, Output{out.data(), EE_FLOAT32},
                                        Doubles(scratch), &bad) == expected);
  CHECK(bad == (expected == EE_OK ? 77 : 2));
  CHECK(TestedKernels(table).bag.run(table, ToIds(ids), bags, 0, 1, Output{out.data(), EE_FLOAT32},
                                     Doubles(scratch), &bad) == expected);
  bad = 77;
  const size_t row = static_cast<size_t>(id);
  CHECK(RunLogits(table, hidden.data(), 1, row, row + 1, Output{out.data(), EE_FLOAT32}, Doubles(scratch),
                  &bad) == expected);
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

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  ForEachVariant([] {
    TestTheFirstDamagedRowIsNamed();
    TestDamagedRowOffsets();
    TestADamagedAnchorId();
    TestARowLongerThanThereAreAnchors();
  });
  return 0;
}
