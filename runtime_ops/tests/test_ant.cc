// The kernels of ANT against the definition, for every mixture of types; and damaged tables, which
// give a status and never an access outside the buffers. Every buffer ends at a page that no one may touch.
#include "tests/ant_case.h"
#include "tests/use_checks.h"

namespace edge_embed::testing {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
const AntShape kShape{6, 5, 3};

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
  CheckBadIds(AntCase(kShape));
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

// Rows of more weights than are decoded at a time, between shorter ones.
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

// A large term, then small ones that would each be rounded up if they were added to it one by one; from the
// eighth term on, every step-th is one of them, and the rest is zero.
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

// An anchor that a bag has no weight for may hold anything.
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

// So many bags of so many terms that several are made by one product: around its tiles of columns and of
// bags, and as many as one product takes, with fewer and more.
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
  // Int8 weights, weighted bags, float16 results of float32 anchors.
  const AntCase made({20, 30, 40, EE_UINT8, EE_INT8, EE_FLOAT32, 3, 0.6});
  BagCase bags = EvenBags(21, 9, 20);
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) CheckBag(made, bags, BagMode::kMean, type);
  for (size_t i = 0; i < bags.ids.size(); ++i) bags.weights.push_back(static_cast<double>(i % 13) / 4 - 1.5);
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) CheckBag(made, bags, BagMode::kSum, type);
}

// Bags of few terms, of none and of nothing but padding between those that are made by products.
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

// What is not a number in an anchor is in the bags that name the anchor, and in no other.
void TestProductsKeepWhatIsNoNumber() {
  constexpr size_t kBags = 19, kColumns = 37, kSize = 30;
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
    AntCase made({3, 6, kColumns, EE_UINT8, EE_FLOAT32, type, kNoPadding, 1.0});
    // Row 0 has the anchors 0 to 4 and 0 again, row 2 all six.
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

// As CheckRoundings, for several equal bags of one row of all anchors, of which 8 roundings for every 64
// terms are allowed.
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
      const double allowed = std::fmax(1.0, rows * static_cast<double>(anchors) / 64);
      CHECK(Rounded(static_cast<double>(out[k]), rows * exact, rows * exact * allowed, EE_FLOAT32));
    }
  }
}

// A damaged row after bags that wait for a product: these are written, and nothing else.
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

// Enough rows that products with the anchors pay, and too few.
void TestLogits() {
  for (const size_t batch : std::vector<size_t>{1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 67}) {
    for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
      CheckLogits(AntCase({131, 10, 17, EE_UINT8, EE_INT8, EE_FLOAT16, 70}), batch, type);
      CheckLogits(AntCase({70, 40, 33, EE_UINT8, EE_FLOAT32, EE_FLOAT32, kNoPadding, 0.9}), batch, type);
      CheckLogits(AntCase({5, 40, 65, EE_UINT8, EE_FLOAT16, EE_FLOAT32, kNoPadding, 0.2}), batch, type);
    }
  }
  // So many anchors that fewer states fit the table of products, or none.
  const auto check = [](int64_t rows, int64_t anchors, int64_t columns, size_t batch) {
    const AntCase made({rows, anchors, columns, EE_UINT32, EE_FLOAT32, EE_FLOAT32, kNoPadding, 0.9});
    CheckLogits(made, batch, EE_FLOAT32);
  };
  for (const int64_t anchors : {2048, 2049}) check(160, anchors, 70, 35);
  for (const int64_t anchors : {4097, 8193, 16385}) check(24, anchors, 10, 5);
  for (const int64_t anchors : {65536, 66000}) check(12, anchors, 5, 2);
}

// All rows before the first damaged one are written, and none from there on.
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
    for (const int offset : {0, 4, 8}) {  // in another row of the same block there is damage of another kind
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

// Both uses of row `id` give the status and the position of its id.
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

template <typename Change>
ee_status After(Change change) {
  const AntCase made(kShape);
  ant::Table table = made.table();
  CHECK(ant::Validate(table) == EE_OK);
  change(table);
  return ant::Validate(table);
}

void TestWrongFields() {
  using Table = ant::Table;
  CHECK(After([](Table& t) { t.row_offsets = nullptr; }) == EE_NULL_POINTER);
  CHECK(After([](Table& t) { t.anchor_ids = nullptr; }) == EE_NULL_POINTER);
  CHECK(After([](Table& t) { t.weights = nullptr; }) == EE_NULL_POINTER);
  CHECK(After([](Table& t) { t.anchors = nullptr; }) == EE_NULL_POINTER);
  for (const int64_t count : {int64_t{0}, int64_t{-1}, -kHuge}) {
    CHECK(After([=](Table& t) { t.num_embeddings = count; }) == EE_BAD_SHAPE);
    CHECK(After([=](Table& t) { t.num_anchors = count; }) == EE_BAD_SHAPE);
    CHECK(After([=](Table& t) { t.embedding_dim = count; }) == EE_BAD_SHAPE);
  }
  CHECK(After([](Table& t) { t.num_weights = -1; }) == EE_BAD_SHAPE);
  CHECK(After([](Table& t) { t.anchor_id_type = EE_INT8; }) == EE_BAD_TYPE);
  CHECK(After([](Table& t) { t.weight_type = EE_UINT8; }) == EE_BAD_TYPE);
  CHECK(After([](Table& t) { t.anchor_type = EE_INT8; }) == EE_BAD_TYPE);
  for (const int64_t padding : {int64_t{-2}, int64_t{6}, kHuge, -kHuge}) {
    CHECK(After([=](Table& t) { t.padding_idx = padding; }) == EE_BAD_PADDING);
  }
}

void TestShortBuffers() {
  using Table = ant::Table;
  CHECK(After([](Table& t) { --t.row_offsets_bytes; }) == EE_SHORT_ROW_OFFSETS);
  CHECK(After([](Table& t) { ++t.num_embeddings; }) == EE_SHORT_ROW_OFFSETS);
  CHECK(After([](Table& t) { --t.anchor_ids_bytes; }) == EE_SHORT_ANCHOR_IDS);
  CHECK(After([](Table& t) { ++t.num_weights; }) == EE_SHORT_ANCHOR_IDS);
  CHECK(After([](Table& t) { t.anchor_id_type = EE_UINT16; }) == EE_SHORT_ANCHOR_IDS);
  CHECK(After([](Table& t) { --t.weights_bytes; }) == EE_SHORT_WEIGHTS);
  CHECK(After([](Table& t) { --t.anchors_bytes; }) == EE_SHORT_ANCHORS);
  CHECK(After([](Table& t) { ++t.num_anchors; }) == EE_SHORT_ANCHORS);
  CHECK(After([](Table& t) { ++t.embedding_dim; }) == EE_SHORT_ANCHORS);
}

void TestSizesThatOverflow() {
  using Table = ant::Table;
  for (const int64_t huge : {kHuge, int64_t{1} << 62, int64_t{1} << 61}) {
    CHECK(After([=](Table& t) { t.num_embeddings = huge; }) == EE_SIZE_OVERFLOW);
    CHECK(After([=](Table& t) { t.num_anchors = huge; }) == EE_SIZE_OVERFLOW);
    CHECK(After([=](Table& t) { t.embedding_dim = huge; }) == EE_SIZE_OVERFLOW);
  }
  CHECK(After([](Table& t) {
          t.weight_type = EE_FLOAT32;
          t.num_weights = kHuge / 2;
          t.anchor_ids_bytes = size_t{1} << 63;
        }) == EE_SIZE_OVERFLOW);
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
    TestBlocksOfRows();
    TestRowsOfAnyLength();
    TestLongRows();
    TestSumsWhoseRoundingsAllGoOneWay();
    TestLongBags();
    TestABagIgnoresAnchorsThatItHasNoWeightFor();
    TestBagsByProducts();
    TestBagsOfAnySizeByProducts();
    TestProductsKeepWhatIsNoNumber();
    TestRoundingsOfProducts();
    TestDamageBetweenProducts();
    TestLogits();
    TestATableWithoutWeights();
    TestDamagedRowOffsets();
    TestADamagedAnchorId();
    TestARowLongerThanThereAreAnchors();
    TestTheFirstDamagedRowIsNamed();
    TestWrongFields();
    TestShortBuffers();
    TestSizesThatOverflow();
  });
  return 0;
}
