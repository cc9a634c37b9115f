// Damaged tables and wrong ids return a status or a defined row, and cause no access outside the buffers.
// Both buffers end at a page without access.
#include <limits>

#include "tests/dpq_case.h"

namespace edge_embed::testing {
namespace {

// Codes above num_codes-1 count as the last code of their own group.
void TestHostileCodesStayInTheirGroup() {
  for (const int64_t num_codes : {3, 5, 17, 33, 100, 257, 40000}) {
    for (const bool shared : {false, true}) {
      const DpqShape shape{20, num_codes, 3, 2, shared, kNoPadding, 0, true};
      const DpqCase dpq_case(shape);
      for (int64_t id = 0; id < shape.rows; ++id) {
        float row[6];
        size_t bad = 0;
        CHECK(TestedKernels(dpq_case.table())
                  .gather.run(dpq_case.table(), Ids{&id, EE_INT64, 1}, 0, 1, Output{row, EE_FLOAT32}, nullptr,
                              &bad) == EE_OK);
        CHECK(std::memcmp(row, dpq_case.ExpectedRow(id).data(), sizeof(row)) == 0);
        double read[6];
        CHECK(dpq::ReadRow(dpq_case.table(), static_cast<size_t>(id), read, nullptr) == EE_OK);
        CHECK(std::vector<double>(read, read + 6) == dpq_case.Row(id));
      }
    }
  }
}

template <typename Id>
void CheckBadId(Id bad_id) {
  const DpqCase dpq_case({5, 16, 4, 2});
  const std::vector<Id> ids = {0, 4, bad_id, 1};
  std::vector<float> rows(ids.size() * dpq_case.dim(), -7.0F);
  size_t bad = 0;
  CHECK(TestedKernels(dpq_case.table())
            .gather.run(dpq_case.table(), ToIds(ids), 0, ids.size(), Output{rows.data(), EE_FLOAT32}, nullptr,
                        &bad) == EE_ID_OUT_OF_RANGE);
  CHECK(bad == 2);
  for (size_t k = 2 * dpq_case.dim(); k < rows.size(); ++k) CHECK(rows[k] == -7.0F);
}

void TestBadIds() {
  for (const int64_t id : {int64_t{-1}, int64_t{5}, int64_t{-5}, int64_t{1} << 32, (int64_t{1} << 32) + 1,
                           std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    CheckBadId<int64_t>(id);
  }
  for (const int32_t id : {-1, 5, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
    CheckBadId<int32_t>(id);
  }
}

// -1 means no padding row; it must not make the id -1 valid.
void TestNoPaddingIsNoId() {
  const DpqCase dpq_case({5, 16, 4, 2});
  const int64_t id = kNoPadding;
  float row[8];
  size_t bad = 9;
  CHECK(TestedKernels(dpq_case.table())
            .gather.run(dpq_case.table(), Ids{&id, EE_INT64, 1}, 0, 1, Output{row, EE_FLOAT32}, nullptr,
                        &bad) == EE_ID_OUT_OF_RANGE);
  CHECK(bad == 0);
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  ForEachVariant([] {
    TestHostileCodesStayInTheirGroup();
    TestBadIds();
    TestNoPaddingIsNoId();
  });
  return 0;
}
