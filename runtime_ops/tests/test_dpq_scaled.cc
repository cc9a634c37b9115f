// DPQ with row scales: rows are bit-exact, sums within their bound, and a damaged scale code is an error of
// its row. All buffers end at a page without access.
#include "tests/dpq_scaled_case.h"
#include "tests/use_checks.h"

#include <algorithm>

#include "kernels/topk.h"

namespace edge_embed::testing {
namespace {

void CheckRowBits(const ScaledCase& made) {
  const auto table = made.table();
  CHECK(Validate(table) == EE_OK);
  CHECK(Columns(table) == made.columns());
  const GuardedBuffer scratch = MakeScratch(table);
  for (int64_t id = made.rows(); id-- > 0;) {
    const GuardedBuffer output(made.columns() * sizeof(float));
    size_t bad = 0;
    CHECK(TestedKernels(table).gather.run(table, Ids{&id, EE_INT64, 1}, 0, 1,
                                          Output{output.data(), EE_FLOAT32}, Doubles(scratch),
                                          &bad) == EE_OK);
    CHECK(std::memcmp(output.data(), made.ExpectedRow(id).data(), made.columns() * sizeof(float)) == 0);
  }
}

// Sizes around lanes, steps of decoding, and blocks of rows; all bits of codes.
void ForIntegers(const std::vector<int64_t>& widths, const std::vector<int>& bits,
                 void (*check)(const ScaledCase&)) {
  for (const int64_t columns : widths) {
    for (const int b : bits) {
      DpqShape plain{41,
                     int64_t{1} << b,
                     columns,
                     1,
                     true,
                     columns % 2 == 0 ? 3 : kNoPadding,
                     static_cast<size_t>(columns % 4)};
      check(ScaledCase({plain, 5, 0, true, -(int64_t{1} << (b - 1))}));
    }
  }
}

void TestRowsOfIntegers() {
  ForIntegers({1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100}, {1, 2, 3, 4, 5, 6, 7, 8}, CheckRowBits);
}

// Values that are no consecutive integers, several columns a group, other types, no scales.
void TestOtherRows() {
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16, EE_INT8}) {
    for (const int64_t scales : {0, 1, 256}) {
      CheckRowBits(ScaledCase({{40, 16, 5, 4, false, 7, 1, false, type}, scales, 3}));
      CheckRowBits(ScaledCase({{40, 16, 33, 1, true, kNoPadding, 0, false, type}, scales}));
      CheckRowBits(ScaledCase({{40, 10, 6, 3, true, 0, 0, true, type}, scales, 1}));
      CheckRowBits(ScaledCase({{5, 4, 9, 1, false, 4, 3, false, type}, scales}));
      if (type == EE_INT8) continue;  // whose values have another factor
      CheckRowBits(ScaledCase({{40, 16, 20, 1, true, 2, 0, false, type}, scales, 0, true, -8}));
    }
  }
  CheckRowBits(ScaledCase({{40, 16, 20, 1, true, 2}, 3, 0, true, 1 << 21}));  // beyond the fast integers
  CheckRowBits(ScaledCase({{40, 256, 33, 1, true, 2}, 3, 0, true, -100}));    // no signed bytes
}

// A value differs in its last bit, or zero is negative: lookups, not integers.
void TestNearlyIntegers() {
  for (const int64_t changed : {int64_t{0}, int64_t{3}, int64_t{15}}) {
    const ScaledCase made({{20, 16, 24, 1, true}, 4, 0, true, -3});
    dpq_scaled::Table table = made.table();
    std::vector<unsigned char> values(table.values, table.values + table.values_bytes);
    values[static_cast<size_t>(changed) * 4 + (changed == 3 ? 3 : 0)] ^= changed == 3 ? 0x80 : 1;
    table.values = values.data();
    const GuardedBuffer scratch = MakeScratch(table);
    std::vector<int64_t> ids;
    for (int64_t id = 0; id < 20; ++id) ids.push_back(id);
    std::vector<float> rows(20 * 24);
    size_t bad = 0;
    CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, 20, Output{rows.data(), EE_FLOAT32},
                                          Doubles(scratch), &bad) == EE_OK);
    for (size_t id = 0; id < 20; ++id) {
      float scale;
      CHECK(ReadScale(table, id, &scale));
      std::vector<double> plain(24);
      CHECK(dpq::ReadRow(table.plain(), id, plain.data(), nullptr) == EE_OK);
      for (size_t c = 0; c < 24; ++c) {
        const float expected = static_cast<float>(plain[c]) * scale;
        CHECK(std::memcmp(&expected, &rows[id * 24 + c], sizeof(float)) == 0);
      }
    }
  }
}

void TestUses() {
  ForIntegers({1, 8, 33, 64, 100, 300}, {2, 4, 8}, CheckUses<ScaledCase>);
  ForIntegers({19, 72}, {1, 3, 5, 6, 7}, CheckUses<ScaledCase>);
  for (const int64_t scales : {0, 3}) {
    for (const ee_type type : {EE_FLOAT32, EE_FLOAT16, EE_INT8}) {
      CheckUses(ScaledCase({{90, 16, 5, 4, false, 7, 1, false, type}, scales, 3}));
      CheckUses(ScaledCase({{90, 16, 33, 1, false, kNoPadding, 0, false, type}, scales}));
    }
    CheckUses(ScaledCase({{90, 300, 6, 3, true, 0}, scales, 2}));
    CheckUses(ScaledCase({{1300, 256, 12, 2, false, 900}, scales, 1}));
  }
}

// One state has its own kernel, and a block of logits an end.
void TestOneState() {
  for (const int64_t columns : {1, 5, 16, 31, 32, 36, 65, 256}) {
    for (const int64_t codes : {4, 8, 16, 256}) {
      const int64_t rows = columns == 5 ? 4099 : 67;
      const ScaledCase made({{rows, codes, columns, 1, true, 5}, 7, 0, true, -codes / 2});
      CheckLogits(made, 1, EE_FLOAT32);
      CheckLogits(made, 1, EE_FLOAT16);
    }
  }
}

void TestParts() {
  CheckParts(ScaledCase({{9, 16, 8, 1, true}, 3, 0, true, 1}));
  CheckParts(ScaledCase({{9, 256, 20, 1, true}, 3, 0, true, 1}));
  CheckParts(ScaledCase({{9, 16, 4, 4}, 3, 2}));
  CheckBadIds(ScaledCase({{9, 16, 8, 1, true}, 3, 0, true, 1}));
  CheckBadIds(ScaledCase({{9, 16, 4, 4}, 3, 2}));
}

// The first row with a damaged scale code is reported, the rows before it are written, and the rest is
// unchanged. The scale code of the padding row is not read.
void CheckDamagedScale(const ScaledCase& made) {
  dpq_scaled::Table table = made.table();
  std::vector<unsigned char> codes(table.row_scale_codes,
                                   table.row_scale_codes + table.row_scale_codes_bytes);
  codes[2] = 255;
  codes[4] = static_cast<unsigned char>(table.num_row_scales);
  codes[6] = static_cast<unsigned char>(table.num_row_scales);
  table.row_scale_codes = codes.data();
  CHECK(Validate(table) == EE_OK);
  const GuardedBuffer scratch = MakeScratch(table);
  const size_t columns = made.columns();
  const std::vector<int64_t> ids = {0, 2, 1, 4, 6, -1}, offsets = {0, 3, 6};  // 2 is the padding row
  const Bags bags{offsets.data(), 2, nullptr, EE_FLOAT32, BagMode::kSum};
  std::vector<float> gathered(6 * columns, -7.0F), bagged(2 * columns, -7.0F), logits(2 * 9, -7.0F);
  size_t bad = 99;
  CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, 6, Output{gathered.data(), EE_FLOAT32},
                                        Doubles(scratch), &bad) == EE_BAD_ROW_SCALE_CODE);
  CHECK(bad == 3);
  bad = 99;
  CHECK(TestedKernels(table).bag.run(table, ToIds(ids), bags, 0, 2, Output{bagged.data(), EE_FLOAT32},
                                     Doubles(scratch), &bad) == EE_BAD_ROW_SCALE_CODE);
  CHECK(bad == 3);
  for (size_t k = 0; k < 6 * columns; ++k) CHECK((gathered[k] == -7.0F) == (k >= 3 * columns));
  for (size_t k = 0; k < 2 * columns; ++k) CHECK((bagged[k] == -7.0F) == (k >= columns));
  for (const size_t batch : {size_t{1}, size_t{2}}) {
    const std::vector<float> hidden(batch * columns, 1.0F);
    std::fill(logits.begin(), logits.end(), -7.0F);
    bad = 99;
    CHECK(RunLogits(table, hidden.data(), batch, 0, 9, Output{logits.data(), EE_FLOAT32}, Doubles(scratch),
                    &bad) == EE_BAD_ROW_SCALE_CODE);
    CHECK(bad == 4);
    for (size_t k = 0; k < batch * 9; ++k) CHECK((logits[k] == -7.0F) == (k % 9 >= 4));
  }
}

void TestDamagedScales() {
  CheckDamagedScale(ScaledCase({{9, 16, 8, 1, true, 2}, 3, 0, true, 1}));
  CheckDamagedScale(ScaledCase({{9, 256, 20, 1, true, 2}, 3, 0, true, 1}));
  CheckDamagedScale(ScaledCase({{9, 16, 4, 4, false, 2}, 3, 2}));
}

// Infinite and NaN scales and states give what the definition gives.
void TestHostileNumbers() {
  const ScaledCase made({{90, 16, 24, 1, true, 3}, 3, 0, true, 1});
  dpq_scaled::Table table = made.table();
  const float scales[] = {1, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
  table.row_scales = reinterpret_cast<const unsigned char*>(scales);
  std::vector<unsigned char> codes(table.row_scale_codes, table.row_scale_codes + 90);
  codes[3] = 1;  // of the padding row
  table.row_scale_codes = codes.data();
  const GuardedBuffer scratch = MakeScratch(table);
  std::vector<int64_t> ids;
  for (int64_t id = 0; id < 90; ++id) ids.push_back(id);
  std::vector<float> rows(90 * 24), logits(90);
  const std::vector<float> hidden(24, 1.0F);
  size_t bad = 0;
  CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, 90, Output{rows.data(), EE_FLOAT32},
                                        Doubles(scratch), &bad) == EE_OK);
  CHECK(RunLogits(table, hidden.data(), 1, 0, 90, Output{logits.data(), EE_FLOAT32}, Doubles(scratch),
                  &bad) == EE_OK);
  for (size_t id = 0; id < 90; ++id) {
    const unsigned char code = id == 3 ? 0 : table.row_scale_codes[id];
    const auto is = [code](float number) {
      return code == 0 ? std::isfinite(number) : code == 1 ? std::isinf(number) : std::isnan(number);
    };
    CHECK(is(rows[id * 24]) && is(rows[id * 24 + 23]) && is(logits[id]));
  }
}

// The largest logits, in order, are those of the logits of the same kernels.
void TestTopK() {
  for (const int64_t codes : {4, 16, 256}) {
    const ScaledCase made({{1500, codes, 40, 1, true, 3}, 9, 0, true, -codes / 2});
    const auto table = made.table();
    const TopK<dpq_scaled::Table> kernel(*Tested(), table);
    std::vector<float> hidden(2 * 40), logits(2 * 1500);
    for (size_t k = 0; k < hidden.size(); ++k)
      hidden[k] = static_cast<float>(std::sin(static_cast<double>(k)));
    uint64_t doubles, prepared_doubles;
    CHECK(kernel.scratch(table).Get(&doubles) && kernel.Prepared(table, 2).Get(&prepared_doubles));
    const GuardedBuffer scratch(doubles * sizeof(double)), prepared(prepared_doubles * sizeof(double));
    const GuardedBuffer logit_scratch = MakeScratch(table);
    size_t bad = 0;
    CHECK(RunLogits(table, hidden.data(), 2, 0, 1500, Output{logits.data(), EE_FLOAT32},
                    Doubles(logit_scratch), &bad) == EE_OK);
    constexpr size_t kBest = 20;
    std::vector<Candidate> best(2 * (kBest + 1), kNone);
    TopKInput input{kernel.Prepare(table, hidden.data(), 2, Doubles(prepared)), kBest, nullptr, EE_FLOAT32,
                    best.data()};
    CHECK(kernel.Run(table, input, 0, 1500, Doubles(scratch), &bad) == EE_OK);
    for (size_t b = 0; b < 2; ++b) {
      std::vector<Candidate> all;
      for (size_t i = 0; i < 1500; ++i) all.push_back(MakeCandidate(logits[b * 1500 + i], i));
      std::sort(all.rbegin(), all.rend());
      Sort(input.BestOf(b).heap, kBest);
      for (size_t i = 0; i < kBest; ++i) CHECK(input.BestOf(b).heap[i] == all[i]);
    }
  }
}

void TestValidate() {
  const ScaledShape shape{{9, 16, 4, 4, false, 2}, 3, 2};
  const auto after = [&](void (*change)(dpq_scaled::Table&)) {
    const ScaledCase made(shape);
    dpq_scaled::Table table = made.table();
    change(table);
    return Validate(table);
  };
  using T = dpq_scaled::Table;
  CHECK(after([](T&) {}) == EE_OK);
  CHECK(after([](T& t) { --t.codes_bytes; }) == EE_SHORT_CODES);
  CHECK(after([](T& t) { t.unused_columns = -1; }) == EE_BAD_UNUSED_COLUMNS);
  CHECK(after([](T& t) { t.unused_columns = 4; }) == EE_BAD_UNUSED_COLUMNS);
  CHECK(after([](T& t) { t.unused_columns = std::numeric_limits<int64_t>::min(); }) == EE_BAD_UNUSED_COLUMNS);
  CHECK(after([](T& t) { t.num_row_scales = -1; }) == EE_BAD_NUM_ROW_SCALES);
  CHECK(after([](T& t) { t.num_row_scales = 257; }) == EE_BAD_NUM_ROW_SCALES);
  CHECK(after([](T& t) { t.row_scale_codes = nullptr; }) == EE_NULL_POINTER);
  CHECK(after([](T& t) { t.row_scales = nullptr; }) == EE_NULL_POINTER);
  CHECK(after([](T& t) { --t.row_scale_codes_bytes; }) == EE_SHORT_ROW_SCALE_CODES);
  CHECK(after([](T& t) { --t.row_scales_bytes; }) == EE_SHORT_ROW_SCALES);
  CHECK(after([](T& t) { t.num_row_scales = 4; }) == EE_SHORT_ROW_SCALES);
  CHECK(after([](T& t) { t.num_row_scales = 0, t.row_scales = t.row_scale_codes = nullptr; }) == EE_OK);
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  TestValidate();
  ForEachVariant([] {
    TestRowsOfIntegers();
    TestOtherRows();
    TestNearlyIntegers();
    TestUses();
    TestOneState();
    TestParts();
    TestDamagedScales();
    TestHostileNumbers();
    TestTopK();
  });
  return 0;
}
