// The C ABI: checks first, then the kernel.
#include "c_api/edge_embed.h"

#include <limits>

#include "tests/dpq_case.h"

namespace edge_embed::testing {
namespace {

const DpqShape kShape{5, 10, 3, 2, false, 1};

ee_dpq_table ToC(const dpq::Table& t) {
  return {t.codes,      t.codes_bytes, t.values,      t.values_bytes, t.num_embeddings, t.num_codes,
          t.num_groups, t.group_width, t.padding_idx, t.bits,         t.shared ? 1 : 0};
}

void TestRows() {
  const DpqCase dpq_case(kShape);
  const ee_dpq_table table = ToC(dpq_case.table());
  const int64_t ids64[] = {4, 1, 0};
  const int32_t ids32[] = {4, 1, 0};
  float rows64[18], rows32[18];
  int64_t bad = 99;
  CHECK(ee_dpq_gather_f32_i64(&table, ids64, 3, rows64, sizeof(rows64), &bad) == EE_OK);
  CHECK(bad == -1);
  CHECK(ee_dpq_gather_f32_i32(&table, ids32, 3, rows32, sizeof(rows32), nullptr) == EE_OK);
  CHECK(std::memcmp(rows64, rows32, sizeof(rows64)) == 0);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(std::memcmp(rows64 + i * 6, dpq_case.ExpectedRow(ids64[i]).data(), 6 * sizeof(float)) == 0);
  }
}

void TestNothingToDo() {
  const DpqCase dpq_case(kShape);
  const ee_dpq_table table = ToC(dpq_case.table());
  CHECK(ee_dpq_gather_f32_i64(&table, nullptr, 0, nullptr, 0, nullptr) == EE_OK);
}

void TestBadArguments() {
  const DpqCase dpq_case(kShape);
  const ee_dpq_table table = ToC(dpq_case.table());
  const int64_t ids[] = {0, 2, 5};
  float rows[18] = {};
  int64_t bad = 99;
  CHECK(ee_dpq_gather_f32_i64(nullptr, ids, 2, rows, sizeof(rows), &bad) == EE_NULL_POINTER);
  CHECK(bad == -1);
  CHECK(ee_dpq_gather_f32_i64(&table, nullptr, 2, rows, sizeof(rows), &bad) == EE_NULL_POINTER);
  CHECK(ee_dpq_gather_f32_i64(&table, ids, 2, nullptr, sizeof(rows), &bad) == EE_NULL_POINTER);
  CHECK(ee_dpq_gather_f32_i64(&table, ids, -1, rows, sizeof(rows), &bad) == EE_BAD_SHAPE);
  CHECK(ee_dpq_gather_f32_i64(&table, ids, 2, rows, 12 * sizeof(float) - 1, &bad) == EE_SHORT_OUTPUT);
  CHECK(ee_dpq_gather_f32_i64(&table, ids, std::numeric_limits<int64_t>::max(), rows, sizeof(rows), &bad) ==
        EE_SIZE_OVERFLOW);
  CHECK(ee_dpq_gather_f32_i64(&table, ids, 3, rows, sizeof(rows), &bad) == EE_ID_OUT_OF_RANGE);
  CHECK(bad == 2);
  CHECK(ee_dpq_gather_f32_i64(&table, ids, 3, rows, sizeof(rows), nullptr) == EE_ID_OUT_OF_RANGE);
  ee_dpq_table short_table = table;
  --short_table.codes_bytes;
  CHECK(ee_dpq_gather_f32_i64(&short_table, ids, 2, rows, sizeof(rows), &bad) == EE_SHORT_CODES);
}

void TestTexts() {
  CHECK(ee_version() == std::string(EDGE_EMBED_VERSION));
  CHECK(ee_status_message(EE_SHORT_CODES) != std::string(ee_status_message(EE_OK)));
  CHECK(ee_status_message(-5) != nullptr);
}

// ctypes callers declare this layout by hand.
static_assert(sizeof(void*) != 8 || sizeof(ee_dpq_table) == 80, "the layout is part of the ABI");

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  TestRows();
  TestNothingToDo();
  TestBadArguments();
  TestTexts();
  return 0;
}
