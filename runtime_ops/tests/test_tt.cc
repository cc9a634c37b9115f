// The reference kernels of TT and TR against the definition, for 2 to 6 cores; and sizes that cannot be
// right, which Validate refuses. Every core ends at a page that no one may touch.
#include "tests/tt_case.h"
#include "tests/use_checks.h"

namespace edge_embed::testing {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
const TtShape kShape{{2, 3}, {3, 2}, {1, 4, 1}, 5};

void TestNumbersOfCores() {
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
    CheckAllRows(TtCase({{4, 5}, {3, 5}, {1, 3, 1}, 20, type}));
    CheckAllRows(TtCase({{2, 3, 4}, {2, 3, 2}, {1, 3, 2, 1}, 23, type, 4}));
    CheckAllRows(TtCase({{2, 3, 1, 2}, {1, 2, 3, 2}, {1, 2, 3, 2, 1}, 12, type}));
    CheckAllRows(TtCase({{2, 1, 2, 1, 3}, {2, 2, 1, 2, 1}, {1, 2, 3, 2, 2, 1}, 11, type}));
    CheckAllRows(TtCase({{2, 1, 2, 1, 2, 1}, {1, 2, 2, 1, 1, 2}, {1, 2, 2, 3, 2, 2, 1}, 7, type}));
  }
}

void TestRings() {
  for (const int64_t ring : {2, 3, 5}) {
    CheckAllRows(TtCase({{4, 5}, {3, 2}, {ring, 3, ring}, 19}));
    CheckAllRows(TtCase({{2, 2, 3}, {2, 3, 1}, {ring, 2, 4, ring}, 12, EE_FLOAT16}));
  }
}

void TestLargestRanks() {
  CheckAllRows(TtCase({{2, 2}, {1, 33}, {1, 70, 1}, 4}));
  CheckAllRows(TtCase({{1, 2, 1}, {17, 1, 1}, {1, 9, 31, 1}, 2}));
}

void TestAnyAlignment() {
  for (size_t misalign = 0; misalign < 8; ++misalign) {
    CheckAllRows(TtCase({{2, 3}, {3, 5}, {1, 3, 1}, 6, EE_FLOAT32, kNoPadding, misalign}));
    CheckAllRows(TtCase({{2, 3}, {3, 5}, {2, 3, 2}, 6, EE_FLOAT16, kNoPadding, misalign}));
  }
}

void TestUses() {
  CheckUses(TtCase({{3, 3}, {3, 5}, {1, 4, 1}, 7, EE_FLOAT32, 2}));
  CheckUses(TtCase({{3, 3}, {3, 5}, {2, 4, 2}, 9, EE_FLOAT16}));
  CheckParts(TtCase({{2, 3}, {3, 2}, {1, 4, 1}, 6}));
  CheckBadIds(TtCase(kShape));  // the cores have a sixth row, which is no row of the table
}

template <typename Change>
ee_status After(Change change) {
  const TtCase made(kShape);
  tt::Table table = made.table();
  CHECK(tt::Validate(table) == EE_OK);
  change(table);
  return tt::Validate(table);
}

void TestWrongFields() {
  using Table = tt::Table;
  for (const int64_t cores : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{-1}, kHuge}) {
    CHECK(After([=](Table& t) { t.num_cores = cores; }) == EE_BAD_NUM_CORES);
  }
  for (const int64_t size : {int64_t{0}, int64_t{-1}, -kHuge}) {
    CHECK(After([=](Table& t) { t.num_embeddings = size; }) == EE_BAD_SHAPE);
    CHECK(After([=](Table& t) { t.cores[0].rows = size; }) == EE_BAD_SHAPE);
    CHECK(After([=](Table& t) { t.cores[1].rank_in = size; }) == EE_BAD_SHAPE);
    CHECK(After([=](Table& t) { t.cores[0].columns = size; }) == EE_BAD_SHAPE);
    CHECK(After([=](Table& t) { t.cores[1].rank_out = size; }) == EE_BAD_SHAPE);
  }
  CHECK(After([](Table& t) { t.cores[1].data = nullptr; }) == EE_NULL_POINTER);
  CHECK(After([](Table& t) { t.core_type = EE_INT8; }) == EE_BAD_TYPE);
  CHECK(After([](Table& t) { t.num_embeddings = 7; }) == EE_FEW_CORE_ROWS);
  CHECK(After([](Table& t) { t.num_embeddings = 6; }) == EE_OK);
  for (const int64_t padding : {int64_t{-2}, int64_t{5}, kHuge, -kHuge}) {
    CHECK(After([=](Table& t) { t.padding_idx = padding; }) == EE_BAD_PADDING);
  }
}

void TestRanksThatDoNotMeet() {
  using Table = tt::Table;
  CHECK(After([](Table& t) { t.cores[0].rank_out = 3; }) == EE_BAD_RANKS);
  CHECK(After([](Table& t) { t.cores[1].rank_in = 3; }) == EE_BAD_RANKS);
  CHECK(After([](Table& t) {  // a ring that is not closed
          t.cores[0].rank_in = 2;
          t.cores[0].columns = 1;
        }) == EE_BAD_RANKS);
}

void TestShortCores() {
  using Table = tt::Table;
  for (size_t k = 0; k < 2; ++k) {
    CHECK(After([=](Table& t) { --t.cores[k].bytes; }) == EE_SHORT_CORE);
    CHECK(After([=](Table& t) { ++t.cores[k].rows; }) == EE_SHORT_CORE);
    CHECK(After([=](Table& t) { ++t.cores[k].columns; }) == EE_SHORT_CORE);
  }
}

void TestSizesThatOverflow() {
  using Table = tt::Table;
  for (const int64_t huge : {kHuge, int64_t{1} << 62, int64_t{1} << 60}) {
    CHECK(After([=](Table& t) { t.cores[0].rows = huge; }) == EE_SIZE_OVERFLOW);
    CHECK(After([=](Table& t) { t.cores[1].columns = huge; }) == EE_SIZE_OVERFLOW);
    CHECK(After([=](Table& t) { t.cores[0].rank_out = huge; }) == EE_SIZE_OVERFLOW);
  }
  // Cores that would fit one by one, while their product is a row of 2^64 columns, or 2^64 rows.
  const auto widen = [](Table& t, int64_t tt::Core::* size) {
    t.num_cores = 4;
    for (size_t k = 0; k < 4; ++k) t.cores[k] = {t.cores[0].data, size_t{1} << 40, 1, 1, 1, 1};
    for (size_t k = 0; k < 4; ++k) t.cores[k].*size = 65536;
    t.num_embeddings = 1;
  };
  CHECK(After([=](Table& t) { widen(t, &tt::Core::columns); }) == EE_SIZE_OVERFLOW);
  CHECK(After([=](Table& t) { widen(t, &tt::Core::rows); }) == EE_SIZE_OVERFLOW);
  // Rows of 2^32 columns, which fit; what they are between two cores does not.
  CHECK(After([=](Table& t) {
          widen(t, &tt::Core::rank_in);
          t.cores[0] = {t.cores[0].data, size_t{1} << 62, 1, 1, 65536, 1};
          t.cores[1] = {t.cores[0].data, size_t{1} << 62, 1, 1, 65536, int64_t{1} << 30};
          t.cores[2] = {t.cores[0].data, size_t{1} << 62, 1, int64_t{1} << 30, 1, 1};
          t.cores[3].rank_in = 1;
        }) == EE_SIZE_OVERFLOW);
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  TestNumbersOfCores();
  TestRings();
  TestLargestRanks();
  TestAnyAlignment();
  TestUses();
  TestWrongFields();
  TestRanksThatDoNotMeet();
  TestShortCores();
  TestSizesThatOverflow();
  return 0;
}
