// The k largest logits of every method and variant equal, bit by bit, a sort of the logits of the same
// variant, for any parts and any number of threads.
#include <algorithm>
#include <thread>

#include "kernels/topk.h"
#include "tests/ant_case.h"
#include "tests/dpq_case.h"
#include "tests/tt_case.h"

namespace edge_embed::testing {
namespace {

struct Wanted {
  size_t batch, k;
  bool biased = false;
  ee_type type = EE_FLOAT32;
  size_t threads = 1;  // 0: one part after another, the last rows first
};

// Hidden states, and bias as bytes of a type.
struct OutputLayerCase {
  std::vector<float> hidden;
  std::vector<double> bias;  // empty: none
};

OutputLayerCase MakeOutputLayer(size_t rows, size_t columns, const Wanted& wanted) {
  OutputLayerCase layer{std::vector<float>(wanted.batch * columns), {}};
  for (size_t i = 0; i < layer.hidden.size(); ++i) {
    layer.hidden[i] = static_cast<float>(std::sin(static_cast<double>(i) * 1.7 + 1));
  }
  if (wanted.biased) layer.bias.resize(rows);
  for (size_t i = 0; i < layer.bias.size(); ++i) layer.bias[i] = std::cos(static_cast<double>(i) * 0.3);
  return layer;
}

struct Found {
  std::vector<float> logits;
  std::vector<int64_t> ids;
};

template <class Table>
Found Run(const Table& table, const OutputLayerCase& layer, const Wanted& wanted) {
  const size_t rows = static_cast<size_t>(table.num_embeddings), all = wanted.batch * (wanted.k + 1);
  const TopK<Table> kernel(*Tested(), table);
  uint64_t doubles, scratch_doubles;
  CHECK(kernel.Prepared(table, wanted.batch).Get(&doubles));
  CHECK(kernel.scratch(table).Get(&scratch_doubles));
  const GuardedBuffer prepared(static_cast<size_t>(doubles) * sizeof(double));
  const GuardedBuffer best(all * sizeof(Candidate));
  const Encoded bias(layer.bias, wanted.type);
  const Placed bias_buffer(bias.bytes(), 1);
  TopKInput input{};
  input.logits = kernel.Prepare(table, layer.hidden.data(), wanted.batch, Doubles(prepared));
  input.k = wanted.k;
  input.type = wanted.type;
  input.bias = layer.bias.empty() ? nullptr : bias_buffer.data();
  input.best = reinterpret_cast<Candidate*>(best.data());
  std::fill_n(input.best, all, kNone);

  const auto part = [&](size_t begin, size_t end) {
    const GuardedBuffer scratch(static_cast<size_t>(scratch_doubles) * sizeof(double));
    size_t bad = 12345;
    CHECK(kernel.Run(table, input, begin, end, Doubles(scratch), &bad) == EE_OK);
    CHECK(bad == 12345);
  };
  const size_t parts = wanted.threads == 0 ? 3 : wanted.threads;
  std::vector<std::thread> threads;
  for (size_t t = parts; t-- > 0;) {
    const size_t begin = rows * t / parts, end = rows * (t + 1) / parts;
    if (wanted.threads > 1) {
      threads.emplace_back(part, begin, end);
    } else {
      part(begin, end);
    }
  }
  for (std::thread& thread : threads) thread.join();

  Found found;
  for (size_t b = 0; b < wanted.batch; ++b) {
    Sort(input.BestOf(b).heap, wanted.k);
    for (size_t i = 0; i < wanted.k; ++i) {
      const Candidate candidate = input.BestOf(b).heap[i];
      found.logits.push_back(LogitOf(candidate));
      found.ids.push_back(RowOf(candidate));
    }
  }
  return found;
}

// Rounding and bias of a logit, computed by the test.
double Rounded(double value, ee_type type) {
  return type == EE_FLOAT16 ? DecodeHalf(EncodeHalf(value)) : static_cast<double>(static_cast<float>(value));
}

template <class Table>
std::vector<double> AllLogits(const Table& table, const OutputLayerCase& layer, const Wanted& wanted) {
  const size_t rows = static_cast<size_t>(table.num_embeddings);
  const GuardedBuffer scratch = MakeScratch(table), output(wanted.batch * rows * sizeof(float));
  size_t bad = 0;
  CHECK(RunLogits(table, layer.hidden.data(), wanted.batch, 0, rows, Output{output.data(), wanted.type},
                  Doubles(scratch), &bad) == EE_OK);
  std::vector<double> logits(wanted.batch * rows);
  const Encoded bias(layer.bias, wanted.type);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = ReadOutput(output.data(), wanted.type, i);
    if (!layer.bias.empty()) {
      const float sum = static_cast<float>(logits[i]) + static_cast<float>(bias.values()[i % rows]);
      logits[i] = Rounded(static_cast<double>(sum), wanted.type);
    }
  }
  return logits;
}

template <class Table>
void CheckTopK(const Table& table, const OutputLayerCase& layer, const Wanted& wanted) {
  const size_t rows = static_cast<size_t>(table.num_embeddings);
  const std::vector<double> logits = AllLogits(table, layer, wanted);
  const Found found = Run(table, layer, wanted);
  for (size_t b = 0; b < wanted.batch; ++b) {
    std::vector<size_t> order(rows);
    for (size_t i = 0; i < rows; ++i) order[i] = i;
    const double* of_state = logits.data() + b * rows;
    std::stable_sort(order.begin(), order.end(),
                     [=](size_t x, size_t y) { return of_state[x] > of_state[y]; });
    for (size_t i = 0; i < wanted.k; ++i) {
      CHECK(found.ids[b * wanted.k + i] == static_cast<int64_t>(order[i]));
      CHECK(static_cast<double>(found.logits[b * wanted.k + i]) == of_state[order[i]]);
    }
  }
}

template <class Case>
void CheckCase(const Case& made, const std::vector<Wanted>& all) {
  for (const Wanted& wanted : all) {
    if (wanted.k > static_cast<size_t>(made.rows())) continue;
    CheckTopK(made.table(), MakeOutputLayer(static_cast<size_t>(made.rows()), made.columns(), wanted),
              wanted);
  }
}

const std::vector<Wanted>& Usual() {
  static const std::vector<Wanted> usual = {{1, 1},
                                            {1, 10},
                                            {1, 37},
                                            {8, 3},
                                            {9, 5, true},
                                            {64, 2, true},
                                            {3, 7, true, EE_FLOAT16},
                                            {2, 16, false, EE_FLOAT16},
                                            {1, 10, false, EE_FLOAT32, 4},
                                            {9, 300, true, EE_FLOAT32, 3}};
  return usual;
}

void TestDpq() {
  const auto check = [](const DpqShape& shape) {
    WithAndWithoutBlocks(shape, [](const DpqCase& made) { CheckCase(made, Usual()); });
  };
  for (const int64_t rows : {1, 15, 16, 17, 33, 80, 1000}) {
    for (const int64_t num_codes : {16, 9, 5, 256}) {
      check({rows, num_codes, 5, 3});
      check({rows, num_codes, 64, 2, false, rows / 2, 1});
      check({rows, num_codes, 65, 2, true, rows - 1});
    }
  }
  check({500, 12, 17, 4, false, 3, 0, true});
  check({500, 16, 24, 4, false, 3, 0, false, EE_FLOAT16});
  check({500, 16, 24, 4, false, 3, 0, false, EE_INT8});
  check({9000, 16, 64, 2});
  for (const int64_t num_codes : {2, 3, 4, 8}) {  // nibbles with several codes, and column-wise rows
    check({80, num_codes, 33, 1, false, 7, 0, true});
    check({1000, num_codes, 66, 1});
    check({300, num_codes, 7, 5, true, kNoPadding, 0, false, EE_FLOAT16});
  }
  check({200, 4, 512, 1});
  check({200, 4, 513, 1});
  // Sums of bytes up to 255 * 256, and sums of more than sixteen bits.
  check({200, 16, 256, 1});
  check({200, 16, 257, 1});
}

void TestOthers() {
  CheckCase(AntCase({300, 20, 33}), Usual());
  CheckCase(AntCase({9000, 20, 8, EE_UINT8, EE_INT8, EE_FLOAT16, 5}), Usual());
  CheckCase(TtCase({{7, 6, 8}, {2, 3, 4}, {1, 5, 4, 1}, 330, EE_FLOAT32, 7}), Usual());
  CheckCase(TtCase({{30, 20, 16}, {2, 2, 2}, {2, 3, 3, 2}, 9500}), Usual());
}

// A table of few different rows, and a state of zeros: the lowest ids are first.
void TestTies() {
  for (const int64_t num_codes : {16, 256}) {
    const DpqCase made({400, num_codes, 1, 4, false, 9});
    const dpq::Table table = made.table();
    for (const size_t threads : {size_t{0}, size_t{1}, size_t{4}}) {
      const Wanted wanted{2, 60, false, EE_FLOAT32, threads};
      OutputLayerCase layer = MakeOutputLayer(400, 4, wanted);
      std::fill_n(layer.hidden.begin(), 4, 0.0F);
      CheckTopK(table, layer, wanted);
      const std::vector<int64_t> ids = Run(table, layer, wanted).ids;
      for (size_t i = 0; i < wanted.k; ++i) CHECK(ids[i] == static_cast<int64_t>(i));
    }
  }
}

// If all other logits are negative, the padding row is the largest, for any codes.
void TestPaddingRowIsTheBest() {
  for (const int64_t num_codes : {16, 256}) {
    DpqCase made({2000, num_codes, 8, 2, false, 1500});
    dpq::Table table = made.table();
    std::vector<float> values(static_cast<size_t>(8 * num_codes * 2));
    for (size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 0 ? -1.0F : -1000.0F;
    table.values = reinterpret_cast<const unsigned char*>(values.data());
    const OutputLayerCase layer{std::vector<float>(9 * 16, 1.0F), {}};
    CheckTopK(table, layer, {9, 4});
    CHECK(Run(table, layer, {9, 4}).ids[0] == 1500);
  }
}

// Logits that differ in their last places, where a bound by bytes excludes no row: every row is a candidate.
void TestNearTies() {
  for (const float spread : {0.0F, 1e-6F, 1e-3F}) {
    DpqCase made({3000, 16, 32, 2});
    dpq::Table table = made.table();
    std::vector<float> values(32 * 16 * 2);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 1.0F + spread * static_cast<float>(std::sin(static_cast<double>(i)));
    }
    values[7] = 1000.0F;  // one code that sets the step of the bytes
    table.values = reinterpret_cast<const unsigned char*>(values.data());
    for (const Wanted& wanted : {Wanted{1, 10}, Wanted{8, 100}, Wanted{1, 1000, true}}) {
      CheckTopK(table, MakeOutputLayer(3000, 64, wanted), wanted);
    }
  }
}

// Extreme states: results stay k different rows, and finite ones stay exact.
void TestStatesThatAreNotFinite() {
  for (const int64_t num_codes : {16, 256}) {
    const DpqCase made({200, num_codes, 8, 2, false, 4});
    const Wanted wanted{6, 20};
    OutputLayerCase layer = MakeOutputLayer(200, 16, wanted);
    layer.hidden[0] = std::numeric_limits<float>::infinity();
    layer.hidden[16 + 3] = std::numeric_limits<float>::quiet_NaN();
    for (size_t c = 0; c < 16; ++c) {
      layer.hidden[32 + c] = 3e38F;
      layer.hidden[48 + c] = 1e-40F;
    }
    const Found found = Run(made.table(), layer, wanted);
    for (size_t b = 0; b < wanted.batch; ++b) {
      std::vector<int64_t> ids(found.ids.begin() + static_cast<std::ptrdiff_t>(b * 20),
                               found.ids.begin() + static_cast<std::ptrdiff_t>(b * 20 + 20));
      std::sort(ids.begin(), ids.end());
      CHECK(ids.front() >= 0 && ids.back() < 200);
      CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
    }
    const OutputLayerCase finite{{layer.hidden.begin() + 48, layer.hidden.end()}, {}};
    CheckTopK(made.table(), finite, {3, 20});
  }
}

// A damaged row is reported.
void TestDamagedRow() {
  AntCase made({50, 6, 5});
  const int32_t damaged = -5;
  std::memcpy(made.row_offset_buffer().mutable_data() + 4 * 31, &damaged, sizeof(damaged));
  const ant::Table table = made.table();
  const TopK<ant::Table> kernel(*Tested(), table);
  uint64_t doubles, scratch_doubles;
  CHECK(kernel.Prepared(table, 1).Get(&doubles) && kernel.scratch(table).Get(&scratch_doubles));
  const GuardedBuffer prepared(static_cast<size_t>(doubles) * sizeof(double));
  const GuardedBuffer scratch(static_cast<size_t>(scratch_doubles) * sizeof(double));
  const std::vector<float> hidden(5, 1.0F);
  Candidate best[4] = {};
  const TopKInput input{kernel.Prepare(table, hidden.data(), 1, Doubles(prepared)), 3, nullptr, EE_FLOAT32,
                        best};
  size_t bad = 0;
  CHECK(kernel.Run(table, input, 0, 50, Doubles(scratch), &bad) == EE_BAD_ROW_OFFSETS);
  CHECK(bad == 30);
}

void TestCandidates() {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> rising = {-inf, -3e38F, -1.0F, -1e-45F, 0.0F, 1e-45F, 1.0F, 3e38F, inf, NAN};
  for (size_t i = 0; i < rising.size(); ++i) {
    const Candidate candidate = MakeCandidate(rising[i], 7);
    CHECK(candidate > kNone && RowOf(candidate) == 7);
    CHECK(std::isnan(rising[i]) ? std::isnan(LogitOf(candidate)) : LogitOf(candidate) == rising[i]);
    CHECK(candidate > MakeCandidate(rising[i], 8));
    if (i > 0) CHECK(candidate > MakeCandidate(rising[i - 1], 0));
    Candidate memory[2] = {MakeCandidate(rising[i], 0), 0};
    const float below = Best{memory, 1, memory + 1}.Threshold();
    if (i > 0 && !std::isnan(rising[i])) CHECK(below < rising[i] && below >= rising[i - 1]);
  }
  CHECK(MakeCandidate(-0.0F, 3) == MakeCandidate(0.0F, 3));
  CHECK(MakeCandidate(-inf, static_cast<size_t>(kMaxTopKRows) - 1) > kNone);
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  TestCandidates();
  ForEachVariant([] {
    TestDpq();
    TestOthers();
    TestTies();
    TestPaddingRowIsTheBest();
    TestNearTies();
    TestStatesThatAreNotFinite();
    TestDamagedRow();
  });
}
