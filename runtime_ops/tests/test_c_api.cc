// The C interface: checks first, then the kernel.
#include "c_api/edge_embed.h"

#include <limits>

#include "tests/c_tables.h"

namespace edge_embed::testing {
namespace {

const DpqShape kShape{5, 10, 3, 2, false, 1};

// Rows 4, 1 (padding) and 0 of DPQ equal the stored values, bit by bit, for both types of ids.
void TestRows(ee_type type) {
  DpqShape shape = kShape;
  shape.type = type;
  const DpqCase made(shape);
  const ee_table table = ToC(made.table());
  const UseScratch scratch(table, EE_GATHER);
  const std::vector<int64_t> ids64 = {4, 1, 0};
  const std::vector<int32_t> ids32 = {4, 1, 0};
  const ee_ids wide = ToC(ids64), narrow = ToC(ids32);
  float rows64[18], rows32[18];
  int64_t bad = 99;
  CHECK(ee_check(&table) == EE_OK);
  CHECK(ee_gather(&table, &wide, rows64, sizeof(rows64), scratch.data(), scratch.size(), &bad) == EE_OK);
  CHECK(bad == -1);
  CHECK(ee_gather(&table, &narrow, rows32, sizeof(rows32), scratch.data(), scratch.size(), nullptr) == EE_OK);
  CHECK(std::memcmp(rows64, rows32, sizeof(rows64)) == 0);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(std::memcmp(rows64 + i * 6, made.ExpectedRow(ids64[i]).data(), 6 * sizeof(float)) == 0);
  }
}

void TestBadIds() {
  const DpqCase made(kShape);
  const ee_table table = ToC(made.table());
  const UseScratch scratch(table, EE_GATHER);
  const std::vector<int64_t> numbers = {0, 2, 5};
  float rows[18] = {};
  int64_t bad = 99;
  const auto gather = [&](const ee_ids& ids, size_t rows_bytes) {
    return ee_gather(&table, &ids, rows, rows_bytes, scratch.data(), scratch.size(), &bad);
  };
  const ee_ids ids = ToC(numbers);
  CHECK(gather(ids, sizeof(rows)) == EE_ID_OUT_OF_RANGE && bad == 2);
  CHECK(ee_gather(&table, &ids, rows, sizeof(rows), scratch.data(), scratch.size(), nullptr) ==
        EE_ID_OUT_OF_RANGE);
  CHECK(ee_gather(&table, nullptr, rows, sizeof(rows), scratch.data(), scratch.size(), &bad) ==
        EE_NULL_POINTER);
  CHECK(bad == -1);
  const auto after = [&](const auto& change) {
    ee_ids changed = ids;
    changed.count = 2;
    change(changed);
    return gather(changed, 12 * sizeof(float));
  };
  CHECK(after([](ee_ids&) {}) == EE_OK);
  CHECK(after([](ee_ids& i) { i.data = nullptr; }) == EE_NULL_POINTER);
  CHECK(after([](ee_ids& i) { i.count = -1; }) == EE_BAD_SHAPE);
  CHECK(after([](ee_ids& i) { i.count = std::numeric_limits<int64_t>::max(); }) == EE_SIZE_OVERFLOW);
  for (const int32_t type : {-1, int32_t{EE_FLOAT32}, int32_t{EE_UINT32}, 8, 1000}) {
    CHECK(after([=](ee_ids& i) { i.type = type; }) == EE_BAD_TYPE);
  }
}

// Every function refuses an unknown table before it reads other arguments.
void TestTablesOfAnotherKind() {
  const DpqCase made(kShape);
  const ee_table sound = ToC(made.table());
  const std::vector<int64_t> no_numbers;
  const ee_ids ids = ToC(no_numbers);
  const ee_bags bags{};
  const ee_best best{};
  ee_table prepared{};
  size_t bytes = 99, more = 99;
  const auto refused = [&](const ee_table* table, ee_status status) {
    CHECK(ee_check(table) == status);
    CHECK(ee_scratch_bytes(table, EE_GATHER, 0, &bytes) == status);
    CHECK(ee_gather(table, &ids, nullptr, 0, nullptr, 0, nullptr) == status);
    CHECK(ee_bag(table, &ids, &bags, nullptr, 0, nullptr, 0, nullptr) == status);
    CHECK(ee_logits(table, nullptr, 0, nullptr, 0, nullptr, 0, nullptr) == status);
    CHECK(ee_topk(table, nullptr, 0, &best, nullptr, 0, nullptr) == status);
    CHECK(ee_prepare_bytes(table, 0, &bytes, &more) == status);
    CHECK(ee_prepare(table, nullptr, 0, nullptr, 0, &prepared) == status);
    CHECK(bytes == 99 && more == 99 && prepared.version == 0);
  };
  const auto after = [&](const auto& change, ee_status status) {
    ee_table changed = sound;
    change(changed);
    refused(&changed, status);
  };
  refused(nullptr, EE_NULL_POINTER);
  for (const int32_t version : {0, EE_TABLE_VERSION + 1, -1}) {
    after([=](ee_table& t) { t.version = version; }, EE_BAD_VERSION);
  }
  for (const int32_t method : {0, 6, -1, std::numeric_limits<int32_t>::min()}) {
    after([=](ee_table& t) { t.method = method; }, EE_BAD_METHOD);
  }
  after([](ee_table& t) { --t.dpq.codes_bytes; }, EE_SHORT_CODES);
}

void TestTypesThatAreNone() {
  const AntCase ant_case({5, 4, 3});
  const TtCase tt_case({{2, 3}, {3, 2}, {1, 4, 1}, 5});
  const DpqCase dpq_case(kShape);
  for (const int32_t type : {-1, 8, 1000, std::numeric_limits<int32_t>::min()}) {
    ee_table ant = ToC(ant_case.table()), tt = ToC(tt_case.table()), dpq = ToC(dpq_case.table());
    ant.ant.anchor_type = tt.tt.core_type = dpq.dpq.value_type = type;
    for (const ee_table& table : {ant, tt, dpq}) CHECK(ee_check(&table) == EE_BAD_TYPE);
  }
}

void TestADamagedRowIsNamed() {
  AntCase made({5, 4, 3, EE_UINT8, EE_FLOAT32, EE_FLOAT32, kNoPadding, 1.0});
  made.anchor_id_buffer().mutable_data()[9] = 4;  // weights of row 3, as row 1 is empty
  const ee_table table = ToC(made.table());
  const UseScratch scratch(table, EE_LOGITS);
  std::vector<float> logits(5), hidden(3);
  int64_t bad = 99;
  CHECK(ee_logits(&table, hidden.data(), 1, logits.data(), 20, scratch.data(), scratch.size(), &bad) ==
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
  CHECK(ee_method_name(0) == std::string("dpq") && ee_method_name(2) == std::string("tt"));
  CHECK(ee_method_name(3) == std::string("dpq_scaled") && ee_method_name(4) == std::string("tiered") &&
        ee_method_name(5) == std::string("entmax"));
  CHECK(ee_method_name(-1) == nullptr && ee_method_name(6) == nullptr);
}

// A change of one of these sizes requires a change of EE_TABLE_VERSION.
static_assert(EE_TABLE_VERSION == 1 && sizeof(void*) == 8, "sizes are those of this version");
static_assert(sizeof(ee_dpq_table) == 120 && sizeof(ee_ant_table) == 120 && sizeof(ee_tt_table) == 320 &&
                  sizeof(ee_dpq_scaled_table) == 168 && sizeof(ee_tiered_table) == 64,
              "");
static_assert(sizeof(ee_table) == 328 && sizeof(ee_ids) == 24 && sizeof(ee_bags) == 32, "");
static_assert(sizeof(ee_best) == 48, "");

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16, EE_INT8}) TestRows(type);
  TestBadIds();
  TestTablesOfAnotherKind();
  TestTypesThatAreNone();
  TestADamagedRowIsNamed();
  TestTexts();
  return 0;
}
