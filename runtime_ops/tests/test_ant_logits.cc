// Logits of ANT against the definition.
#include "tests/ant_case.h"
#include "tests/use_checks.h"

namespace edge_embed::testing {
namespace {

// Enough rows for products with the anchors, and too few.
void TestLogits() {
  for (const size_t batch : std::vector<size_t>{1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 67}) {
    for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
      CheckLogits(AntCase({131, 10, 17, EE_UINT8, EE_INT8, EE_FLOAT16, 70}), batch, type);
      CheckLogits(AntCase({70, 40, 33, EE_UINT8, EE_FLOAT32, EE_FLOAT32, kNoPadding, 0.9}), batch, type);
      CheckLogits(AntCase({5, 40, 65, EE_UINT8, EE_FLOAT16, EE_FLOAT32, kNoPadding, 0.2}), batch, type);
    }
  }
  // So many anchors that the table of products has room for fewer states, or none.
  const auto check = [](int64_t rows, int64_t anchors, int64_t columns, size_t batch) {
    const AntCase made({rows, anchors, columns, EE_UINT32, EE_FLOAT32, EE_FLOAT32, kNoPadding, 0.9});
    CheckLogits(made, batch, EE_FLOAT32);
  };
  for (const int64_t anchors : {2048, 2049}) check(160, anchors, 70, 35);
  for (const int64_t anchors : {4097, 8193, 16385}) check(24, anchors, 10, 5);
  for (const int64_t anchors : {65536, 66000}) check(12, anchors, 5, 2);
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  ForEachVariant([] { TestLogits(); });
  return 0;
}
