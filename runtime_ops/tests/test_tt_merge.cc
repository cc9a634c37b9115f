// Prepacked cores against the definition: the numbers of the new core, the rows of the table that uses it,
// and the selected cores for each limit of bytes. Memory and scratch end at pages without access.
#include "tests/tt_case.h"
#include "tests/use_checks.h"

namespace edge_embed::testing {
namespace {

constexpr uint64_t kAnyBytes = std::numeric_limits<uint64_t>::max();

// The cores that stay, and the sizes of the new one.
void CheckCores(const TtShape& shape, const tt::Table& stored, const tt::Table& merged) {
  const size_t last = static_cast<size_t>(merged.num_cores) - 1, cores = shape.row_shape.size();
  CHECK(Validate(merged) == EE_OK);
  CHECK(last >= 1 && last < cores - 1);
  CHECK(merged.core_type == EE_FLOAT32);
  int64_t rows = 1, columns = 1;
  for (size_t k = last; k < cores; ++k) {
    rows *= shape.row_shape[k];
    columns *= shape.col_shape[k];
  }
  const tt::Core& core = merged.cores[last];
  CHECK(core.rows == std::min(rows, shape.rows) && core.columns == columns);
  CHECK(core.rank_in == shape.ranks[last] && core.rank_out == shape.ranks[cores]);
  for (size_t k = 0; k < last; ++k) {
    CHECK((merged.cores[k].data == stored.cores[k].data) == (shape.type == EE_FLOAT32));
    CHECK(merged.cores[k].rows == shape.row_shape[k]);
  }
}

// With every kernel except the reference kernels, whose bound is smaller than the rounding of the new core.
void CheckCase(const MergedCase& made, const TtShape& shape) {
  CHECK(made.bytes() > 0);
  CheckCores(shape, made.TtCase::table(), made.table());
  if (TestsReference()) return;
  CheckAllRows(made);
  CheckBag(made, SomeBags(made.rows(), true), BagMode::kSum, EE_FLOAT32);
  CheckBag(made, SomeBags(made.rows(), false), BagMode::kMax, EE_FLOAT16);
  CheckLogits(made, 2, EE_FLOAT32);
}

std::vector<TtShape> Shapes() {
  std::vector<TtShape> shapes;
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
    shapes.push_back({{2, 3, 4}, {2, 3, 2}, {1, 3, 2, 1}, 24, type});
    shapes.push_back({{2, 3, 4}, {2, 3, 2}, {1, 3, 2, 1}, 19, type, 4});     // not all ids of the last digits
    shapes.push_back({{5, 3, 4}, {2, 1, 17}, {1, 8, 9, 1}, 7, type, 6, 1});  // one prefix, fewer rows than I'
    shapes.push_back({{5, 3, 4}, {1, 1, 1}, {1, 4, 4, 1}, 1, type});
    shapes.push_back({{2, 3, 1, 2}, {1, 2, 3, 2}, {1, 2, 3, 2, 1}, 12, type, kNoPadding, 3});
    shapes.push_back({{2, 1, 2, 1, 3}, {2, 2, 1, 2, 1}, {1, 2, 3, 2, 2, 1}, 11, type});
    shapes.push_back({{2, 1, 2, 1, 2, 1}, {1, 2, 2, 1, 1, 2}, {1, 2, 2, 3, 2, 2, 1}, 7, type});
    shapes.push_back({{2, 2, 3}, {2, 3, 1}, {3, 2, 4, 3}, 12, type, 0});  // rings
    shapes.push_back({{2, 2, 3, 2}, {2, 1, 3, 2}, {2, 2, 3, 2, 2}, 23, type, 22});
  }
  return shapes;
}

// With every limit at which the selection changes, and one byte less.
void TestEveryChoice() {
  for (const TtShape& shape : Shapes()) {
    const TtCase stored(shape);
    uint64_t most = kAnyBytes;
    uint64_t work = RowWork(stored.table()), choices = 0;
    for (; most > 0; ++choices) {
      const MergedCase made(shape, most);
      if (made.bytes() == 0) break;
      CHECK(made.bytes() <= most);
      CHECK(RowWork(made.table()) < RowWork(stored.table()));
      if (choices > 0) CHECK(RowWork(made.table()) >= work);  // fewer bytes never need less work
      work = RowWork(made.table());
      CheckCase(made, shape);
      CHECK(MergedCase(shape, made.bytes()).bytes() == made.bytes());
      most = made.bytes() - 1;
    }
    CHECK(choices >= 1 && choices <= shape.row_shape.size() - 2);
    if (shape.row_shape.size() == 3) {
      const bool widened = shape.type == EE_FLOAT16;
      const tt::Core& first = stored.table().cores[0];
      const size_t rows = static_cast<size_t>(std::min(shape.row_shape[1] * shape.row_shape[2], shape.rows));
      const size_t numbers =
          static_cast<size_t>(shape.ranks[1] * shape.col_shape[1] * shape.col_shape[2] * shape.ranks[3]);
      CHECK(most + 1 == 4 * rows * numbers + (widened ? 2 * first.bytes : 0));
    }
  }
}

// Every number is rounded once: half a ULP, and the error of float64.
void TestNumbersAreRoundedOnce() {
  const std::vector<int64_t> ranks = {1, 3, 40, 7, 1};
  const TtCase stored({{1, 3, 2, 2}, {1, 2, 3, 5}, ranks, 12});
  const MergedTable merged(stored.table(), kAnyBytes);
  const tt::Table table = merged.table(), cores = stored.table();
  CHECK(table.num_cores == 2);
  const auto number = [&](size_t k, int64_t row, int64_t in, int64_t column, int64_t out) {
    const tt::Core& core = cores.cores[k];
    const int64_t at = ((row * core.rank_in + in) * core.columns + column) * core.rank_out + out;
    return LoadNumber(core.data, EE_FLOAT32, static_cast<size_t>(at));
  };
  size_t at = 0;
  for (int64_t i = 0; i < 12; ++i) {
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t j = 0; j < 30; ++j, ++at) {
        double exact = 0, magnitude = 0;
        for (int64_t s = 0; s < 40; ++s) {
          for (int64_t t = 0; t < 7; ++t) {
            const double path = number(1, i / 4, r, j / 15, s) * number(2, i / 2 % 2, s, j / 5 % 3, t) *
                                number(3, i % 2, t, j % 5, 0);
            exact += path;
            magnitude += std::fabs(path);
          }
        }
        const double got = LoadNumber(table.cores[1].data, EE_FLOAT32, at);
        CHECK(std::fabs(got - exact) <= std::ldexp(1.0, -24) * std::fabs(exact) + 1e-13 * magnitude);
      }
    }
  }
}

void TestNothingIsGained() {
  for (const TtShape& shape : std::vector<TtShape>{
           {{4, 5}, {3, 5}, {1, 3, 1}, 20},           // two cores must remain
           {{2, 2, 2}, {1, 1, 8}, {1, 16, 1, 1}, 8},  // rows would need more products
           {{2, 2, 2}, {1, 1, 2}, {1, 2, 1, 1}, 8},   // as many products
       }) {
    CHECK(MergedCase(shape).bytes() == 0);
  }
  CHECK(MergedCase({{2, 3, 4}, {2, 3, 2}, {1, 3, 2, 1}, 24}, 0).bytes() == 0);
}

// Cores that fit one by one, while their product overflows; their contents are not read.
void TestProductsThatOverflow() {
  const TtCase stored({{1, 1, 1}, {1, 1, 1}, {1, 1, 1, 1}, 1});
  const auto bytes = [&](int64_t rows, int64_t rank, int64_t columns, ee_type type) {
    tt::Table table = stored.table();
    table.core_type = type;
    table.cores[0] = {table.cores[0].data, size_t{1} << 62, 1, 1, 1, rank};
    table.cores[1] = {table.cores[0].data, size_t{1} << 62, rows, rank, columns, rank};
    table.cores[2] = {table.cores[0].data, size_t{1} << 62, rows, rank, columns, 1};
    table.num_embeddings = rows * rows;
    CHECK(Validate(table) == EE_OK);
    return tt::BestMerging(table, kAnyBytes).bytes;
  };
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
    CHECK(bytes(int64_t{1} << 31, 2, 1, type) == 0);
    CHECK(bytes(int64_t{1} << 20, 1 << 14, 1 << 8, type) == 0);
    CHECK(bytes(int64_t{1} << 20, 1 << 4, 1, type) >
          size_t{1} << 40);  // no machine has that much, but it is a valid size
  }
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  ForEachVariant([] { TestEveryChoice(); });
  TestNumbersAreRoundedOnce();
  TestNothingIsGained();
  TestProductsThatOverflow();
  return 0;
}
