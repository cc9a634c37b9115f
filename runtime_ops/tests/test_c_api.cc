// The C ABI: checks first, then the kernel.
#include "c_api/edge_embed.h"

#include <limits>

#include "tests/c_tables.h"

namespace edge_embed::testing {
namespace {

const DpqShape kShape{5, 10, 3, 2, false, 1};

void TestRows(ee_type type) {
  DpqShape shape = kShape;
  shape.type = type;
  const DpqCase dpq_case(shape);
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

void TestTypesThatAreNone() {
  const AntCase ant_case({5, 4, 3});
  const TtCase tt_case({{2, 3}, {3, 2}, {1, 4, 1}, 5});
  const DpqCase dpq_case(kShape);
  for (const int32_t type : {-1, 8, 1000, std::numeric_limits<int32_t>::min()}) {
    size_t bytes = 0;
    ee_ant_table ant_table = ToC(ant_case.table());
    ee_tt_table tt_table = ToC(tt_case.table());
    ee_dpq_table dpq_table = ToC(dpq_case.table());
    ant_table.anchor_type = tt_table.core_type = dpq_table.value_type = type;
    CHECK(ee_ant_scratch_bytes(&ant_table, &bytes) == EE_BAD_TYPE);
    CHECK(ee_tt_scratch_bytes(&tt_table, &bytes) == EE_BAD_TYPE);
    CHECK(ee_dpq_scratch_bytes(&dpq_table, &bytes) == EE_BAD_TYPE);
  }
}

void TestADamagedRowIsNamed() {
  AntCase made({5, 4, 3, EE_UINT8, EE_FLOAT32, EE_FLOAT32, kNoPadding, 1.0});
  made.anchor_id_buffer().mutable_data()[9] = 4;  // of row 3, as row 1 is empty
  const ee_ant_table table = ToC(made.table());
  size_t bytes = 0;
  CHECK(ee_ant_scratch_bytes(&table, &bytes) == EE_OK);
  std::vector<unsigned char> scratch(bytes);
  std::vector<float> logits(5), hidden(3);
  int64_t bad = 99;
  CHECK(ee_ant_logits_f32(&table, hidden.data(), 1, logits.data(), 20, scratch.data(), bytes, &bad) ==
        EE_BAD_ANCHOR_ID);
  CHECK(bad == 3);
}

void TestTexts() {
  CHECK(ee_version() == std::string(EDGE_EMBED_VERSION));
  CHECK(ee_status_message(EE_SHORT_CODES) != std::string(ee_status_message(EE_OK)));
  CHECK(ee_status_message(-5) != nullptr);
  CHECK(ee_isa_name(-1) == nullptr && ee_isa_runs(-1) == 0);
  int32_t count = 0, chosen = -1;
  for (; ee_isa_name(count) != nullptr; ++count) {
    if (ee_isa() == std::string(ee_isa_name(count))) chosen = count;
  }
  CHECK(ee_isa_name(count - 1) == std::string("reference") && ee_isa_runs(count - 1) == 1);
  CHECK(ee_isa_runs(chosen) == 1 && ee_isa_runs(count) == 0);
}

// ctypes callers declare this layout by hand.
static_assert(sizeof(void*) != 8 || sizeof(ee_dpq_table) == 120, "the layout is part of the ABI");
static_assert(sizeof(void*) != 8 || sizeof(ee_ant_table) == 120, "the layout is part of the ABI");
static_assert(sizeof(void*) != 8 || sizeof(ee_tt_table) == 320, "the layout is part of the ABI");
static_assert(sizeof(void*) != 8 || sizeof(ee_bags) == 32, "the layout is part of the ABI");

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16, EE_INT8}) TestRows(type);
  TestNothingToDo();
  TestBadArguments();
  TestTypesThatAreNone();
  TestADamagedRowIsNamed();
  TestTexts();
  return 0;
}
