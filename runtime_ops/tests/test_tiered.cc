// Tiered tables: rows are bit-exact, sums within their bound, top-k in the order of all rows, and a wrong
// tier, rank or scale code is an error of its row. All buffers end at a page without access.
#include "tests/tiered_case.h"

#include "kernels/topk.h"
#include "tests/use_checks.h"

namespace edge_embed::testing {
namespace {

void CheckRowBits(const TieredCase& made) {
  const auto table = made.table();
  CHECK(Validate(table) == EE_OK);
  CHECK(Columns(table) == made.columns());
  const GuardedBuffer scratch = MakeScratch(table);
  std::vector<int64_t> ids;
  for (int64_t id = made.rows(); id-- > 0;) ids.push_back(id);
  const size_t row_bytes = made.columns() * sizeof(float);
  const GuardedBuffer output(ids.size() * row_bytes);
  size_t bad = 0;
  CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, ids.size(), Output{output.data(), EE_FLOAT32},
                                        Doubles(scratch), &bad) == EE_OK);
  for (size_t i = 0; i < ids.size(); ++i) {
    CHECK(std::memcmp(output.data() + i * row_bytes, made.ExpectedRow(ids[i]).data(), row_bytes) == 0);
  }
}

// Rows around the ends of a block of the map and of 256 ids.
void TestRows() {
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
    for (const bool mapped : {true, false}) {
      for (const int64_t columns : {4, 20, 36}) {
        CheckRowBits(TieredCase({SomeTiers(columns, 3, 5, 1, type), mapped}));
        CheckRowBits(TieredCase({OtherTiers(columns, 100, 156, 1, type), mapped, 256}));
        CheckRowBits(TieredCase({SomeTiers(columns, 40, 390, 82, type), mapped, 511}));
      }
      CheckRowBits(TieredCase({OtherTiers(100, 1, 254, 1, type), mapped, 0}));
      CheckRowBits(TieredCase({SomeTiers(8, 300, 400, 400, type), mapped, 1023}));
    }
  }
}

void TestUses() {
  for (const bool mapped : {true, false}) {
    for (const int64_t columns : {4, 20, 36, 132}) {
      CheckUses(TieredCase({SomeTiers(columns, 9, 8, 8), mapped, 5}));
      CheckUses(TieredCase({OtherTiers(columns, 100, 200, 280), mapped}));
    }
    CheckUses(TieredCase({SomeTiers(64, 90, 200, 30, EE_FLOAT16), mapped, 3}));
    CheckParts(TieredCase({SomeTiers(8, 3, 3, 3), mapped}));
    CheckBadIds(TieredCase({SomeTiers(8, 3, 3, 3), mapped}));
  }
}

// A bag that exceeds a chunk is reduced in parts, also if the first ones have only the padding row.
void TestLongBags() {
  const TieredCase made({SomeTiers(8, 90, 100, 110), true, 7});
  BagCase bags;
  bags.offsets = {0, 300, 301, 301, 1000, 1003};
  for (int64_t i = 0; i < 1003; ++i) bags.ids.push_back(i < 290 || i == 1001 ? 7 : i * 7 % 300);
  for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax}) {
    CheckBag(made, bags, mode, EE_FLOAT32);
    CheckBag(made, bags, mode, EE_FLOAT16);
  }
  for (size_t i = 0; i < bags.ids.size(); ++i) bags.weights.push_back(std::sin(static_cast<double>(i)));
  CheckBag(made, bags, BagMode::kSum, EE_FLOAT32);
}

// Spans of logits: their first and last rows lie inside blocks, for one and several states.
void TestLogits() {
  for (const size_t batch : {size_t{1}, size_t{2}, size_t{16}}) {
    CheckLogits(TieredCase({SomeTiers(8, 400, 900, 300), true, 1500}), batch, EE_FLOAT32);
    CheckLogits(TieredCase({OtherTiers(8, 500, 9000, 8500), true, 17999}), batch, EE_FLOAT32);
  }
  const TieredCase made({SomeTiers(12, 200, 300, 170), true, 300});
  const auto table = made.table();
  const GuardedBuffer scratch = MakeScratch(table);
  const size_t rows = static_cast<size_t>(made.rows());
  const std::vector<float> hidden(12, 0.5F);
  std::vector<float> whole(rows);
  size_t bad = 0;
  CHECK(RunLogits(table, hidden.data(), 1, 0, rows, Output{whole.data(), EE_FLOAT32}, Doubles(scratch),
                  &bad) == EE_OK);
  for (const size_t begin : {size_t{0}, size_t{3}, size_t{255}, size_t{256}, size_t{301}}) {
    for (const size_t end : {begin + 1, begin + 18, begin + 260}) {
      std::vector<float> part(rows, -7.0F);
      CHECK(RunLogits(table, hidden.data(), 1, begin, end, Output{part.data(), EE_FLOAT32}, Doubles(scratch),
                      &bad) == EE_OK);
      for (size_t id = 0; id < rows; ++id) {
        CHECK(id < begin || id >= end ? part[id] == -7.0F : std::fabs(part[id] - whole[id]) < 1e-4F);
      }
    }
  }
}

// Equal rows in all tiers: the lowest id is first.
void TestTopK() {
  for (const bool mapped : {true, false}) {
    const TieredCase made({SomeTiers(8, 120, 200, 90), mapped, 40});
    const auto table = made.table();
    const TopK<tiered::Table> kernel(*Tested(), table);
    for (const bool zero : {false, true}) {
      std::vector<float> hidden(8);
      for (size_t c = 0; c < 8; ++c) hidden[c] = zero ? 0.0F : std::cos(static_cast<float>(c));
      const GuardedBuffer scratch(kernel.scratch(table).saturated() * sizeof(double));
      const GuardedBuffer prepared(kernel.Prepared(table, 1).saturated() * sizeof(double));
      std::vector<Candidate> best(11, kNone);
      const TopKInput input{kernel.Prepare(table, hidden.data(), 1, Doubles(prepared)), 10, nullptr,
                            EE_FLOAT32, best.data()};
      size_t bad = 0;
      CHECK(kernel.Run(table, input, 0, 410, Doubles(scratch), &bad) == EE_OK);
      Sort(best.data(), 10);
      std::vector<float> logits(410);
      const GuardedBuffer other = MakeScratch(table);
      CHECK(RunLogits(table, hidden.data(), 1, 0, 410, Output{logits.data(), EE_FLOAT32}, Doubles(other),
                      &bad) == EE_OK);
      std::vector<Candidate> expected;
      for (size_t id = 0; id < 410; ++id) expected.push_back(MakeCandidate(logits[id], id));
      std::sort(expected.begin(), expected.end(), std::greater<>());
      for (size_t i = 0; i < 10; ++i) CHECK(best[i] == expected[i]);
    }
  }
}

// Row `wrong` cannot be read: rows before it are written, all others stay as they are.
void CheckDamaged(const tiered::Table& table, ee_status expected, int64_t wrong) {
  CHECK(Validate(table) == EE_OK);
  const GuardedBuffer scratch = MakeScratch(table);
  const size_t columns = Columns(table), rows = static_cast<size_t>(table.num_embeddings);
  const std::vector<int64_t> ids = {0, 1, 2, wrong, 3, -1}, offsets = {0, 3, 6};
  const Bags bags{offsets.data(), 2, nullptr, EE_FLOAT32, BagMode::kSum};
  std::vector<float> gathered(6 * columns, -7.0F), bagged(2 * columns, -7.0F);
  size_t bad = 99;
  CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, 6, Output{gathered.data(), EE_FLOAT32},
                                        Doubles(scratch), &bad) == expected);
  CHECK(bad == 3);
  bad = 99;
  CHECK(TestedKernels(table).bag.run(table, ToIds(ids), bags, 0, 2, Output{bagged.data(), EE_FLOAT32},
                                     Doubles(scratch), &bad) == expected);
  CHECK(bad == 3);
  for (size_t k = 0; k < gathered.size(); ++k) CHECK((gathered[k] == -7.0F) == (k >= 3 * columns));
  for (size_t k = 0; k < bagged.size(); ++k) CHECK((bagged[k] == -7.0F) == (k >= columns));
  for (const size_t batch : {size_t{1}, size_t{3}}) {
    const std::vector<float> hidden(batch * columns, 1.0F);
    std::vector<float> logits(batch * rows, -7.0F);
    bad = 99;
    CHECK(RunLogits(table, hidden.data(), batch, 0, rows, Output{logits.data(), EE_FLOAT32}, Doubles(scratch),
                    &bad) == expected);
    CHECK(bad == static_cast<size_t>(wrong));
    for (size_t k = 0; k < logits.size(); ++k) {
      CHECK((logits[k] == -7.0F) == (k % rows >= static_cast<size_t>(wrong)));
    }
  }
}

void SetRanks(TieredCase* made, size_t block, int32_t rank) {
  for (size_t t = 0; t < 3; ++t)
    std::memcpy(made->ranks() + (block * 3 + t) * sizeof(rank), &rank, sizeof(rank));
}

void TestDamagedMap() {
  TieredCase three({SomeTiers(8, 300, 100, 200), true});
  three.map()[300 / 4] = static_cast<unsigned char>(three.map()[300 / 4] | 3);  // a fourth tier
  CheckDamaged(three.table(), EE_BAD_TIER_PLACE, 300);

  for (const int32_t rank :
       {600, std::numeric_limits<int32_t>::max(), -400, std::numeric_limits<int32_t>::min()}) {
    for (const size_t block : {size_t{1}, size_t{2}}) {
      TieredCase made({SomeTiers(8, 300, 300, 10), true});
      SetRanks(&made, block, rank);
      CheckDamaged(made.table(), EE_BAD_TIER_PLACE, static_cast<int64_t>(block) * 256);
    }
  }
}

// Ranks of other rows of the tier: every use reads the same wrong rows.
void TestWrongRanks() {
  TieredCase made({SomeTiers(8, 300, 300, 10), true});
  SetRanks(&made, 1, 3);
  const auto table = made.table();
  const GuardedBuffer scratch = MakeScratch(table);
  std::vector<int64_t> ids;
  for (int64_t id = 0; id < 610; ++id) ids.push_back(id);
  std::vector<float> rows(610 * 8), logits(610);
  const std::vector<float> hidden(8, 1.0F);
  size_t bad = 0;
  CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, 610, Output{rows.data(), EE_FLOAT32},
                                        Doubles(scratch), &bad) == EE_OK);
  CHECK(RunLogits(table, hidden.data(), 1, 0, 610, Output{logits.data(), EE_FLOAT32}, Doubles(scratch),
                  &bad) == EE_OK);
  for (size_t id = 0; id < 610; ++id) {
    double sum = 0;
    for (size_t c = 0; c < 8; ++c) sum += static_cast<double>(rows[id * 8 + c]);
    CHECK(std::fabs(sum - static_cast<double>(logits[id])) < 1e-2);
  }
}

// The scale code of the padding row is not read.
void TestDamagedScales() {
  for (const bool mapped : {true, false}) {
    const TieredCase made({SomeTiers(8, 60, 40, 30), mapped, 2});
    tiered::Table table = made.table();
    std::vector<unsigned char> codes(table.tiers[0].row_scale_codes, table.tiers[0].row_scale_codes + 60);
    table.tiers[0].row_scale_codes = codes.data();
    int64_t wrong = 10;
    tiered::Place place{};
    while (!FindPlace(table, static_cast<size_t>(wrong), &place) || place.tier != 0) ++wrong;
    codes[place.row] = 9;
    if (FindPlace(table, 2, &place) && place.tier == 0) codes[place.row] = 9;
    CheckDamaged(table, EE_BAD_ROW_SCALE_CODE, wrong);
  }
}

void TestValidate() {
  const TieredShape shape{SomeTiers(8, 300, 310, 5), true, 4};
  const auto after = [&](const auto& change) {
    TieredCase made(shape);
    tiered::Table table = made.table();
    change(table);
    return Validate(table);
  };
  using T = tiered::Table;
  CHECK(after([](T&) {}) == EE_OK);
  CHECK(after([](T& t) { t.tiers[2].num_embeddings = 0; }) == EE_BAD_SHAPE);
  CHECK(after([](T& t) { t.tiers[2].num_embeddings = 4; }) == EE_BAD_TIERS);
  CHECK(after([](T& t) { t.tiers[2].group_width = 4; }) == EE_BAD_TIERS);
  CHECK(after([](T& t) { ++t.num_embeddings; }) == EE_BAD_TIERS);
  CHECK(after([](T& t) { t.num_embeddings = 0; }) == EE_BAD_TIERS);
  CHECK(after([](T& t) { t.tiers[1].padding_idx = 0; }) == EE_BAD_TIERS);
  CHECK(after([](T& t) { t.tiers[1].unused_columns = 1; }) == EE_BAD_TIERS);
  CHECK(after([](T& t) { --t.tiers[2].codes_bytes; }) == EE_SHORT_CODES);
  CHECK(after([](T& t) { --t.tiers[0].row_scale_codes_bytes; }) == EE_SHORT_ROW_SCALE_CODES);
  CHECK(after([](T& t) { --t.map_bytes; }) == EE_SHORT_TIER_MAP);
  CHECK(after([](T& t) { --t.ranks_bytes; }) == EE_SHORT_TIER_RANKS);
  CHECK(after([](T& t) { t.ranks = nullptr; }) == EE_NULL_POINTER);
  CHECK(after([](T& t) { t.padding_idx = 615; }) == EE_BAD_PADDING);
  CHECK(after([](T& t) { t.padding_idx = -2; }) == EE_BAD_PADDING);
  CHECK(after([](T& t) { t.map = nullptr; }) == EE_OK);
  TieredCase made(shape);
  SetRanks(&made, 0, 1000);
  CHECK(Validate(made.table()) == EE_BAD_PADDING);  // the place of the padding row
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  TestValidate();
  ForEachVariant([] {
    TestRows();
    TestUses();
    TestLongBags();
    TestLogits();
    TestTopK();
    TestDamagedMap();
    TestWrongRanks();
    TestDamagedScales();
  });
  return 0;
}
