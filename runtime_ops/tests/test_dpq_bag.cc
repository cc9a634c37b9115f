// Bags around the sizes of blocks, for tables whose values are added from codes and tables whose rows are
// computed.
#include "tests/dpq_case.h"
#include "tests/use_checks.h"

namespace edge_embed::testing {
namespace {

// Bags of 0, 1, 2, ... ids: all sizes around those of blocks, and one long bag.
BagCase ManyBags(int64_t rows, bool weighted) {
  BagCase bags;
  bags.offsets.push_back(0);
  for (const int64_t size : {0, 1, 2, 6, 7, 8, 13, 14, 15, 27, 28, 29, 55, 56, 57, 0, 1, 300, 3}) {
    bags.offsets.push_back(bags.offsets.back() + size);
  }
  for (int64_t i = 0; i < bags.offsets.back(); ++i) {
    bags.ids.push_back(i * 37 % rows);
    if (weighted) bags.weights.push_back(std::cos(static_cast<double>(i)));
  }
  return bags;
}

void CheckModes(const DpqShape& shape) {
  const DpqCase made(shape);
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
    for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax}) {
      CheckBag(made, ManyBags(shape.rows, false), mode, type);
    }
    CheckBag(made, ManyBags(shape.rows, true), BagMode::kSum, type);
  }
}

void TestBagsOfAllSizes() {
  CheckModes({11, 16, 8, 4, false, 3});
  CheckModes({11, 16, 3, 3, false, 3});                         // rows are computed
  CheckModes({11, 13, 9, 4, true, 0, 1, true});                 // codes above num_codes-1
  CheckModes({11, 16, 5, 8, false, 10, 1, false, EE_FLOAT16});  // float16
  CheckModes({11, 16, 5, 8, false, 10, 1, false, EE_INT8});
  CheckModes({11, 13, 9, 3, true, 0, 2, true, EE_INT8});
}

void TestGroupsAndWidths() {
  const auto check = [](const DpqShape& shape) {
    const DpqCase made(shape);
    for (const BagMode mode : {BagMode::kMean, BagMode::kMax}) {
      CheckBag(made, SomeBags(shape.rows, false), mode, EE_FLOAT32);
    }
    CheckBag(made, SomeBags(shape.rows, true), BagMode::kSum, EE_FLOAT16);
  };
  for (const int64_t groups : {1, 2, 7, 8, 9, 15, 16, 17, 33}) {
    for (const int64_t width : {1, 2, 3, 4, 5, 8, 12, 16, 20, 24, 28, 32, 36, 64}) {
      if (groups * width > 300) continue;  // would only be slower
      check({6, 4, groups, width, false, 2});
      check({6, 4, groups, width, true, 2, 1, false, EE_FLOAT16});
      check({6, 4, groups, width, false, 2, 1, false, EE_INT8});
    }
  }
  for (int bits = 1; bits <= 16; ++bits) check({6, int64_t{1} << bits, 19, 4, true, 2, 3});
  check({6, 65536, 253, 4, true});  // more bytes in a row than the stage holds
}

BagCase OneBag(size_t count) {
  BagCase bags;
  bags.ids.assign(count, 0);
  for (size_t i = 0; i < count; ++i) bags.ids[i] = static_cast<int64_t>(i % 2);
  bags.offsets = {0, static_cast<int64_t>(count)};
  return bags;
}

std::vector<float> RunBag(const std::vector<float>& values, size_t width, const BagCase& bags, BagMode mode) {
  const unsigned char codes[2] = {0, 1};
  dpq::Table table{};
  table.codes = codes;
  table.codes_bytes = 2;
  table.values = reinterpret_cast<const unsigned char*>(values.data());
  table.values_bytes = values.size() * sizeof(float);
  table.num_embeddings = 2;
  table.num_codes = 2;
  table.num_groups = 1;
  table.group_width = static_cast<int64_t>(width);
  table.padding_idx = kNoPadding;
  table.value_type = EE_FLOAT32;
  table.bits = 1;
  CHECK(dpq::Validate(table) == EE_OK);
  const GuardedBuffer scratch = MakeScratch(table);
  std::vector<float> out(width);
  size_t bad = 0;
  const Bags described{bags.offsets.data(), 1, nullptr, EE_FLOAT32, mode};
  CHECK(TestedKernels(table).bag.run(table, ToIds(bags.ids), described, 0, 1, Output{out.data(), EE_FLOAT32},
                                     Doubles(scratch), &bad) == EE_OK);
  return out;
}

// Rounding errors are kept: if the terms of a long bag cancel, the rest is exact.
void TestNothingIsLost() {
  for (const size_t width : {size_t{3}, size_t{4}, size_t{16}}) {
    std::vector<float> values(2 * width, 1.0F);
    for (size_t k = 0; k < width; ++k) values[k] = std::ldexp(1.0F, -14);
    const std::vector<float> sums = RunBag(values, width, OneBag(20000), BagMode::kSum);
    for (const float sum : sums) CHECK(std::fabs(sum - 10000.6103515625F) < 0.002F);
  }
}

// Sums and maxima of NaN and infinity.
void TestNotANumber() {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (const size_t width : {size_t{3}, size_t{4}}) {
    const auto row = [width](float first, float second) {
      std::vector<float> values(2 * width, first);
      for (size_t k = width; k < 2 * width; ++k) values[k] = second;
      return values;
    };
    for (const size_t count : {size_t{2}, size_t{9}, size_t{60}}) {
      const BagCase bag = OneBag(count);
      for (const float sum : RunBag(row(1, infinity), width, bag, BagMode::kSum)) CHECK(sum == infinity);
      for (const float sum : RunBag(row(1, -infinity), width, bag, BagMode::kMean)) CHECK(sum == -infinity);
      for (const float sum : RunBag(row(infinity, -infinity), width, bag, BagMode::kSum)) CHECK(sum != sum);
      for (const float most : RunBag(row(1, nan), width, bag, BagMode::kMax)) CHECK(most != most);
      for (const float most : RunBag(row(nan, 1), width, bag, BagMode::kMax)) CHECK(most != most);
      for (const float most : RunBag(row(-infinity, -infinity), width, bag, BagMode::kMax)) {
        CHECK(most == -infinity);
      }
    }
  }
}

// The first wrong id is reported at any place, and the bags before its bag are written.
void TestBadIdInAnyBlock() {
  for (const int64_t width : {4, 3}) {
    const DpqCase made({9, 16, 4, width, false, 5});
    const GuardedBuffer scratch = MakeScratch(made.table());
    for (const size_t at : std::vector<size_t>{0, 1, 6, 7, 27, 28, 29, 39, 40, 56, 69}) {
      std::vector<int64_t> ids(70, 3);
      ids[0] = ids[41] = 5;
      for (size_t i = at; i < ids.size(); i += 9) ids[i] = i % 2 == 0 ? 9 : -1;
      const std::vector<int64_t> offsets = {0, 1, 40, 40, 70};
      const Bags bags{offsets.data(), 4, nullptr, EE_FLOAT32, BagMode::kSum};
      std::vector<float> out(4 * made.dim(), -7.0F);
      size_t bad = 0;
      CHECK(TestedKernels(made.table())
                .bag.run(made.table(), ToIds(ids), bags, 0, 4, Output{out.data(), EE_FLOAT32},
                         Doubles(scratch), &bad) == EE_ID_OUT_OF_RANGE);
      CHECK(bad == at);
      const size_t whole = at == 0 ? 0 : at < 40 ? 1 : 3;
      for (size_t k = 0; k < out.size(); ++k) CHECK((out[k] == -7.0F) == (k >= whole * made.dim()));
    }
  }
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  ForEachVariant([] {
    TestBagsOfAllSizes();
    TestGroupsAndWidths();
    TestNothingIsLost();
    TestNotANumber();
    TestBadIdInAnyBlock();
  });
  return 0;
}
