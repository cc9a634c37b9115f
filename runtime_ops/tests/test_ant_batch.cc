// Many rows of ANT, which are summed together: around the sizes from which on this happens. Each row must
// equal the same row alone.
#include "tests/ant_case.h"
#include "tests/use_checks.h"

namespace edge_embed::testing {
namespace {

std::vector<int64_t> ManyIds(size_t count, int64_t rows) {
  std::vector<int64_t> ids;
  for (size_t i = 0; i < count; ++i) ids.push_back(static_cast<int64_t>(i * i + i / 7) % rows);
  return ids;
}

// About 4 terms a row.
AntCase CaseOf(int64_t anchors, int64_t columns, ee_type type = EE_FLOAT32) {
  const double density = 4.0 / static_cast<double>(anchors);
  return AntCase({40, anchors, columns, EE_UINT16, EE_FLOAT16, type, 3, density < 1 ? density : 1.0});
}

void TestSizes() {
  for (const int64_t columns : {63, 64, 65, 80, 81, 127, 128, 190, 300}) {
    CheckGather(CaseOf(20, columns), ManyIds(200, 40), EE_FLOAT32);
  }
  for (const int64_t anchors : {1, 5, 127, 128, 129}) {
    for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
      CheckGather(CaseOf(anchors, 64, type), ManyIds(700, 40), type);
      CheckGather(CaseOf(anchors, 64, type), ManyIds(700, 40), EE_FLOAT32);
    }
  }
  for (const size_t count : std::vector<size_t>{39, 40, 41, 511, 512, 513, 1100}) {
    CheckGather(CaseOf(20, 70), ManyIds(count, 40), EE_FLOAT32);
  }
}

// Rows of zero to fifteen terms, and row 10, which has the terms of the next eight rows.
void TestEachRowIsAsItIsAlone() {
  AntCase made({600, 100, 80, EE_UINT8, EE_FLOAT32, EE_FLOAT32, 3, 0.07});
  const int32_t last = static_cast<int32_t>(made.row_offsets()[19]);
  for (size_t row = 11; row < 19; ++row) {
    std::memcpy(made.row_offset_buffer().mutable_data() + 4 * row, &last, sizeof(last));
  }
  const ant::Table table = made.table();
  const GuardedBuffer scratch = MakeScratch(table);
  const std::vector<int64_t> ids = ManyIds(900, 600);
  std::vector<float> together(ids.size() * made.columns(), -7.0F), alone(together.size(), -8.0F);
  const auto& gather = TestedKernels(table).gather;
  size_t bad = 0;
  const auto run = [&](size_t begin, size_t end, std::vector<float>* rows) {
    CHECK(gather.run(table, ToIds(ids), begin, end, Output{rows->data(), EE_FLOAT32}, Doubles(scratch),
                     &bad) == EE_OK);
  };
  run(0, ids.size(), &together);
  for (size_t i = 0; i < ids.size(); ++i) run(i, i + 1, &alone);
  CHECK(std::memcmp(together.data(), alone.data(), alone.size() * sizeof(float)) == 0);
}

// The rows before the first damaged one are written, and no others.
void TestADamagedRow() {
  for (const size_t damaged : std::vector<size_t>{0, 63, 64, 300, 511, 512, 590}) {
    AntCase made({600, 100, 80, EE_UINT8, EE_FLOAT32, EE_FLOAT32, kNoPadding, 0.07});
    size_t row = damaged;
    while (made.row_offsets()[row] == made.row_offsets()[row + 1]) ++row;
    made.anchor_id_buffer().mutable_data()[static_cast<size_t>(made.row_offsets()[row])] = 100;
    const ant::Table table = made.table();
    const GuardedBuffer scratch = MakeScratch(table);
    std::vector<int64_t> ids(600);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
    std::vector<float> rows(600 * 80, -7.0F);
    size_t bad = 0;
    CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, 600, Output{rows.data(), EE_FLOAT32},
                                          Doubles(scratch), &bad) == EE_BAD_ANCHOR_ID);
    CHECK(bad == row);
    for (size_t k = 0; k < rows.size(); ++k) CHECK((rows[k] == -7.0F) == (k >= row * 80));
  }
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  ForEachVariant([] {
    TestSizes();
    TestEachRowIsAsItIsAlone();
    TestADamagedRow();
  });
  return 0;
}
