// Rows of ANT, and the common parts of all its uses, against the definition, for every combination of types.
// Every buffer ends at a page without access.
#include "tests/ant_case.h"
#include "tests/use_checks.h"

namespace edge_embed::testing {
namespace {

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
  CheckBadIds(AntCase({6, 5, 3}));
}

void TestATableWithoutWeights() {
  const AntCase made({4, 3, 2, EE_UINT8, EE_FLOAT32, EE_FLOAT32, kNoPadding, 0.0});
  CheckAllRows(made);
  ant::Table table = made.table();
  table.anchor_ids = table.weights = nullptr;
  CHECK(ant::Validate(table) == EE_OK);
}

// Sizes around those of vectors, tiles of columns and blocks of rows.
void TestBlocksOfRows() {
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
    for (const int64_t columns : {15, 16, 17, 47, 511, 512, 513, 520, 527, 528, 529, 1041}) {
      CheckAllRows(AntCase({4, 12, columns, EE_UINT8, EE_FLOAT32, type}));
    }
    for (const int64_t columns : {255, 256, 257, 264, 271, 272, 273, 529}) {
      CheckAllRows(AntCase({4, 257, columns, EE_UINT16, EE_FLOAT32, type, kNoPadding, 0.04}));
    }
    for (const int64_t rows : {63, 64, 65, 128, 129, 200}) {
      CheckAllRows(AntCase({rows, 16, 35, EE_UINT8, EE_INT8, type, 3}));
      CheckAllRows(AntCase({rows, 40, 5, EE_UINT16, EE_FLOAT16, type, 3, 0.9}));
    }
  }
}

// Every number of weights up to 40: of a piece, of a group of four, and of more.
void TestRowsOfAnyLength() {
  for (int64_t anchors = 1; anchors <= 40; ++anchors) {
    const AntCase made({3, anchors, 33, EE_UINT8, EE_FLOAT16, EE_FLOAT32, kNoPadding, 1.0});
    CheckAllRows(made);
    CheckBag(made, SomeBags(3, true), BagMode::kSum, EE_FLOAT32);
    CheckLogits(made, 2, EE_FLOAT32);
  }
}

// Rows of more weights than are decoded at a time, between shorter rows.
void TestLongRows() {
  for (const double density : {1.0, 0.3}) {
    for (const int64_t anchors : {511, 512, 513, 1300}) {
      const AntCase made({9, anchors, 19, EE_UINT16, EE_INT8, EE_FLOAT32, 4, density});
      CheckAllRows(made);
      CheckBag(made, SomeBags(9, true), BagMode::kSum, EE_FLOAT32);
      CheckBag(made, SomeBags(9, false), BagMode::kMax, EE_FLOAT32);
      for (const size_t batch : std::vector<size_t>{1, 3, 40}) CheckLogits(made, batch, EE_FLOAT32);
    }
  }
}

// A large term, followed by small ones that would each be rounded up if added one by one. From the eighth
// term on, every step-th is a small term, and the others are zero.
void CheckRoundings(size_t anchors, float small, size_t step) {
  constexpr size_t kColumns = 20;
  AntCase made(
      {1, static_cast<int64_t>(anchors), kColumns, EE_UINT16, EE_FLOAT32, EE_FLOAT32, kNoPadding, 1.0});
  const float one = 1.0F, zero = 0.0F;
  double exact = 0;
  for (size_t t = 0; t < anchors; ++t) {
    const float& term = t == 0 ? one : t < 8 || t % step == 0 ? small : zero;
    exact += static_cast<double>(term);
    std::memcpy(made.weight_buffer().mutable_data() + 4 * t, &one, sizeof(one));
    for (size_t c = 0; c < kColumns; ++c) {
      std::memcpy(made.anchor_buffer().mutable_data() + 4 * (t * kColumns + c), &term, sizeof(term));
    }
  }
  const ant::Table table = made.table();
  const GuardedBuffer scratch = MakeScratch(table);
  const Kernels<ant::Table>& kernels = TestedKernels(table);
  const std::vector<int64_t> ids = {0}, offsets = {0, 1};
  const Bags bags{offsets.data(), 1, nullptr, EE_FLOAT32, BagMode::kSum};
  std::vector<float> hidden(kColumns), sums(3 * kColumns);
  hidden[0] = 1;
  const auto out = [&](size_t use) { return Output{sums.data() + use * kColumns, EE_FLOAT32}; };
  size_t bad = 0;
  CHECK(kernels.gather.run(table, ToIds(ids), 0, 1, out(0), Doubles(scratch), &bad) == EE_OK);
  CHECK(kernels.bag.run(table, ToIds(ids), bags, 0, 1, out(1), Doubles(scratch), &bad) == EE_OK);
  CHECK(RunLogits(table, hidden.data(), 1, 0, 1, out(2), Doubles(scratch), &bad) == EE_OK);
  for (size_t c = 0; c <= 2 * kColumns; ++c) {
    CHECK(Rounded(static_cast<double>(sums[c]), exact, exact, EE_FLOAT32));
  }
}

void TestSumsWhoseRoundingsAllGoOneWay() {
  for (const size_t anchors : std::vector<size_t>{2, 4, 8, 9, 16, 17, 24, 25, 32, 33, 64, 256, 600}) {
    for (const size_t step : std::vector<size_t>{1, 8}) {
      CheckRoundings(anchors, std::ldexp(1.01F, -24), step);
      CheckRoundings(anchors, std::ldexp(1.01F, -27), step);  // eight of them are as much
    }
  }
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  ForEachVariant([] {
    TestEveryMixtureOfTypes();
    TestSizes();
    TestAnyAlignment();
    TestUses();
    TestATableWithoutWeights();
    TestBlocksOfRows();
    TestRowsOfAnyLength();
    TestLongRows();
    TestSumsWhoseRoundingsAllGoOneWay();
  });
  return 0;
}
