// Column-wise rows: one column a group, each with a codebook of its own. Rows are bit-exact and sums within
// their bound, for all numbers of columns around those that are looked up together, all numbers of codes, and
// with and without row scales.
#include "tests/dpq_scaled_case.h"
#include "tests/use_checks.h"

namespace edge_embed::testing {
namespace {

// 40 bags: more than are added together, and of other sizes.
BagCase ManyBags(int64_t rows, bool weighted) {
  BagCase bags;
  bags.offsets.push_back(0);
  for (const int64_t size : {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 0, 1, 2, 5, 6, 0, 64, 1, 65, 60, 11, 130, 3, 0}) {
    bags.offsets.push_back(bags.offsets.back() + size);
  }
  for (int64_t i = 0; i < 80; ++i) bags.offsets.push_back(bags.offsets.back() + (i % 3 == 0));
  for (int64_t i = 0; i < bags.offsets.back(); ++i) {
    bags.ids.push_back(i * 37 % rows);
    if (weighted) bags.weights.push_back(std::cos(static_cast<double>(i)));
  }
  return bags;
}

template <class Case>
void CheckBags(const Case& made) {
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
    for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax}) {
      CheckBag(made, ManyBags(made.rows(), false), mode, type);
    }
    CheckBag(made, ManyBags(made.rows(), true), BagMode::kSum, type);
  }
}

// `count` rows have the bits of the definition.
template <class Case>
void CheckRowBits(const Case& made, size_t count) {
  const auto table = made.table();
  CHECK(Validate(table) == EE_OK);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < count; ++i)
    ids.push_back(static_cast<int32_t>(i * 7) % static_cast<int32_t>(made.rows()));
  const GuardedBuffer scratch = MakeScratch(table), output(count * made.columns() * sizeof(float));
  size_t bad = 12345;
  CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, count, Output{output.data(), EE_FLOAT32},
                                        Doubles(scratch), &bad) == EE_OK);
  CHECK(bad == 12345);
  for (size_t i = 0; i < count; ++i) {
    const size_t row_bytes = made.columns() * sizeof(float);
    CHECK(std::memcmp(output.data() + i * row_bytes, made.ExpectedRow(ids[i]).data(), row_bytes) == 0);
  }
}

DpqShape Columns(int64_t columns, int64_t num_codes, ee_type type = EE_FLOAT32) {
  const int64_t padding = columns % 3 == 0 ? 3 : kNoPadding;
  return {23, num_codes, columns, 1, false, padding, static_cast<size_t>(columns % 5), true, type};
}

void TestRows() {
  for (const int64_t columns : {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129}) {
    for (const int64_t codes : {2, 3, 4, 5, 8, 11, 16, 17, 29, 32}) {
      const auto count = static_cast<size_t>(columns + codes);
      CheckRowBits(DpqCase(Columns(columns, codes)), count);
      CheckRowBits(DpqCase(Columns(columns, codes, EE_FLOAT16)), count);
      CheckRowBits(DpqCase(Columns(columns, codes, EE_INT8)), count);
      CheckRowBits(ScaledCase({Columns(columns, codes), 5}), count);
    }
  }
  for (const size_t count :
       {size_t{0}, size_t{1}, size_t{3}, size_t{8}, size_t{64}, size_t{65}, size_t{200}}) {
    CheckRowBits(DpqCase(Columns(48, 16)), count);
    CheckRowBits(DpqCase(Columns(66, 16, EE_FLOAT16)), count);
  }
}

void TestHalfRows() {
  for (const int64_t columns : {1, 16, 33, 90}) {
    for (const int64_t codes : {3, 16, 32}) {
      const DpqCase made(Columns(columns, codes, EE_FLOAT16));
      std::vector<int64_t> ids;
      for (int64_t i = 0; i < 70; ++i) ids.push_back(i % made.rows());
      CheckGather(made, ids, EE_FLOAT16);
    }
  }
}

void TestBags() {
  for (const int64_t columns : {1, 16, 24, 65, 130}) {
    for (const int64_t codes : {2, 4, 7, 16, 32}) {
      if (columns % 16 != 0 && codes % 16 == 4) continue;  // would only be slower
      CheckBags(DpqCase(Columns(columns, codes)));
    }
  }
  CheckBags(DpqCase(Columns(40, 13, EE_FLOAT16)));
  CheckBags(DpqCase(Columns(40, 16, EE_INT8)));
  CheckBags(ScaledCase({Columns(48, 16), 7}));
  CheckBags(ScaledCase({Columns(21, 30), 7}));
}

void TestUses() {
  for (const int64_t columns : {5, 16, 48, 99}) {
    for (const int64_t codes : {2, 3, 4, 8, 16, 31}) {
      CheckUses(DpqCase(Columns(columns, codes)));
      CheckUses(DpqCase(Columns(columns, codes, EE_FLOAT16)));
    }
  }
  CheckUses(ScaledCase({Columns(33, 4), 3}));
  CheckParts(DpqCase(Columns(16, 16)));
  CheckParts(DpqCase(Columns(17, 5)));
  CheckBadIds(DpqCase(Columns(16, 16)));
  CheckBadIds(ScaledCase({Columns(16, 16), 3}));
}

// The first of several wrong ids is reported, and the rows and bags before it are written.
void TestBadIdInAnyWindow() {
  const DpqCase made({9, 16, 20, 1});
  const GuardedBuffer scratch = MakeScratch(made.table());
  for (const size_t at : std::vector<size_t>{0, 1, 7, 8, 63, 64, 65, 128, 149}) {
    std::vector<int64_t> ids(150, 3), offsets = {0};
    for (size_t i = at; i < ids.size(); i += 5) ids[i] = i % 2 == 0 ? 9 : -1;
    for (int64_t end = 5; end <= 150; end += 5) offsets.push_back(end);
    std::vector<float> rows(150 * 20, -77.0F), sums(30 * 20, -77.0F);
    size_t bad = 999;
    CHECK(TestedKernels(made.table())
              .gather.run(made.table(), ToIds(ids), 0, 150, Output{rows.data(), EE_FLOAT32}, Doubles(scratch),
                          &bad) == EE_ID_OUT_OF_RANGE);
    CHECK(bad == at);
    for (size_t k = 0; k < rows.size(); ++k) CHECK((rows[k] == -77.0F) == (k >= at * 20));
    const Bags bags{offsets.data(), 30, nullptr, EE_FLOAT32, BagMode::kSum};
    bad = 999;
    CHECK(TestedKernels(made.table())
              .bag.run(made.table(), ToIds(ids), bags, 0, 30, Output{sums.data(), EE_FLOAT32},
                       Doubles(scratch), &bad) == EE_ID_OUT_OF_RANGE);
    CHECK(bad == at);
    for (size_t k = 0; k < sums.size(); ++k) CHECK((sums[k] == -77.0F) == (k >= at / 5 * 20));
  }
}

// A bag has the same bits whatever bags are before it, and in any part of a call.
void TestBagsDoNotDependOnOthers() {
  const DpqCase made({41, 16, 48, 1});
  const GuardedBuffer scratch = MakeScratch(made.table());
  std::vector<int64_t> ids, offsets = {0};
  for (const int64_t size : {3, 9, 61, 0, 70, 130, 2, 64, 5, 33}) offsets.push_back(offsets.back() + size);
  for (int64_t i = 0; i < offsets.back(); ++i) ids.push_back(i * 29 % 41);
  const size_t count = offsets.size() - 1;
  const Bags bags{offsets.data(), count, nullptr, EE_FLOAT32, BagMode::kMean};
  std::vector<float> together(count * 48), apart(count * 48);
  size_t bad = 0;
  const auto run = [&](size_t begin, size_t end, std::vector<float>* out) {
    CHECK(TestedKernels(made.table())
              .bag.run(made.table(), ToIds(ids), bags, begin, end, Output{out->data(), EE_FLOAT32},
                       Doubles(scratch), &bad) == EE_OK);
  };
  run(0, count, &together);
  for (size_t bag = 0; bag < count; ++bag) run(bag, bag + 1, &apart);
  CHECK(together == apart);
}

// Every bit of a value is kept, also those of a signalling NaN; a padding row is +0.0.
void TestNotANumberIsCopied() {
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
    DpqCase made({30, 4, 32, 1, false, 2, 0, false, type});
    dpq::Table table = made.table();
    std::vector<unsigned char> values(table.values_bytes);
    for (uint32_t k = 0; k < 128; ++k) {
      const uint32_t bits = type == EE_FLOAT32 ? 0xFFA00001U + k : 0x7C01U + 0x8000U * (k & 1) + 5 * k;
      for (size_t byte = 0; byte < OutputSize(type); ++byte) {
        values[k * OutputSize(type) + byte] = static_cast<unsigned char>(bits >> (8 * byte));
      }
    }
    table.values = values.data();
    const GuardedBuffer scratch = MakeScratch(table);
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < 30; ++i) ids.push_back(i);
    std::vector<uint32_t> rows(30 * 32), expected;
    size_t bad = 0;
    CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, 30, Output{rows.data(), EE_FLOAT32},
                                          Doubles(scratch), &bad) == EE_OK);
    for (int64_t id = 0; id < 30; ++id) {
      const std::vector<int64_t> codes = made.Codes(id);
      for (size_t c = 0; c < 32; ++c) {
        const uint32_t k = static_cast<uint32_t>(c * 4) + static_cast<uint32_t>(codes[c]);
        const uint32_t half = 0x7C01U + 0x8000U * (k & 1) + 5 * k;
        const uint32_t widened = (half & 0x8000) << 16 | 0x7F800000 | (half & 0x3FF) << 13;
        expected.push_back(id == 2 ? 0 : type == EE_FLOAT32 ? 0xFFA00001U + k : widened);
      }
    }
    CHECK(rows == expected);
  }
}

// Prepacked codes are for four bits only: others are ignored.
void TestBlocksOfOtherBitsAreIgnored() {
  const DpqCase made({200, 4, 40, 1});
  dpq::Table table = made.table();
  const GuardedBuffer scratch = MakeScratch(table);
  const std::vector<float> hidden(40, 0.5F);
  std::vector<float> expected(200), logits(200);
  size_t bad = 0;
  CHECK(RunLogits(table, hidden.data(), 1, 0, 200, Output{expected.data(), EE_FLOAT32}, Doubles(scratch),
                  &bad) == EE_OK);
  const GuardedBuffer blocks(1);
  table.blocks = blocks.data();
  table.blocks_bytes = 1;
  CHECK(dpq::Validate(table) == EE_OK);
  CHECK(RunLogits(table, hidden.data(), 1, 0, 200, Output{logits.data(), EE_FLOAT32}, Doubles(scratch),
                  &bad) == EE_OK);
  CHECK(logits == expected);
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  ForEachVariant([] {
    TestRows();
    TestHalfRows();
    TestBags();
    TestUses();
    TestBadIdInAnyWindow();
    TestBagsDoNotDependOnOthers();
    TestNotANumberIsCopied();
    TestBlocksOfOtherBitsAreIgnored();
  });
  return 0;
}
