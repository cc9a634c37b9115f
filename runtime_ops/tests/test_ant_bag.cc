// Bags of ANT against the definition: from their terms, from the weights of each anchor, and as products.
#include "tests/ant_case.h"
#include "tests/use_checks.h"

namespace edge_embed::testing {
namespace {

// Bags of many ids, with more terms than there are anchors, and with fewer.
void TestLongBags() {
  for (const int64_t anchors : {6, 700}) {
    for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
      const AntCase made(
          {90, anchors, 18, EE_UINT16, EE_FLOAT32, type, 5, 4.0 / static_cast<double>(anchors)});
      BagCase bags;
      for (int64_t i = 0; i < 400; ++i) bags.ids.push_back(i * 7 % 90);
      bags.offsets = {0, 1, 65, 65, 130, 392, 400};
      for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax})
        CheckBag(made, bags, mode, type);
      for (int64_t i = 0; i < 400; ++i) bags.weights.push_back(static_cast<double>(i % 13) / 4 - 1.5);
      CheckBag(made, bags, BagMode::kSum, type);
      bags = {{5, 5, 5, 2}, {0, 3, 4}, {}};
      for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax})
        CheckBag(made, bags, mode, type);
    }
  }
}

// An anchor without a weight in the bag may contain NaN.
void TestABagIgnoresAnchorsThatItHasNoWeightFor() {
  AntCase made({3, 4, 20, EE_UINT8, EE_FLOAT32, EE_FLOAT32, kNoPadding, 1.0});
  for (size_t t = 0; t < made.anchor_id_buffer().size(); ++t) {
    made.anchor_id_buffer().mutable_data()[t] = static_cast<unsigned char>(t % 3);
  }
  std::memset(made.anchor_buffer().mutable_data() + size_t{3} * 20 * 4, 0xFF, size_t{20} * 4);
  const ant::Table table = made.table();
  const GuardedBuffer scratch = MakeScratch(table);
  const std::vector<int64_t> ids(100, 0), offsets = {0, 2, 100};
  const Bags bags{offsets.data(), 2, nullptr, EE_FLOAT32, BagMode::kSum};
  std::vector<float> out(40);
  size_t bad = 0;
  CHECK(TestedKernels(table).bag.run(table, ToIds(ids), bags, 0, 2, Output{out.data(), EE_FLOAT32},
                                     Doubles(scratch), &bad) == EE_OK);
  for (const float number : out) CHECK(std::isfinite(number));
}

// `count` bags of `size` ids each.
BagCase EvenBags(size_t count, size_t size, int64_t rows) {
  BagCase bags;
  for (size_t i = 0; i < count * size; ++i) bags.ids.push_back(static_cast<int64_t>(i * i + i / size) % rows);
  for (size_t bag = 0; bag <= count; ++bag) bags.offsets.push_back(static_cast<int64_t>(bag * size));
  return bags;
}

// Enough bags and terms for a product of several bags: around its tiles of columns and bags, and around the
// number of bags of a product.
void TestBagsByProducts() {
  const auto check = [](int64_t anchors, int64_t columns, const BagCase& bags) {
    for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
      const AntCase made({20, anchors, columns, EE_UINT16, EE_FLOAT32, type, 3, 0.6});
      for (const BagMode mode : {BagMode::kSum, BagMode::kMean}) CheckBag(made, bags, mode, type);
    }
  };
  for (const int64_t columns : {7, 8, 15, 16, 17, 33, 64, 65, 79, 129})
    check(11, columns, EvenBags(9, 14, 20));
  for (const size_t count : std::vector<size_t>{7, 8, 63, 64, 65, 129}) check(4, 18, EvenBags(count, 40, 20));
  for (const size_t count : std::vector<size_t>{8, 9, 17}) check(1000, 17, EvenBags(count, 2, 20));
  for (const int64_t anchors : {1, 2, 15, 16, 17}) check(anchors, 17, EvenBags(9, 12, 20));
  for (const int64_t anchors : {100, 1024, 1025}) check(anchors, 17, EvenBags(9, 2, 20));
  // Int8 weights, weighted bags, and float16 results of float32 anchors.
  const AntCase made({20, 30, 40, EE_UINT8, EE_INT8, EE_FLOAT32, 3, 0.6});
  BagCase bags = EvenBags(21, 9, 20);
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) CheckBag(made, bags, BagMode::kMean, type);
  for (size_t i = 0; i < bags.ids.size(); ++i) bags.weights.push_back(static_cast<double>(i % 13) / 4 - 1.5);
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) CheckBag(made, bags, BagMode::kSum, type);
}

// Bags of few terms, empty bags and bags of padding only, between those of a product.
void TestBagsOfAnySizeByProducts() {
  const AntCase made({20, 16, 33, EE_UINT8, EE_FLOAT32, EE_FLOAT32, 3, 0.6});
  BagCase bags;
  bags.offsets = {0};
  for (const int size : {40, 41, 1, 60, 0, 0, 30, 30, 30, 30, 30, 30, 30, 30, 30, 2, 50, 300}) {
    for (int i = 0; i < size; ++i) bags.ids.push_back(size == 60 ? 3 : i * 7 % 20);
    bags.offsets.push_back(static_cast<int64_t>(bags.ids.size()));
  }
  for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax}) {
    CheckBag(made, bags, mode, EE_FLOAT32);
    CheckBag(made, bags, mode, EE_FLOAT16);
  }
}

// NaN in an anchor reaches the bags that name the anchor, and no other bag.
void TestProductsKeepWhatIsNoNumber() {
  constexpr size_t kBags = 19, kColumns = 37, kSize = 30;
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
    AntCase made({3, 6, kColumns, EE_UINT8, EE_FLOAT32, type, kNoPadding, 1.0});
    // Row 0 names the anchors 0 to 4 and 0 again, row 2 all six.
    made.anchor_id_buffer().mutable_data()[5] = 0;
    const size_t size = Encoded::Bytes(type), column = 19;
    const Encoded infinity({std::numeric_limits<double>::infinity()}, type);
    std::memcpy(made.anchor_buffer().mutable_data() + (5 * kColumns + column) * size, infinity.bytes().data(),
                size);
    BagCase bags = EvenBags(kBags, kSize, 1);
    for (const size_t bag : std::vector<size_t>{0, 7, 18}) bags.ids[bag * kSize + 4] = 2;
    const ant::Table table = made.table();
    const GuardedBuffer scratch = MakeScratch(table);
    const Bags given{bags.offsets.data(), kBags, nullptr, EE_FLOAT32, BagMode::kSum};
    const GuardedBuffer out(kBags * kColumns * size);
    size_t bad = 0;
    CHECK(TestedKernels(table).bag.run(table, ToIds(bags.ids), given, 0, kBags, Output{out.data(), type},
                                       Doubles(scratch), &bad) == EE_OK);
    for (size_t k = 0; k < kBags * kColumns; ++k) {
      const size_t bag = k / kColumns;
      const bool names_it = bag == 0 || bag == 7 || bag == 18;
      CHECK(std::isinf(ReadOutput(out.data(), type, k)) == (names_it && k % kColumns == column));
      CHECK(!std::isnan(ReadOutput(out.data(), type, k)));
    }
  }
}

// A large term, followed by small ones that would each be rounded up if added one by one. Several equal bags
// of one row name all anchors; the bound is 8 roundings for every 32 terms.
void TestRoundingsOfProducts() {
  constexpr size_t kColumns = 20, kBags = 9, kLast = 64;
  for (const size_t anchors : std::vector<size_t>{2, 8, 16, 17, 32, 33, 64, 100, 128, 256, 600, 1024}) {
    AntCase made(
        {1, static_cast<int64_t>(anchors), kColumns, EE_UINT16, EE_FLOAT32, EE_FLOAT32, kNoPadding, 1.0});
    const float one = 1.0F, small = std::ldexp(1.01F, -24);
    for (size_t t = 0; t < anchors; ++t) {
      std::memcpy(made.weight_buffer().mutable_data() + 4 * t, &one, sizeof(one));
      for (size_t c = 0; c < kColumns; ++c) {
        const float& term = t == 0 ? one : small;
        std::memcpy(made.anchor_buffer().mutable_data() + 4 * (t * kColumns + c), &term, sizeof(term));
      }
    }
    const double exact = 1 + static_cast<double>(anchors - 1) * static_cast<double>(small);
    const ant::Table table = made.table();
    const GuardedBuffer scratch = MakeScratch(table);
    BagCase bags = EvenBags(kBags, 1, 1);
    bags.ids.resize(kBags - 1 + kLast);
    bags.offsets[kBags] = static_cast<int64_t>(bags.ids.size());
    const Bags given{bags.offsets.data(), kBags, nullptr, EE_FLOAT32, BagMode::kSum};
    std::vector<float> out(kBags * kColumns);
    size_t bad = 0;
    CHECK(TestedKernels(table).bag.run(table, ToIds(bags.ids), given, 0, kBags,
                                       Output{out.data(), EE_FLOAT32}, Doubles(scratch), &bad) == EE_OK);
    for (size_t k = 0; k < out.size(); ++k) {
      const double rows = k / kColumns == kBags - 1 ? double{kLast} : 1.0;
      const double allowed = std::fmax(1.0, rows * static_cast<double>(anchors) / 32);
      CHECK(Rounded(static_cast<double>(out[k]), rows * exact, rows * exact * allowed, EE_FLOAT32));
    }
  }
}

// A damaged row after bags that wait for a product: these bags are written, and nothing else.
void TestDamageBetweenProducts() {
  AntCase made({20, 9, 17, EE_UINT8, EE_FLOAT32, EE_FLOAT32, kNoPadding, 1.0});
  made.anchor_id_buffer().mutable_data()[static_cast<size_t>(made.row_offsets()[19]) + 3] = 9;
  const ant::Table table = made.table();
  const GuardedBuffer scratch = MakeScratch(table);
  constexpr size_t kBags = 12, kSize = 25;
  for (const size_t damaged : std::vector<size_t>{0, 1, 5, 11}) {
    BagCase bags = EvenBags(kBags, kSize, 19);
    bags.ids[damaged * kSize + 6] = 19;
    const Bags given{bags.offsets.data(), kBags, nullptr, EE_FLOAT32, BagMode::kSum};
    std::vector<float> out(kBags * 17, -7.0F);
    size_t bad = 0;
    CHECK(TestedKernels(table).bag.run(table, ToIds(bags.ids), given, 0, kBags,
                                       Output{out.data(), EE_FLOAT32}, Doubles(scratch),
                                       &bad) == EE_BAD_ANCHOR_ID);
    CHECK(bad == damaged * kSize + 6);
    for (size_t k = 0; k < out.size(); ++k) CHECK((out[k] == -7.0F) == (k >= damaged * 17));
  }
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  ForEachVariant([] {
    TestLongBags();
    TestABagIgnoresAnchorsThatItHasNoWeightFor();
    TestBagsByProducts();
    TestBagsOfAnySizeByProducts();
    TestProductsKeepWhatIsNoNumber();
    TestRoundingsOfProducts();
    TestDamageBetweenProducts();
  });
  return 0;
}
