// Planted faults, for which sanitizers must end this process (CMakeLists.txt has their reports).
// Usage: planted before|after|overflow
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/dpq_case.h"

namespace edge_embed::testing {
namespace {

const DpqShape kShape = {3, 256, 8, 4};

// A row by a kernel, with codes of the stated place and size.
void Gather(const unsigned char* codes, int64_t id) {
  const DpqCase made(kShape);
  dpq::Table table = made.table();
  table.codes = codes;
  CHECK(Validate(table) == EE_OK);
  std::vector<float> row(made.dim());
  size_t bad = 0;
  CHECK(KernelsOf(ChosenVariant(), table)
            .gather.run(table, ToIds(std::vector<int64_t>{id}), 0, 1, Output{row.data(), EE_FLOAT32}, nullptr,
                        &bad) == EE_OK);
}

// The last code of the last row is behind a heap block.
void ReadAfter() {
  const size_t size = static_cast<size_t>(kShape.rows * kShape.groups) - 1;
  const std::unique_ptr<unsigned char[]> codes(new unsigned char[size]());
  Gather(codes.get(), kShape.rows - 1);
}

// The first code of the first row is before a buffer that ends at a page.
void ReadBefore() {
  const GuardedBuffer codes(static_cast<size_t>(kShape.rows * kShape.groups));
  std::memset(codes.data(), 0, static_cast<size_t>(kShape.rows * kShape.groups));
  Gather(codes.data() - 1, 0);
}

// A table without validation has more columns than fit.
void Overflow() {
  dpq::Table table{};
  table.num_groups = table.group_width = int64_t{1} << 40;
  std::printf("%zu columns\n", Columns(table));
}

}  // namespace
}  // namespace edge_embed::testing

int main(int count, char** arguments) {
  using namespace edge_embed::testing;
  const std::string fault = count == 2 ? arguments[1] : "";
  if (fault == "before") ReadBefore();
  if (fault == "after") ReadAfter();
  if (fault == "overflow") Overflow();
  std::fprintf(stderr, "%s: no sanitizer ended this process\n", fault.c_str());
  return 0;
}
