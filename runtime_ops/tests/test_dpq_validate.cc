// A table passes Validate only if no index can leave its buffers.
#include <limits>
#include <set>

#include "tests/dpq_case.h"

namespace edge_embed::testing {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

// n=4 rows of 3 groups of 4 bits (2 bytes a row), 10 codes, width 2.
const DpqShape kShape{4, 10, 3, 2};

template <typename Change>
ee_status After(Change change) {
  return ValidateAfter(DpqCase(kShape), change);
}

void TestWrongFields() {
  CHECK(After([](dpq::Table& t) { t.codes = nullptr; }) == EE_NULL_POINTER);
  CHECK(After([](dpq::Table& t) { t.values = nullptr; }) == EE_NULL_POINTER);
  for (const int64_t count : {int64_t{0}, int64_t{-1}, -kHuge}) {
    CHECK(After([=](dpq::Table& t) { t.num_embeddings = count; }) == EE_BAD_SHAPE);
    CHECK(After([=](dpq::Table& t) { t.num_groups = count; }) == EE_BAD_SHAPE);
    CHECK(After([=](dpq::Table& t) { t.group_width = count; }) == EE_BAD_SHAPE);
  }
  for (const int64_t num_codes : {int64_t{1}, int64_t{0}, int64_t{-2}, int64_t{65537}, kHuge}) {
    CHECK(After([=](dpq::Table& t) { t.num_codes = num_codes; }) == EE_BAD_NUM_CODES);
  }
  for (const int bits : {3, 5, 0, -1, 17, 1000}) {
    CHECK(After([=](dpq::Table& t) { t.bits = bits; }) == EE_BAD_BITS);
  }
  CHECK(After([](dpq::Table& t) { t.value_type = EE_UINT8; }) == EE_BAD_TYPE);
  CHECK(After([](dpq::Table& t) { t.value_type = EE_INT8; }) == EE_NULL_POINTER);
  for (const int64_t padding : {int64_t{-2}, int64_t{4}, kHuge, -kHuge}) {
    CHECK(After([=](dpq::Table& t) { t.padding_idx = padding; }) == EE_BAD_PADDING);
  }
}

void TestShortBuffers() {
  CHECK(After([](dpq::Table& t) { --t.codes_bytes; }) == EE_SHORT_CODES);
  CHECK(After([](dpq::Table& t) { --t.values_bytes; }) == EE_SHORT_VALUES);
  CHECK(After([](dpq::Table& t) { t.num_embeddings = 5; }) == EE_SHORT_CODES);
  CHECK(After([](dpq::Table& t) { t.group_width = 3; }) == EE_SHORT_VALUES);
  CHECK(After([](dpq::Table& t) { t.num_codes = 11; }) == EE_SHORT_VALUES);
  CHECK(After([](dpq::Table& t) { t.shared = true; }) == EE_OK);  // requires a third of the values
}

// Scales of int8 values: one for each group, or one for all.
void TestShortScales() {
  for (const bool shared : {false, true}) {
    const DpqCase dpq_case({4, 10, 3, 2, shared, kNoPadding, 0, false, EE_INT8});
    dpq::Table table = dpq_case.table();
    CHECK(table.value_scales_bytes == (shared ? 4 : 12));
    CHECK(dpq::Validate(table) == EE_OK);
    --table.value_scales_bytes;
    CHECK(dpq::Validate(table) == EE_SHORT_VALUE_SCALES);
    table.value_scales_bytes = 0;
    CHECK(dpq::Validate(table) == EE_SHORT_VALUE_SCALES);
    table.value_type = EE_FLOAT16;  // they are ignored
    table.values_bytes *= 2;
    CHECK(dpq::Validate(table) == EE_OK);
  }
}

void TestSizesThatOverflow() {
  for (const int64_t huge : {kHuge, kHuge / 2 + 1, int64_t{1} << 61, int64_t{1} << 60}) {
    const ee_status rows = After([=](dpq::Table& t) { t.num_embeddings = huge; });
    CHECK(rows == EE_SIZE_OVERFLOW || rows == EE_SHORT_CODES);
    const ee_status groups = After([=](dpq::Table& t) { t.num_groups = huge; });
    CHECK(groups == EE_SIZE_OVERFLOW || groups == EE_SHORT_CODES);
    CHECK(After([=](dpq::Table& t) { t.group_width = huge; }) == EE_SIZE_OVERFLOW);
  }
  // 2^62 rows of 2 bytes and of 4 groups: 64-bit products that overflow to zero.
  CHECK(After([](dpq::Table& t) { t.num_groups = int64_t{1} << 62; }) == EE_SIZE_OVERFLOW);
  CHECK(After([](dpq::Table& t) {
          t.num_embeddings = int64_t{1} << 62;
          t.num_groups = 8;
        }) == EE_SIZE_OVERFLOW);
  // Codes and shared values would fit, but one row of the output has 2^63 bytes.
  CHECK(After([](dpq::Table& t) {
          t.shared = true;
          t.num_embeddings = 1;
          t.num_groups = int64_t{1} << 60;
          t.codes_bytes = size_t{1} << 62;
        }) == EE_SIZE_OVERFLOW);
}

void TestOutputBytes() {
  size_t bytes = 0;
  CHECK(OutputBytes(7, 6, EE_FLOAT32, &bytes));
  CHECK(bytes == 7 * 6 * sizeof(float));
  CHECK(OutputBytes(7, 6, EE_FLOAT16, &bytes));
  CHECK(bytes == 7 * 6 * 2);
  CHECK(OutputBytes(0, 6, EE_FLOAT32, &bytes));
  CHECK(bytes == 0);
  CHECK(!OutputBytes(std::numeric_limits<uint64_t>::max(), 6, EE_FLOAT32, &bytes));
  CHECK(!OutputBytes(uint64_t{1} << 61, 1, EE_FLOAT32, &bytes));
  CHECK(!OutputBytes(uint64_t{1} << 32, uint64_t{1} << 32, EE_FLOAT16, &bytes));
}

void TestBitsOfEveryNumCodes() {
  for (int64_t num_codes = 2; num_codes <= EE_MAX_CODES; ++num_codes) {
    const ee_status status = After([=](dpq::Table& t) {
      t.num_codes = num_codes;
      t.bits = BitsOf(num_codes);
      t.codes_bytes = t.values_bytes = size_t{1} << 40;  // Validate reads none of it
    });
    CHECK(status == EE_OK);
  }
}

void TestEveryStatusHasItsOwnSentence() {
  std::set<std::string> sentences;
  for (int status = EE_OK; status <= kLastStatus + 1; ++status) {
    sentences.insert(StatusMessage(status));
  }
  CHECK(sentences.size() == kLastStatus + 2);
  CHECK(StatusMessage(-1) == std::string(StatusMessage(1000)));
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  TestWrongFields();
  TestShortBuffers();
  TestShortScales();
  TestSizesThatOverflow();
  TestOutputBytes();
  TestBitsOfEveryNumCodes();
  TestEveryStatusHasItsOwnSentence();
  return 0;
}
