// Checks of the uses of a table against its case: rows(), columns(), Row(id, absolute) of the definition.
#ifndef EDGE_EMBED_TESTS_USE_CHECKS_H_
#define EDGE_EMBED_TESTS_USE_CHECKS_H_

#include "tests/call.h"

namespace edge_embed::testing {

inline size_t OutputSize(ee_type type) { return type == EE_FLOAT16 ? 2 : 4; }

template <class Case, typename Id>
void CheckGather(const Case& made, const std::vector<Id>& ids, ee_type type) {
  const auto table = made.table();
  CHECK(Validate(table) == EE_OK);
  CHECK(Columns(table) == made.columns());
  const GuardedBuffer scratch = MakeScratch(table);
  const GuardedBuffer output(ids.size() * made.columns() * OutputSize(type));
  size_t bad = 12345;
  CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, ids.size(), Output{output.data(), type},
                                        Doubles(scratch), &bad) == EE_OK);
  CHECK(bad == 12345);
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::vector<double> row = made.Row(ids[i]), magnitude = made.Row(ids[i], true);
    for (size_t c = 0; c < row.size(); ++c) {
      CHECK(Rounded(ReadOutput(output.data(), type, i * row.size() + c), row[c], magnitude[c], type));
    }
  }
}

// Every row, the last first, in both types of ids and of output.
template <class Case>
void CheckAllRows(const Case& made) {
  std::vector<int64_t> ids;
  for (int64_t id = made.rows(); id-- > 0;) ids.push_back(id);
  CheckGather(made, ids, EE_FLOAT32);
  CheckGather(made, std::vector<int32_t>(ids.begin(), ids.end()), EE_FLOAT16);
}

struct BagCase {
  std::vector<int64_t> ids;
  std::vector<int64_t> offsets;
  std::vector<double> weights;  // empty: none
};

// A bag by the definition, and the sums of absolute values.
template <class Case>
void ExpectedBag(const Case& made, const BagCase& bags, BagMode mode, size_t bag, std::vector<double>* exact,
                 std::vector<double>* magnitude) {
  int64_t counted = 0;
  exact->assign(made.columns(), 0.0);
  magnitude->assign(made.columns(), 0.0);
  for (size_t i = static_cast<size_t>(bags.offsets[bag]); i < static_cast<size_t>(bags.offsets[bag + 1]);
       ++i) {
    if (bags.ids[i] == made.table().padding_idx) continue;
    const double weight = bags.weights.empty() ? 1.0 : bags.weights[i];
    const std::vector<double> row = made.Row(bags.ids[i]), absolute = made.Row(bags.ids[i], true);
    for (size_t c = 0; c < row.size(); ++c) {
      const double term = weight * row[c];
      (*magnitude)[c] += std::fabs(weight) * absolute[c];
      if (mode == BagMode::kMax) {
        (*exact)[c] = counted == 0 || term > (*exact)[c] ? term : (*exact)[c];
      } else {
        (*exact)[c] += term;
      }
    }
    ++counted;
  }
  if (mode == BagMode::kMean && counted > 0) {
    for (double& number : *exact) number /= static_cast<double>(counted);
  }
}

template <class Case>
void CheckBag(const Case& made, const BagCase& given, BagMode mode, ee_type type) {
  const auto table = made.table();
  const GuardedBuffer scratch = MakeScratch(table);
  const size_t count = given.offsets.size() - 1;
  const GuardedBuffer output(count * made.columns() * OutputSize(type));
  const Encoded weights(given.weights, type);
  const Placed weight_buffer(weights.bytes(), 1);
  const Bags bags{given.offsets.data(), count, given.weights.empty() ? nullptr : weight_buffer.data(), type,
                  mode};
  size_t bad = 12345;
  CHECK(CheckBags(bags, given.ids.size(), &bad) == EE_OK);
  CHECK(TestedKernels(table).bag.run(table, ToIds(given.ids), bags, 0, count, Output{output.data(), type},
                                     Doubles(scratch), &bad) == EE_OK);
  CHECK(bad == 12345);
  BagCase stored = given;
  stored.weights = weights.values();
  for (size_t bag = 0; bag < count; ++bag) {
    std::vector<double> exact, magnitude;
    ExpectedBag(made, stored, mode, bag, &exact, &magnitude);
    for (size_t c = 0; c < made.columns(); ++c) {
      CHECK(Rounded(ReadOutput(output.data(), type, bag * made.columns() + c), exact[c], magnitude[c], type));
    }
  }
}

template <class Case>
void CheckLogits(const Case& made, size_t batch, ee_type type) {
  const auto table = made.table();
  const GuardedBuffer scratch = MakeScratch(table);
  const size_t rows = static_cast<size_t>(made.rows()), columns = made.columns();
  std::vector<double> numbers(batch * columns);
  for (size_t k = 0; k < numbers.size(); ++k) numbers[k] = std::sin(static_cast<double>(k) + 1);
  const Encoded hidden(numbers, EE_FLOAT32);
  const Placed hidden_buffer(hidden.bytes(), 3);
  const GuardedBuffer output(batch * rows * OutputSize(type));
  size_t bad = 12345;
  CHECK(RunLogits(table, reinterpret_cast<const float*>(hidden_buffer.data()), batch, 0, rows,
                  Output{output.data(), type}, Doubles(scratch), &bad) == EE_OK);
  CHECK(bad == 12345);
  for (int64_t id = 0; id < made.rows(); ++id) {
    const std::vector<double> row = made.Row(id), terms = made.Row(id, true);
    for (size_t b = 0; b < batch; ++b) {
      double exact = 0, magnitude = 0;
      for (size_t c = 0; c < columns; ++c) {
        exact += hidden.values()[b * columns + c] * row[c];
        magnitude += std::fabs(hidden.values()[b * columns + c]) * terms[c];
      }
      const double got = ReadOutput(output.data(), type, b * rows + static_cast<size_t>(id));
      CHECK(Rounded(got, exact, magnitude, type));
    }
  }
}

// A part of each result is written to its place in the whole, and nothing else is changed.
template <class Case>
void CheckParts(const Case& made) {
  const auto table = made.table();
  const GuardedBuffer scratch = MakeScratch(table);
  const size_t columns = made.columns(), rows = static_cast<size_t>(made.rows());
  const std::vector<int64_t> ids(6, 2), offsets = {0, 1, 2, 3, 4, 5, 6};
  const Bags bags{offsets.data(), 6, nullptr, EE_FLOAT32, BagMode::kSum};
  std::vector<float> gathered(6 * columns, -7.0F), bagged = gathered, logits(2 * rows, -7.0F);
  const std::vector<float> hidden(2 * columns, 1.0F);
  size_t bad = 0;
  CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 2, 4, Output{gathered.data(), EE_FLOAT32},
                                        Doubles(scratch), &bad) == EE_OK);
  CHECK(TestedKernels(table).bag.run(table, ToIds(ids), bags, 2, 4, Output{bagged.data(), EE_FLOAT32},
                                     Doubles(scratch), &bad) == EE_OK);
  CHECK(RunLogits(table, hidden.data(), 2, 2, 4, Output{logits.data(), EE_FLOAT32}, Doubles(scratch), &bad) ==
        EE_OK);
  for (size_t i = 0; i < 6 * columns; ++i) {
    const bool inside = i / columns == 2 || i / columns == 3;
    CHECK((gathered[i] != -7.0F) == inside);
    CHECK((bagged[i] != -7.0F) == inside);
  }
  for (size_t i = 0; i < 2 * rows; ++i) CHECK((logits[i] != -7.0F) == (i % rows == 2 || i % rows == 3));
}

// Invalid ids: the first is reported, the rows before it are written, and the rest is unchanged.
template <class Case>
void CheckBadIds(const Case& made) {
  const auto table = made.table();
  const GuardedBuffer scratch = MakeScratch(table);
  const size_t columns = made.columns();
  for (const int64_t bad_id :
       {int64_t{-1}, made.rows(), -made.rows(), int64_t{1} << 32, (int64_t{1} << 32) + 1,
        std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    const std::vector<int64_t> ids = {0, 2, bad_id, bad_id}, offsets = {0, 2, 4};
    const Bags bags{offsets.data(), 2, nullptr, EE_FLOAT32, BagMode::kMean};
    std::vector<float> gathered(4 * columns, -7.0F), bagged(2 * columns, -7.0F);
    size_t bad = 0;
    CHECK(TestedKernels(table).gather.run(table, ToIds(ids), 0, 4, Output{gathered.data(), EE_FLOAT32},
                                          Doubles(scratch), &bad) == EE_ID_OUT_OF_RANGE);
    CHECK(bad == 2);
    bad = 0;
    CHECK(TestedKernels(table).bag.run(table, ToIds(ids), bags, 0, 2, Output{bagged.data(), EE_FLOAT32},
                                       Doubles(scratch), &bad) == EE_ID_OUT_OF_RANGE);
    CHECK(bad == 2);
    for (size_t k = 0; k < 4 * columns; ++k) CHECK((gathered[k] == -7.0F) == (k >= 2 * columns));
    for (size_t k = 0; k < 2 * columns; ++k) CHECK((bagged[k] == -7.0F) == (k >= columns));
  }
}

inline BagCase SomeBags(int64_t rows, bool weighted) {
  BagCase bags;
  for (int64_t i = 0; i < 17; ++i) bags.ids.push_back(i * 5 % rows);
  bags.offsets = {0, 3, 3, 4, 11, 16, 17, 17};
  for (int64_t i = 0; i < 17 && weighted; ++i) bags.weights.push_back(static_cast<double>(i) / 4 - 2);
  return bags;
}

template <class Case>
void CheckUses(const Case& made) {
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
    for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax}) {
      CheckBag(made, SomeBags(made.rows(), false), mode, type);
    }
    CheckBag(made, SomeBags(made.rows(), true), BagMode::kSum, type);
    CheckLogits(made, 3, type);
    CheckLogits(made, 0, type);
  }
}

}  // namespace edge_embed::testing

#endif  // EDGE_EMBED_TESTS_USE_CHECKS_H_
