// Training kernels of DPQ against the formulas of training.h in double precision, with the instruction set of
// EDGE_EMBED_FORCE_ISA.
#include "training/training.h"

#include <limits>

#include "tests/training_case.h"
#include "training/kernels.h"

namespace edge_embed::testing {
namespace {

using training::kKernels;
using training::kNumKernels;

// All results of the functions. Sums begin with 0.5, because the functions add to them.
struct Results {
  explicit Results(const Shape& shape)
      : codes(shape.groups * shape.queries, -7),
        codes_alone(shape.codes <= 256 ? 0 : codes.size(), -7),
        byte_codes(codes.size() - codes_alone.size(), 249),
        leads(codes.size(), -7),
        rows(shape.queries * shape.groups * shape.value_width, -7),
        of_query(shape.queries * shape.groups * shape.width, -7),
        of_query_by_products(of_query.size(), -7),
        of_weights(shape.matrices() * shape.features() * shape.codes, 0.5),
        of_values(shape.codebooks() * shape.codes * shape.value_width, 0.5),
        of_centroids(shape.codebooks() * shape.codes * shape.width, 0.5),
        products(shape.groups * shape.features() * shape.features(), 0.5) {}

  Numbers<int32_t> codes, codes_alone;
  Numbers<uint8_t> byte_codes;  // in place of codes_alone, for few codes
  Numbers<float> leads, rows, of_query, of_query_by_products;
  Numbers<double> of_weights, of_values, of_centroids, products;
};

template <class Code>
ee_codes CodesOf(const Numbers<Code>& codes) {
  return {codes.data(), sizeof(Code)};
}

// Stores codes as bytes, if the shape has any.
ee_codes Narrowest(const Numbers<int32_t>& codes, const Numbers<uint8_t>& bytes) {
  return bytes.size() > 0 ? CodesOf(bytes) : CodesOf(codes);
}

void Run(const Case& made, size_t begin, size_t end, Results* results) {
  const ee_distances distances = made.distances();
  const ee_values values{made.values.data(), made.shape.value_width, made.shape.own_values};
  const ee_values centroids{made.centroids.data(), made.shape.width, made.shape.own_values};
  const ee_codes given = Narrowest(made.codes, made.byte_codes), wide = CodesOf(results->codes);
  const ee_codes alone = Narrowest(results->codes_alone, results->byte_codes);
  CHECK(ee_training_nearest(&distances, begin, end, &wide, results->leads.data()) == 0);
  CHECK(ee_training_nearest(&distances, begin, end, &alone, nullptr) == 0);
  CHECK(ee_training_rows(&distances, &values, &given, begin, end, results->rows.data()) == 0);
  CHECK(ee_training_soft_backward(&distances, &values, &given, kTemperature, made.gradient.data(), begin, end,
                                  results->of_query.data(), results->of_weights.data(),
                                  results->of_values.data()) == 0);
  CHECK(ee_training_centroid_backward(&distances, &centroids, &given, made.shares.data(), begin, end,
                                      results->of_centroids.data()) == 0);
  CHECK(ee_training_products(&distances, made.shares.data(), made.origin.data(), begin, end,
                             results->products.data()) == 0);
  CHECK(ee_training_products_backward(&distances, made.shares.data(), made.origin.data(),
                                      made.sums_gradient.data(), made.products_gradient.data(), begin, end,
                                      results->of_query_by_products.data()) == 0);
}

template <class T>
bool IsNear(T got, Value wanted) {
  return std::fabs(static_cast<double>(got) - wanted.exact) <= wanted.error;
}

// Distances have an error of at most `error`: the code is one of the nearest, and the lead is within two
// errors.
void CheckNearest(const std::vector<Value>& distances, int32_t code, float lead) {
  double first = -std::numeric_limits<double>::infinity(), second = first, error = 0;
  for (const Value distance : distances) {
    second = std::fmax(second, std::fmin(first, distance.exact));
    first = std::fmax(first, distance.exact);
    error = std::fmax(error, distance.error);
  }
  CHECK(code >= 0 && static_cast<size_t>(code) < distances.size());
  CHECK(distances[static_cast<size_t>(code)].exact >= first - 2 * error);
  if (distances.size() == 1) {
    CHECK(std::isinf(lead) && lead > 0);
  } else {
    CHECK(IsNear(lead, Rounded(first - second, 2 * error)));
  }
}

// Sums over all queries.
struct Totals {
  explicit Totals(const Results& results)
      : of_weights(results.of_weights.size()),
        of_values(results.of_values.size()),
        of_centroids(results.of_centroids.size()),
        products(results.products.size()) {}

  void Add(const Case& made, const Reference& reference, size_t group,
           const std::vector<Value>& of_distances) {
    const Shape& shape = made.shape;
    const size_t n = shape.features();
    const std::vector<Value>& features = reference.features();
    const std::vector<Value> moved = reference.Moved();
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < shape.codes; ++k) {
        of_weights[reference.WeightAt(i, k)].Add(features[i] * of_distances[k]);
      }
      for (size_t k = 0; k < n; ++k) {
        products[(group * n + i) * n + k].Add(reference.share() * moved[i] * moved[k]);
      }
    }
    for (size_t i = 0; i < shape.value_width; ++i) {
      const size_t at = reference.ValueAt(reference.code(), shape.value_width) + i;
      of_values[at].Add({static_cast<double>(made.gradient[reference.RowAt(shape.value_width) + i])});
    }
    for (size_t i = 0; i < shape.width; ++i) {
      const size_t at = reference.ValueAt(reference.code(), shape.width) + i;
      const Value centroid{static_cast<double>(made.centroids[at])};
      const Value query{static_cast<double>(made.query[reference.RowAt(shape.width) + i])};
      of_centroids[at].Add(Value{2} * reference.share() * (centroid - query));
    }
  }

  std::vector<Total> of_weights, of_values, of_centroids, products;
};

void CheckTotals(const Numbers<double>& got, std::vector<Total> wanted, size_t roundings, double unit) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    wanted[i].Add({0.5});  // the initial value
    CHECK(IsNear(got[i], wanted[i].After(roundings, unit)));
  }
}

void CheckAgainstReference(const Case& made, const Results& results) {
  const Shape& shape = made.shape;
  Totals totals(results);
  for (size_t query = 0; query < shape.queries; ++query) {
    for (size_t group = 0; group < shape.groups; ++group) {
      const Reference reference(made, query, group);
      const size_t at = group * shape.queries + query;
      CheckNearest(reference.Distances(), results.codes[at], results.leads[at]);
      const bool has_bytes = results.byte_codes.size() > 0;
      const int32_t alone = has_bytes ? results.byte_codes[at] : results.codes_alone[at];
      CHECK(alone == results.codes[at]);
      for (size_t i = 0; i < shape.value_width; ++i) {
        CHECK(results.rows[reference.RowAt(shape.value_width) + i] ==
              made.values[reference.ValueAt(reference.code(), shape.value_width) + i]);
      }
      const std::vector<Value> of_distances = reference.SoftGradient();
      const std::vector<Value> of_query = reference.OfQuery(reference.OfFeatures(of_distances));
      const std::vector<Value> by_products = reference.OfQuery(reference.OfFeaturesByProducts());
      for (size_t i = 0; i < shape.width; ++i) {
        CHECK(IsNear(results.of_query[reference.RowAt(shape.width) + i], of_query[i]));
        CHECK(IsNear(results.of_query_by_products[reference.RowAt(shape.width) + i], by_products[i]));
      }
      totals.Add(made, reference, group, of_distances);
    }
  }
  // Products of a block are summed in float32, in four or more lanes, and then in float64. Other sums are in
  // float64.
  const size_t a_lane = shape.queries / 4 + 4;
  CheckTotals(results.of_weights, totals.of_weights, a_lane, kUnit);
  CheckTotals(results.products, totals.products, a_lane, kUnit);
  CheckTotals(results.of_values, totals.of_values, shape.queries + 1, kDoubleUnit);
  CheckTotals(results.of_centroids, totals.of_centroids, shape.queries + 1, kDoubleUnit);
}

// Compares bit by bit with another run for the queries begin .. end - 1. A query has `width` numbers in a
// row.
template <class T>
void CheckSameRows(const Numbers<T>& a, const Numbers<T>& b, size_t begin, size_t end, size_t width) {
  CHECK(std::memcmp(a.data() + begin * width, b.data() + begin * width, (end - begin) * width * sizeof(T)) ==
        0);
}

void CheckSame(const Shape& shape, const Results& a, const Results& b, size_t begin, size_t end) {
  for (size_t group = 0; group < shape.groups; ++group) {  // [D, B]
    const size_t at = group * shape.queries;
    CheckSameRows(a.codes, b.codes, at + begin, at + end, 1);
    if (shape.codes <= 256) {
      CheckSameRows(a.byte_codes, b.byte_codes, at + begin, at + end, 1);
    } else {
      CheckSameRows(a.codes_alone, b.codes_alone, at + begin, at + end, 1);
    }
    CheckSameRows(a.leads, b.leads, at + begin, at + end, 1);
  }
  CheckSameRows(a.rows, b.rows, begin, end, shape.groups * shape.value_width);
  CheckSameRows(a.of_query, b.of_query, begin, end, shape.groups * shape.width);
  CheckSameRows(a.of_query_by_products, b.of_query_by_products, begin, end, shape.groups * shape.width);
}

// The result of a query does not depend on the other queries of the call.
void CheckParts(const Case& made, const Results& whole) {
  const Shape& shape = made.shape;
  Results parts(shape);
  size_t begin = 0;
  for (const size_t end : {size_t{1}, size_t{18}, shape.queries / 2, shape.queries}) {
    if (end <= begin || end > shape.queries) continue;
    Run(made, begin, end, &parts);
    begin = end;
  }
  CheckSame(shape, parts, whole, 0, shape.queries);
  CheckAgainstReference(made, parts);
}

// A part changes no other part.
void CheckPart(const Case& made, const Results& whole) {
  const Shape& shape = made.shape;
  const Results untouched(shape);
  Results part(shape);
  const size_t begin = shape.queries / 3, end = 2 * begin;
  Run(made, begin, end, &part);
  CheckSame(shape, part, untouched, 0, begin);
  CheckSame(shape, part, whole, begin, end);
  CheckSame(shape, part, untouched, end, shape.queries);
}

void CheckAll(const Shape& shape) {
  const Case made(shape);
  Results whole(shape);
  Run(made, 0, shape.queries, &whole);
  CheckAgainstReference(made, whole);
  CheckParts(made, whole);
  CheckPart(made, whole);
}

constexpr ee_metric kMetrics[] = {EE_DOT, EE_EUCLIDEAN, EE_COSINE};

void TestNumbersOfCodes() {
  bool own_weights = false, own_values = false;  // all four of them
  for (const size_t codes : std::vector<size_t>{1, 2, 3, 4, 5, 16, 17, 256, 300}) {
    for (const ee_metric metric : kMetrics) CheckAll({21, 3, 4, codes, 3, metric, own_weights, own_values});
    own_weights = !own_weights;
    own_values = own_values != own_weights;
  }
}

void TestWidths() {
  for (const size_t width : std::vector<size_t>{1, 2, 3, 4, 5, 8, 9, 16}) {
    for (const ee_metric metric : kMetrics) {
      CheckAll({19, 2, width, 5, 17 - width, metric});
      CheckAll({19, 2, 3, 5, width, metric, true, false});
    }
  }
}

void TestNumbersOfGroups() {
  for (const size_t groups : std::vector<size_t>{1, 2, 3, 4, 5}) {
    for (const ee_metric metric : kMetrics) {
      CheckAll({33, groups, 3, 6, 2, metric, true, true});
      CheckAll({33, groups, 3, 6, 2, metric, false, false});
    }
  }
}

void TestNumbersOfQueries() {
  for (const size_t queries : std::vector<size_t>{0,  1,  4,  7,  8,  9,  15,  16,  17,  24, 31,
                                                  32, 33, 40, 63, 64, 65, 129, 255, 256, 257}) {
    for (const ee_metric metric : kMetrics) CheckAll({queries, 2, 3, 6, 5, metric});
  }
}

// Blocks have at least 256 queries; these shapes have several blocks, and the last one is not full.
void TestBlocks() {
  CheckAll({700, 1, 2, 70, 1, EE_DOT});
  CheckAll({1501, 5, 16, 17, 4, EE_EUCLIDEAN});
  CheckAll({530, 2, 40, 33, 2, EE_COSINE});
}

// Small integers, whose products are exact: equal distances are equal, and the lowest code is selected.
void TestTies() {
  for (const size_t codes : std::vector<size_t>{2, 3, 4, 5, 17, 40}) {
    const Case made({65, 2, 3, codes, 1, EE_DOT});
    std::mt19937 random(7);
    for (const Numbers<float>* numbers : {&made.query, &made.weights}) {
      for (size_t i = 0; i < numbers->size(); ++i) (*numbers)[i] = static_cast<float>(random() % 3) - 1;
    }
    Results results(made.shape);
    Run(made, 0, 65, &results);
    size_t ties = 0;
    for (size_t i = 0; i < 2 * 65; ++i) {
      const std::vector<Value> distances = Reference(made, i % 65, i / 65).Distances();
      size_t lowest = 0;
      for (size_t k = 1; k < codes; ++k) lowest = distances[k].exact > distances[lowest].exact ? k : lowest;
      double second = -std::numeric_limits<double>::infinity();
      for (size_t k = 0; k < codes; ++k)
        second = k == lowest ? second : std::fmax(second, distances[k].exact);
      CHECK(results.codes[i] == static_cast<int32_t>(lowest));
      CHECK(static_cast<double>(results.leads[i]) == distances[lowest].exact - second);
      if (results.leads[i] == 0) ++ties;
    }
    CHECK(ties > 10);
  }
}

// A vector without direction, and one that is too short for a direction, have features of 0 and no gradient.
void TestZeroVectors() {
  for (const float length : {0.0F, 1e-13F}) {
    const Case made({37, 2, 3, 6, 4, EE_COSINE});
    for (size_t i = 0; i < made.query.size(); i += 3) {
      if (i % 4 == 0) made.query[i] = length, made.query[i + 1] = made.query[i + 2] = 0;
    }
    Results results(made.shape);
    Run(made, 0, 37, &results);
    CheckAgainstReference(made, results);
    CHECK(results.of_query[0] == 0 && results.of_query_by_products[1] == 0);
  }
}

// NaN or overflow in a query: its codes are valid codes, and other queries are unaffected.
void TestNotFinite() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const ee_metric metric : kMetrics) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, 3e38F, -1e20F}) {
      const Case made({70, 3, 2, 17, 3, metric});
      Results sound(made.shape), results(made.shape);
      Run(made, 0, 70, &sound);
      for (size_t i = 0; i < 6; ++i) made.query[20 * 6 + i] = bad;
      for (size_t i = 0; i < 9; ++i) made.gradient[20 * 9 + i] = bad;
      Run(made, 0, 70, &results);
      CheckSame(made.shape, results, sound, 0, 20);
      CheckSame(made.shape, results, sound, 21, 70);
      for (size_t i = 0; i < results.codes.size(); ++i) CHECK(results.codes[i] >= 0 && results.codes[i] < 17);
    }
  }
}

void TestWeightsThatAreNotFinite() {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    const Case made({20, 1, 2, 5, 1, EE_DOT});
    for (size_t i = 0; i < made.weights.size(); ++i) made.weights[i] = bad;
    Results results(made.shape);
    Run(made, 0, 20, &results);
    for (size_t i = 0; i < results.codes.size(); ++i) CHECK(results.codes[i] >= 0 && results.codes[i] < 5);
  }
}

// Distances of thousands: the softmax selects one code, and no number overflows.
void TestLargeDistances() {
  for (const ee_metric metric : kMetrics) {
    const Case made({40, 2, 3, 9, 4, metric});
    for (size_t i = 0; i < made.weights.size(); ++i) made.weights[i] *= 3000;
    Results results(made.shape);
    Run(made, 0, 40, &results);
    CheckAgainstReference(made, results);
  }
}

// The requested instruction set if it is supported, else the best one.
void TestInstructionSet() {
  const char* forced = std::getenv("EDGE_EMBED_FORCE_ISA");
  const char* wanted = nullptr;
  for (size_t i = kNumKernels; i-- > 0;) {
    if (kKernels[i]->runs_here()) wanted = kKernels[i]->name;
  }
  for (size_t i = 0; i < kNumKernels; ++i) {
    const bool is_forced = forced != nullptr && std::strcmp(kKernels[i]->name, forced) == 0;
    if (is_forced && kKernels[i]->runs_here()) wanted = forced;
  }
  std::printf("%s: tested\n", ee_training_isa());
  CHECK(std::strcmp(ee_training_isa(), wanted) == 0);
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  TestInstructionSet();
  TestNumbersOfCodes();
  TestWidths();
  TestNumbersOfGroups();
  TestNumbersOfQueries();
  TestBlocks();
  TestTies();
  TestZeroVectors();
  TestNotFinite();
  TestWeightsThatAreNotFinite();
  TestLargeDistances();
  return 0;
}
