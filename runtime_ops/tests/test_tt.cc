// The kernels of TT and TR against the definition, for 2 to 6 cores, and invalid sizes, which Validate
// refuses. Every core ends at a page without access.
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
  CheckBadIds(TtCase(kShape));  // the cores have a sixth row, which is not in the table
}

// Numbers of rows, columns and terms around the sizes of registers, of their blocks and of runs of terms.
void TestSizesOfProducts() {
  const std::vector<int64_t> ranks = {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 33, 64};
  size_t next = 0;
  for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16}) {
    for (const int64_t columns : {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 31, 32, 33, 47, 64}) {
      const int64_t rank = ranks[next % ranks.size()];
      const ee_type type = next % 3 == 0 ? EE_FLOAT16 : EE_FLOAT32;
      CheckAllRows(TtCase({{1, 2}, {rows, columns}, {1, rank, 1}, 2, type, kNoPadding, next % size_t{4}}));
      ++next;
    }
  }
  CheckAllRows(TtCase({{1, 1}, {1, 2}, {1, 2500, 1}, 1}));  // more runs than levels
  CheckAllRows(TtCase({{1, 1}, {2, 16}, {1, 5000, 1}, 1}));
}

// Ids that share their first digits with the previous id, or not, in any order.
void TestSharedStates() {
  for (const int64_t ring : {1, 2}) {
    for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
      const TtCase made({{2, 3, 2, 3}, {2, 3, 1, 3}, {ring, 2, 3, 2, ring}, 35, type, 17});
      std::vector<int64_t> ids;
      for (int64_t i = 0; i < 35; ++i) ids.push_back(i);
      for (int64_t i = 0; i < 200; ++i) ids.push_back(i * i * 7 % 35);
      for (int64_t i = 0; i < 5; ++i) ids.insert(ids.end(), {17, 0, 34, 34, 17, 17, 16});
      CheckGather(made, ids, EE_FLOAT32);
      CheckGather(made, ids, EE_FLOAT16);
    }
  }
}

// Slices that do not fit the cache, for which rows are computed in another order.
const TtShape kLargeSlices{{3, 70, 5}, {1, 8, 2}, {1, 24, 30, 1}, 1050};

void TestLargeSlices() {
  const TtCase made(kLargeSlices);
  CHECK(made.table().cores[1].bytes > 1 << 20);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 600; ++i) ids.push_back(i * i * 7 % 1050);
  CheckGather(made, ids, EE_FLOAT32);
}

// An invalid id at any place of a block, although rows are computed in another order.
// order.
void TestBadIdsAmongMany() {
  for (const TtShape& shape : {TtShape{{2, 2, 40}, {1, 2, 2}, {1, 2, 2, 1}, 160}, kLargeSlices}) {
    const TtCase made(shape);
    const tt::Table table = made.table();
    const GuardedBuffer scratch = MakeScratch(table);
    for (const size_t place : std::vector<size_t>{0, 1, 100, 255, 256, 257, 511, 512, 599}) {
      std::vector<int64_t> ids;
      for (int64_t i = 0; i < 600; ++i) ids.push_back(i * 7 % table.num_embeddings);
      ids[place] = table.num_embeddings;
      std::vector<float> rows(made.columns() * ids.size(), -1e30F);
      size_t bad = 0;
      CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, ids.size(), Output{rows.data(), EE_FLOAT32},
                                            Doubles(scratch), &bad) == EE_ID_OUT_OF_RANGE);
      CHECK(bad == place);
      for (size_t k = 0; k < rows.size(); ++k) CHECK((rows[k] == -1e30F) == (k >= made.columns() * place));
    }
  }
}

// The only number of row 0.
double RowZero(const tt::Table& table) {
  const GuardedBuffer scratch = MakeScratch(table);
  const std::vector<int64_t> ids = {0};
  float row = 0;
  size_t bad = 0;
  CHECK(Validate(table) == EE_OK);
  CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, 1, Output{&row, EE_FLOAT32}, Doubles(scratch),
                                        &bad) == EE_OK);
  return static_cast<double>(row);
}

// A large path, followed by small ones that would each be rounded up if added one by one. Every core has one
// row and one column; state_k is (the sum of all of state_{k-1}, small, small, ...).
void CheckRoundings(const std::vector<int64_t>& ranks, float small) {
  std::vector<std::vector<float>> cores;
  tt::Table table{};
  table.num_cores = static_cast<int64_t>(ranks.size()) - 1;
  table.num_embeddings = 1;
  table.padding_idx = kNoPadding;
  table.core_type = EE_FLOAT32;
  Context() = "ranks";
  for (const int64_t rank : ranks) Context() += " " + std::to_string(rank);
  double exact = 1, paths = 1;
  for (size_t k = 0; k + 1 < ranks.size(); ++k) {
    const size_t inner = static_cast<size_t>(ranks[k]), outer = static_cast<size_t>(ranks[k + 1]);
    std::vector<float> core(inner * outer, 0.0F);
    for (size_t r = 0; r < inner; ++r) core[r * outer] = 1;
    for (size_t r = 1; r < outer; ++r) core[r] = small;
    cores.push_back(core);
    exact += static_cast<double>(small) * static_cast<double>(outer - 1) * exact;
    paths *= static_cast<double>(outer);
  }
  for (size_t k = 0; k < cores.size(); ++k) {
    table.cores[k] = {reinterpret_cast<const unsigned char*>(cores[k].data()),
                      cores[k].size() * sizeof(float),
                      1,
                      ranks[k],
                      1,
                      ranks[k + 1]};
  }
  const double growth =
      paths > 64 ? paths / 64 : 1;  // of the bound, with the number of terms (kernels/use.h)
  CHECK(Rounded(RowZero(table), exact, exact * growth, EE_FLOAT32));
  const MergedTable merged(table, UINT64_MAX);
  CHECK((merged.bytes() == 0) == (ranks.size() == 3));
  if (!TestsReference()) CHECK(Rounded(RowZero(merged.table()), exact, exact * growth, EE_FLOAT32));
}

void TestSumsWhoseRoundingsAllGoOneWay() {
  for (const int64_t rank : {2, 8, 32, 64, 100, 159, 160, 255, 256, 600, 1023, 1024, 3000}) {
    CheckRoundings({1, rank, 1}, std::ldexp(1.01F, -24));
  }
  for (const int64_t rank : {2, 4, 8, 12, 13, 16, 20, 31, 32, 64}) {
    CheckRoundings({1, rank, rank, 1}, std::ldexp(1.01F, -24));
    CheckRoundings({1, 1, 1, 1, rank, rank, 1}, std::ldexp(1.01F, -24));
  }
}

void TestLongBags() {
  const TtCase made({{3, 4}, {4, 5}, {1, 6, 1}, 12, EE_FLOAT32, 5});
  BagCase bags;
  for (int64_t i = 0; i < 300; ++i) bags.ids.push_back(i * 7 % 12);
  bags.offsets = {0, 200, 201, 300};
  for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax}) {
    CheckBag(made, bags, mode, EE_FLOAT32);
  }
  for (int64_t i = 0; i < 300; ++i) bags.weights.push_back(static_cast<double>(i % 9) / 2 - 2);
  CheckBag(made, bags, BagMode::kSum, EE_FLOAT16);
}

// Tables for which logits by rows are faster, tables for which those by prefixes are, and rings.
std::vector<TtShape> LogitsShapes() {
  std::vector<TtShape> shapes;
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
    shapes.push_back({{2, 2, 3}, {2, 2, 8}, {1, 4, 16, 1}, 11, type, 7, 1});
    shapes.push_back({{2, 2, 9}, {2, 4, 3}, {1, 4, 5, 1}, 34, type, 12});
    shapes.push_back({{3, 37}, {16, 4}, {1, 8, 1}, 100, type, 0, 2});
    shapes.push_back({{3, 7}, {5, 7}, {1, 9, 1}, 20, type});
    shapes.push_back({{2, 5}, {4, 8}, {3, 4, 3}, 9, type, 8});
  }
  return shapes;
}

void TestLogitsOfBatches() {
  for (const TtShape& shape : LogitsShapes()) {
    const TtCase made(shape);
    for (const size_t batch : {size_t{1}, size_t{2}, size_t{7}, size_t{8}, size_t{9}, size_t{64}})
      CheckLogits(made, batch, EE_FLOAT32);
    CheckLogits(made, 5, EE_FLOAT16);
  }
}

// Every part equals the same part of the whole, within rounding, and changes nothing else.
void TestPartsOfLogits() {
  for (const TtShape& shape : LogitsShapes()) {
    const TtCase made(shape);
    const tt::Table table = made.table();
    const GuardedBuffer scratch = MakeScratch(table);
    const size_t rows = static_cast<size_t>(made.rows()), columns = made.columns(), batch = 3;
    const std::vector<float> hidden(batch * columns, 0.5F);
    const auto logits = [&](size_t begin, size_t end) {
      std::vector<float> result(batch * rows, -1e30F);
      size_t bad = 0;
      CHECK(RunLogits(table, hidden.data(), batch, begin, end, Output{result.data(), EE_FLOAT32},
                      Doubles(scratch), &bad) == EE_OK);
      return result;
    };
    const std::vector<float> whole = logits(0, rows);
    for (const size_t begin : {size_t{0}, size_t{1}, size_t{4}, rows - 1}) {
      for (const size_t end : {begin, begin + 1, begin + 6, rows}) {
        if (end > rows) continue;
        const std::vector<float> part = logits(begin, end);
        for (size_t i = 0; i < batch * rows; ++i) {
          const bool inside = i % rows >= begin && i % rows < end;
          CHECK((part[i] != -1e30F) == inside);
          CHECK(!inside || std::fabs(part[i] - whole[i]) <= 1e-3F * (1.0F + std::fabs(whole[i])));
        }
      }
    }
  }
}

template <typename Change>
ee_status After(Change change) {
  return ValidateAfter(TtCase(kShape), change);
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
  // Cores that fit one by one, while their product is a row of 2^64 columns, or 2^64 rows.
  const auto widen = [](Table& t, int64_t tt::Core::* size) {
    t.num_cores = 4;
    for (size_t k = 0; k < 4; ++k) t.cores[k] = {t.cores[0].data, size_t{1} << 40, 1, 1, 1, 1};
    for (size_t k = 0; k < 4; ++k) t.cores[k].*size = 65536;
    t.num_embeddings = 1;
  };
  CHECK(After([=](Table& t) { widen(t, &tt::Core::columns); }) == EE_SIZE_OVERFLOW);
  CHECK(After([=](Table& t) { widen(t, &tt::Core::rows); }) == EE_SIZE_OVERFLOW);
  // Rows of 2^32 columns, which fit; the states between two cores do not.
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
  ForEachVariant([] {
    TestNumbersOfCores();
    TestRings();
    TestLargestRanks();
    TestAnyAlignment();
    TestUses();
    TestSizesOfProducts();
    TestSharedStates();
    TestLargeSlices();
    TestBadIdsAmongMany();
    TestSumsWhoseRoundingsAllGoOneWay();
    TestLongBags();
    TestLogitsOfBatches();
    TestPartsOfLogits();
    TestWrongFields();
    TestRanksThatDoNotMeet();
    TestShortCores();
    TestSizesThatOverflow();
  });
  return 0;
}
