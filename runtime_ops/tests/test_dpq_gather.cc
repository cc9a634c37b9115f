// The reference kernel returns exactly the rows of the definition, for every size around the width of a
// vector.
#include "tests/dpq_case.h"
#include "tests/use_checks.h"

namespace edge_embed::testing {
namespace {

constexpr int64_t kLaneSizes[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97};

bool SameBits(const float* got, const std::vector<float>& expected) {
  return std::memcmp(got, expected.data(), expected.size() * sizeof(float)) == 0;
}

template <typename Id>
void CheckBits(const DpqCase& dpq_case, const std::vector<Id>& ids) {
  const dpq::Table table = dpq_case.table();
  CHECK(dpq::Validate(table) == EE_OK);
  const GuardedBuffer scratch = MakeScratch(table), output(ids.size() * dpq_case.dim() * sizeof(float));
  float* rows = reinterpret_cast<float*>(output.data());
  size_t bad = 12345;
  CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, ids.size(), Output{rows, EE_FLOAT32},
                                        Doubles(scratch), &bad) == EE_OK);
  CHECK(bad == 12345);
  for (size_t i = 0; i < ids.size(); ++i) {
    CHECK(SameBits(rows + i * dpq_case.dim(), dpq_case.ExpectedRow(ids[i])));
  }
}

void CheckShape(const DpqShape& shape) {
  const DpqCase dpq_case(shape);
  std::vector<int64_t> ids;
  for (int64_t id = shape.rows; id-- > 0;) ids.push_back(id);
  CheckBits(dpq_case, ids);
  CheckBits(dpq_case, std::vector<int32_t>(ids.begin(), ids.end()));
}

void TestGroupsAndWidths() {
  for (const int64_t groups : kLaneSizes) {
    for (const int64_t width : kLaneSizes) {
      CheckShape({3, 16, groups, width});
      CheckShape({2, 11, groups, width, true});
    }
  }
}

void TestEveryBitWidth() {
  for (int bits = 1; bits <= 16; ++bits) {
    const int64_t full = int64_t{1} << bits;
    for (const int64_t num_codes : {full, full - 1, full / 2 + 1}) {
      if (BitsOf(num_codes) != bits) continue;
      for (const int64_t groups : {1, 2, 3, 5, 7, 8, 9, 17}) {
        CheckShape({5, num_codes, groups, 1});
        CheckShape({5, num_codes, groups, 3, true});
      }
    }
  }
}

void TestAnyAlignment() {
  for (size_t misalign = 0; misalign < 8; ++misalign) {
    CheckShape({9, 16, 8, 4, false, kNoPadding, misalign});
    CheckShape({9, 37, 5, 3, true, kNoPadding, misalign});
  }
}

void TestNumbersOfIds() {
  const DpqCase dpq_case({13, 16, 6, 4});
  for (const int64_t count : kLaneSizes) {
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < count; ++i) ids.push_back(i * 5 % 13);
    CheckBits(dpq_case, ids);
  }
  CheckBits(dpq_case, std::vector<int64_t>{});
}

void TestPaddingRowIsPositiveZero() {
  for (const int64_t padding : {0, 3, 6}) CheckShape({7, 16, 5, 3, false, padding});
}

// A part of the rows is written to its place in the whole output, and nothing else is changed.
void TestPartOfTheRows() {
  const DpqCase dpq_case({6, 8, 3, 2});
  const std::vector<int64_t> ids = {5, 4, 3, 2, 1, 0};
  std::vector<float> rows(ids.size() * dpq_case.dim(), -7.0F);
  size_t bad = 0;
  CHECK(TestedKernels(dpq_case.table())
            .gather.run(dpq_case.table(), ToIds(ids), 2, 4, Output{rows.data(), EE_FLOAT32}, nullptr, &bad) ==
        EE_OK);
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::vector<float> untouched(dpq_case.dim(), -7.0F);
    CHECK(SameBits(rows.data() + i * dpq_case.dim(),
                   i == 2 || i == 3 ? dpq_case.ExpectedRow(ids[i]) : untouched));
  }
}

// float16 values are copied to a float16 output and widened for float32, both exactly.
void TestHalfValues() {
  for (const bool shared : {false, true}) {
    const DpqCase dpq_case({7, 11, 5, 3, shared, 2, 1, false, EE_FLOAT16});
    CheckBits(dpq_case, std::vector<int64_t>{6, 2, 0, 5});
    const std::vector<int64_t> ids = {6, 2, 0, 5};
    const GuardedBuffer output(ids.size() * dpq_case.dim() * 2);
    size_t bad = 0;
    CHECK(TestedKernels(dpq_case.table())
              .gather.run(dpq_case.table(), ToIds(ids), 0, 4, Output{output.data(), EE_FLOAT16}, nullptr,
                          &bad) == EE_OK);
    for (size_t k = 0; k < ids.size() * dpq_case.dim(); ++k) {
      CHECK(ReadOutput(output.data(), EE_FLOAT16, k) ==
            dpq_case.Row(ids[k / dpq_case.dim()])[k % dpq_case.dim()]);
    }
  }
}

// int8 values are multiplied and rounded once, around every size of a vector and at the ends of rows.
void TestInt8Values() {
  for (const int64_t groups : kLaneSizes) {
    for (const int64_t width : kLaneSizes) {
      CheckShape({3, 16, groups, width, false, 1, 0, false, EE_INT8});
      CheckShape({2, 11, groups, width, true, kNoPadding, 3, true, EE_INT8});
    }
  }
  for (size_t misalign = 0; misalign < 8; ++misalign) {
    CheckShape({70, 300, 40, 4, false, 69, misalign, true, EE_INT8});
  }
  CheckShape({3, 4, 2500, 3, false, 2, 0, true, EE_INT8});  // more bytes in a row than the stage holds
}

// A zero is +0.0, and a damaged scale returns its product.
void TestInt8Scales() {
  const float infinity = std::numeric_limits<float>::infinity(), tiny = std::ldexp(1.0F, -149);
  const std::vector<unsigned char> codes(40, 0x02), values = {0x81, 0x00, 0x7F};  // -127, 0, 127
  for (const float scale : {1.0F, 0.1F, 1e38F, tiny, 0.0F, -2.0F, infinity, std::nanf("")}) {
    dpq::Table table{};
    table.codes = codes.data();
    table.codes_bytes = codes.size();
    table.values = values.data();
    table.values_bytes = values.size();
    table.value_scales = reinterpret_cast<const unsigned char*>(&scale);
    table.value_scales_bytes = sizeof(scale);
    table.num_embeddings = 1;
    table.num_codes = 3;
    table.num_groups = 160;
    table.group_width = 1;
    table.padding_idx = kNoPadding;
    table.value_type = EE_INT8;
    table.bits = 2;
    table.shared = true;
    CHECK(dpq::Validate(table) == EE_OK);
    std::vector<float> row(160);
    size_t bad = 0;
    CHECK(TestedKernels(table).gather.run(table, ToIds(std::vector<int64_t>{0}), 0, 1,
                                          Output{row.data(), EE_FLOAT32}, nullptr, &bad) == EE_OK);
    for (size_t k = 0; k < row.size(); ++k) {
      const float expected = (k % 4 == 0 ? 127.0F : -127.0F) * scale;
      CHECK(expected == row[k] || (std::isnan(expected) && std::isnan(row[k])));
    }
  }
}

void TestFloatRowsAreNotRounded(ee_type type) {
  const DpqCase dpq_case({5, 4, 3, 2, false, kNoPadding, 0, false, type});
  const std::vector<int64_t> ids = {0};
  uint16_t rows[6];
  size_t bad = 9;
  CHECK(TestedKernels(dpq_case.table())
            .gather.run(dpq_case.table(), ToIds(ids), 0, 1, Output{rows, EE_FLOAT16}, nullptr, &bad) ==
        EE_BAD_TYPE);
  CHECK(bad == 9);
}

void TestUses() {
  CheckUses(DpqCase({7, 11, 3, 3, false, 2}));
  CheckUses(DpqCase({8, 16, 5, 2, true, kNoPadding, 1, false, EE_FLOAT16}));
  CheckUses(DpqCase({7, 11, 3, 3, false, 2, 1, true, EE_INT8}));
  CheckParts(DpqCase({6, 8, 3, 2}));
  CheckParts(DpqCase({6, 8, 3, 2, false, kNoPadding, 0, false, EE_INT8}));
  CheckBadIds(DpqCase({5, 16, 4, 2}));
}

// More rows than a block, and rows of more bytes than the stage holds.
void TestBlocksOfRows() {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 100; ++i) ids.push_back(i * 37 % 71);
  for (const int64_t groups : {1, 8, 13, 1000}) {
    for (const int64_t num_codes : {2, 16, 37, 4096}) {
      if (groups * num_codes > 100000) continue;
      CheckBits(DpqCase({71, num_codes, groups, 2, false, 37}), ids);
    }
  }
  CheckBits(DpqCase({71, 65536, 301, 4, true}), ids);
  CheckBits(DpqCase({71, 33, 2500, 4, true, 5, 0, true, EE_FLOAT16}), ids);
}

// The wrong id is in the first block, at its end, or in a later block.
void TestBadIdInAnyBlock() {
  const DpqCase dpq_case({9, 16, 4, 4});
  for (const size_t at : std::vector<size_t>{0, 1, 31, 32, 33, 63, 64, 69}) {
    std::vector<int64_t> ids(70, 3);
    for (size_t i = at; i < ids.size(); i += 7) ids[i] = 9;
    std::vector<float> rows(ids.size() * dpq_case.dim(), -7.0F);
    size_t bad = 0;
    CHECK(TestedKernels(dpq_case.table())
              .gather.run(dpq_case.table(), ToIds(ids), 0, ids.size(), Output{rows.data(), EE_FLOAT32},
                          nullptr, &bad) == EE_ID_OUT_OF_RANGE);
    CHECK(bad == at);
    for (size_t k = 0; k < rows.size(); ++k) CHECK((rows[k] == -7.0F) == (k >= at * dpq_case.dim()));
  }
}

// Every bit of a value is kept, also those of a signalling NaN.
void TestNotANumberIsCopied() {
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
    const std::vector<unsigned char> codes(5, 0x10);
    std::vector<unsigned char> values;
    for (uint32_t k = 0; k < 32; ++k) {  // 2 codes of 16 numbers
      const uint32_t bits = type == EE_FLOAT32 ? 0xFFA00001U + k : 0x7C01U + 0x8000U * (k & 1) + k;
      for (size_t byte = 0; byte < OutputSize(type); ++byte) {
        values.push_back(static_cast<unsigned char>(bits >> (8 * byte)));
      }
    }
    dpq::Table table{};
    table.codes = codes.data();
    table.codes_bytes = codes.size();
    table.values = values.data();
    table.values_bytes = values.size();
    table.num_embeddings = 5;
    table.num_codes = 2;
    table.num_groups = 1;
    table.group_width = 16;
    table.padding_idx = kNoPadding;
    table.value_type = type;
    table.bits = 1;
    CHECK(dpq::Validate(table) == EE_OK);
    const std::vector<int64_t> ids = {4, 0};
    std::vector<uint32_t> rows(32);
    size_t bad = 0;
    CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, 2, Output{rows.data(), EE_FLOAT32}, nullptr,
                                          &bad) == EE_OK);
    for (uint32_t k = 0; k < 32; ++k) {
      const uint32_t half = 0x7C01U + 0x8000U * (k & 1) + k % 16;
      const uint32_t widened = (half & 0x8000) << 16 | 0x7F800000 | (half & 0x3FF) << 13;
      CHECK(rows[k] == (type == EE_FLOAT32 ? 0xFFA00001U + k % 16 : widened));
    }
  }
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  ForEachVariant([] {
    TestGroupsAndWidths();
    TestEveryBitWidth();
    TestAnyAlignment();
    TestNumbersOfIds();
    TestPaddingRowIsPositiveZero();
    TestPartOfTheRows();
    TestHalfValues();
    TestInt8Values();
    TestInt8Scales();
    TestFloatRowsAreNotRounded(EE_FLOAT32);
    TestFloatRowsAreNotRounded(EE_INT8);
    TestBlocksOfRows();
    TestBadIdInAnyBlock();
    TestNotANumberIsCopied();
    TestUses();
  });
  return 0;
}
