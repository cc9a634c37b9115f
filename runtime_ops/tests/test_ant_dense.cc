// Rows of ANT that name most anchors and are computed as a product: around the sizes from which on this
// happens, and rows that must not use it.
#include "tests/ant_case.h"
#include "tests/use_checks.h"

namespace edge_embed::testing {
namespace {

std::vector<int64_t> ManyIds(size_t count, int64_t rows) {
  std::vector<int64_t> ids;
  for (size_t i = 0; i < count; ++i) ids.push_back(static_cast<int64_t>(i * i + i / 7) % rows);
  return ids;
}

constexpr int64_t kRows = 100;

AntShape Shape(int64_t anchors, int64_t columns) {
  return {kRows, anchors, columns, EE_UINT16, EE_FLOAT32, EE_FLOAT32, 3, 0.99};
}

// In fast kernels, products need more scratch than a number for each column.
bool TakesProducts(const ant::Table& table) {
  uint64_t doubles;
  CHECK(TestedKernels(table).gather.scratch(table).Get(&doubles));
  return doubles > static_cast<uint64_t>(table.embedding_dim);
}

// SSE2 has too few registers.
bool MayTakeProducts() {
#if defined(__x86_64__)
  if (Tested()->name == std::string("portable")) return false;
#endif
  return true;
}

// A table that uses products if the variant has them.
struct DenseCase : AntCase {
  explicit DenseCase(const AntShape& shape) : AntCase(shape) {
    CHECK(TestsReference() || TakesProducts(table()) == MayTakeProducts());
  }
};

std::vector<float> Gather(const ant::Table& table, const std::vector<int64_t>& ids, ee_status expected,
                          size_t* bad) {
  const GuardedBuffer scratch = MakeScratch(table);
  std::vector<float> rows(ids.size() * static_cast<size_t>(table.embedding_dim), -7.0F);
  CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, ids.size(), Output{rows.data(), EE_FLOAT32},
                                        Doubles(scratch), bad) == expected);
  return rows;
}

void TestWhichTables() {
  if (TestsReference()) return;
  const auto takes = [](AntShape shape, double density) {
    shape.density = density;
    return TakesProducts(AntCase(shape).table());
  };
  const bool may = MayTakeProducts();
  for (const int64_t anchors : {50, 128, 1024}) CHECK(takes(Shape(anchors, 256), 1.0) == may);
  CHECK(takes(Shape(128, 64), 1.0) == may);
  CHECK(takes(Shape(128, 256), 0.84) == may);
  CHECK(!takes(Shape(128, 256), 0.76));
  CHECK(!takes(Shape(128, 64), 0.84));  // fewer columns for as many weights
  CHECK(!takes(Shape(128, 32), 1.0));
  CHECK(!takes(Shape(32, 256), 1.0));
  CHECK(!takes(Shape(1025, 64), 1.0));
}

void TestSizes() {
  for (const int64_t columns : {63, 64, 65, 72, 95, 127, 128, 129, 200}) {
    CheckGather(DenseCase(Shape(40, columns)), ManyIds(70, kRows), EE_FLOAT32);
  }
  for (const int64_t anchors : {36, 37, 63, 64, 65, 100, 127, 128, 129}) {
    CheckGather(DenseCase(Shape(anchors, 65)), ManyIds(33, kRows), EE_FLOAT32);
  }
  for (const size_t count : std::vector<size_t>{0, 1, 15, 16, 17, 63, 64, 65, 71, 72, 73, 128, 200}) {
    CheckGather(DenseCase(Shape(40, 64)), ManyIds(count, kRows), EE_FLOAT32);
  }
  for (const int64_t anchors : {511, 513, 600, 1023, 1024}) {  // rows of more terms than a block holds
    CheckGather(DenseCase(Shape(anchors, 64)), ManyIds(70, kRows), EE_FLOAT32);
  }
}

void TestTypes() {
  for (const ee_type weights : {EE_FLOAT32, EE_FLOAT16, EE_INT8}) {
    for (const ee_type anchors : {EE_FLOAT32, EE_FLOAT16}) {
      for (const size_t misalign : std::vector<size_t>{0, 1, 3}) {
        AntShape shape = Shape(60, 70);
        shape.anchor_id_type = misalign == 1 ? EE_UINT8 : EE_UINT32;
        shape.weight_type = weights;
        shape.anchor_type = anchors;
        shape.misalign = misalign;
        CheckAllRows(DenseCase(shape));
        CheckGather(AntCase(shape), std::vector<int32_t>(40, 19), EE_FLOAT32);
      }
    }
  }
}

// Rows of any number of terms, in a table with the average of a product.
void TestRowsOfFewTerms() {
  DenseCase made(Shape(80, 64));
  for (const int32_t kept : {0, 1, 32, 33, 49, 50, 51}) {
    const int32_t end = static_cast<int32_t>(made.row_offsets()[8]) + kept;
    std::memcpy(made.row_offset_buffer().mutable_data() + 4 * 9, &end, sizeof(end));
    const ant::Table table = made.table();
    size_t bad = 0;
    const std::vector<int64_t> ids = ManyIds(90, 9);
    const std::vector<float> many = Gather(table, ids, EE_OK, &bad);
    for (size_t i = 0; i < 90; ++i) {
      const std::vector<float> one = Gather(table, {ids[i]}, EE_OK, &bad);
      const std::vector<double> magnitude = made.Row(ids[i], true);
      for (size_t c = 0; c < 64; ++c) {
        const double expected = static_cast<double>(one[c]), got = static_cast<double>(many[i * 64 + c]);
        CHECK(std::fabs(got - expected) <= std::ldexp(magnitude[c], -22));
      }
    }
  }
}

// An anchor that a row does not name may contain NaN; a row that names it is NaN.
void TestAnchorsThatAreNoNumbers() {
  constexpr size_t kColumns = 70, kAnchors = 50, kColumn = 67;
  for (const double number : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    AntShape shape = Shape(kAnchors, kColumns);
    shape.padding_idx = kNoPadding;
    shape.density = 1.0;
    DenseCase made(shape);
    const Encoded encoded({number}, EE_FLOAT32);
    std::memcpy(made.anchor_buffer().mutable_data() + ((kAnchors - 1) * kColumns + kColumn) * 4,
                encoded.bytes().data(), 4);
    for (size_t row = 8; row < 100; row += 4) {  // the last anchor of some rows repeats the one before
      unsigned char* const last =
          made.anchor_id_buffer().mutable_data() + (static_cast<size_t>(made.row_offsets()[row + 1]) - 1) * 2;
      last[0] = kAnchors - 2;
    }
    size_t bad = 0;
    const std::vector<int64_t> ids = ManyIds(100, kRows);
    const std::vector<float> rows = Gather(made.table(), ids, EE_OK, &bad);
    for (size_t k = 0; k < rows.size(); ++k) {
      const int64_t id = ids[k / kColumns];
      const bool names_it = id != 1 && (id < 8 || id % 4 != 0);  // row 1 is empty
      CHECK(std::isfinite(rows[k]) == !(names_it && k % kColumns == kColumn));
      CHECK(std::isnan(rows[k]) == (!std::isfinite(rows[k]) && std::isnan(number)));
    }
  }
}

// All terms of a row have one anchor, so their weights are added.
void TestAnchorsThatAreNamedTwice() {
  constexpr size_t kColumns = 64;
  DenseCase made(Shape(48, kColumns));
  std::memset(made.anchor_id_buffer().mutable_data(), 0, made.anchor_id_buffer().size());
  const ant::Table table = made.table();
  size_t bad = 0;
  const std::vector<int64_t> ids = ManyIds(30, kRows);
  const std::vector<float> rows = Gather(table, ids, EE_OK, &bad);
  for (size_t k = 0; k < rows.size(); ++k) {
    const size_t id = static_cast<size_t>(ids[k / kColumns]);
    double weight = 0;
    for (double t = made.row_offsets()[id]; t < made.row_offsets()[id + 1]; ++t) {
      weight += ReadOutput(table.weights, EE_FLOAT32, static_cast<size_t>(t));
    }
    const double exact = weight * ReadOutput(table.anchors, EE_FLOAT32, k % kColumns);
    CHECK(Rounded(static_cast<double>(rows[k]), exact, std::fabs(exact), EE_FLOAT32));
  }
}

// A large term, followed by small ones that would each be rounded up if added one by one.
void TestRoundings() {
  constexpr size_t kColumns = 64;
  for (const size_t anchors : std::vector<size_t>{34, 36, 44, 45, 52, 64, 80, 100, 128, 256, 600, 1024}) {
    AntShape shape = Shape(static_cast<int64_t>(anchors), kColumns);
    shape.rows = 1;
    shape.padding_idx = kNoPadding;
    shape.density = 1.0;
    DenseCase made(shape);
    const float one = 1.0F, small = std::ldexp(1.01F, -24);
    for (size_t t = 0; t < anchors; ++t) {
      std::memcpy(made.weight_buffer().mutable_data() + 4 * t, &one, sizeof(one));
      for (size_t c = 0; c < kColumns; ++c) {
        std::memcpy(made.anchor_buffer().mutable_data() + 4 * (t * kColumns + c), t == 0 ? &one : &small, 4);
      }
    }
    const double exact = 1 + static_cast<double>(anchors - 1) * static_cast<double>(small);
    const double allowed = std::fmax(1.0, static_cast<double>(anchors) / 32);
    size_t bad = 0;
    for (const float number : Gather(made.table(), std::vector<int64_t>(16), EE_OK, &bad)) {
      CHECK(Rounded(static_cast<double>(number), exact, exact * allowed, EE_FLOAT32));
    }
  }
}

// The rows before the first invalid id or damaged row are written, and no others.
void TestErrors() {
  for (const int64_t anchors : {48, 600}) {
    DenseCase made(Shape(anchors, 64));
    const uint16_t none = static_cast<uint16_t>(anchors);
    const size_t last = static_cast<size_t>(made.row_offsets()[kRows]) - 1;
    std::memcpy(made.anchor_id_buffer().mutable_data() + 2 * last, &none, sizeof(none));
    for (const size_t position : std::vector<size_t>{0, 1, 7, 8, 16, 63, 64, 70, 79}) {
      for (const int64_t id : {kRows - 1, kRows, int64_t{-1}}) {
        std::vector<int64_t> ids = ManyIds(80, kRows - 1);
        ids[position] = id;
        size_t bad = 0;
        const std::vector<float> rows =
            Gather(made.table(), ids, id == kRows - 1 ? EE_BAD_ANCHOR_ID : EE_ID_OUT_OF_RANGE, &bad);
        CHECK(bad == position);
        for (size_t k = 0; k < rows.size(); ++k) CHECK((rows[k] == -7.0F) == (k >= position * 64));
      }
    }
  }
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  ForEachVariant([] {
    TestWhichTables();
    TestSizes();
    TestTypes();
    TestRowsOfFewTerms();
    TestAnchorsThatAreNoNumbers();
    TestAnchorsThatAreNamedTwice();
    TestRoundings();
    TestErrors();
  });
  return 0;
}
