// Fuzz target: shapes of alpha and of scores, and rows of any bits. For any input, the kernels of sparse
// activations must return, stay inside their arrays, and give rows that are NaN or sum to 1.
#include <cmath>

#include "kernels/entmax/alpha.h"
#include "kernels/entmax/kernels.h"
#include "tests/fuzz_input.h"

namespace {

using namespace edge_embed;
using namespace edge_embed::testing;

constexpr size_t kMostRank = 4;

// Probabilities of a row are all NaN, or from 0 to 1 with the sum 1.
void CheckRow(const float* p, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    CHECK((p[i] != p[i]) == (p[0] != p[0]));
    CHECK(p[i] != p[i] || (p[i] >= 0 && p[i] <= 1.0001F));
    sum += double{p[i]};
  }
  CHECK(n == 0 || p[0] != p[0] || std::fabs(sum - 1) < 1e-3);
}

void CheckTopK(const ee_score_rows& of, size_t rows, size_t k, float* out) {
  entmax::ChosenKernels().topk(&of, k, 0, rows, out);
  for (size_t row = 0; row < rows; ++row) {
    const float* p = out + row * of.n;
    CheckRow(p, of.n);
    size_t used = 0;
    for (size_t i = 0; i < of.n; ++i) used += p[i] > 0;
    CHECK(used <= k);
  }
}

float TakeScore(Reader& in) {
  const auto kind = in.Take<uint8_t>();
  if (kind < 128) return static_cast<float>(kind % 16) / 8;  // many equal scores
  return kind < 224 ? static_cast<float>(in.Take<int8_t>()) / 32 : in.Take<float>();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader in(data, size);
  int64_t dims[kMostRank], alpha_dims[kMostRank];
  const entmax::Shape shape{dims, in.Take<uint8_t>() % (kMostRank + 1)};
  const entmax::Shape of_alpha{alpha_dims, in.Take<uint8_t>() % (kMostRank + 1)};
  size_t rows = 1, alphas = 1;
  for (size_t i = 0; i < shape.rank; ++i) {
    dims[i] = in.Take<uint8_t>() % (i + 1 == shape.rank ? 40 : 4);
    if (i + 1 < shape.rank) rows *= static_cast<size_t>(dims[i]);
  }
  for (size_t back = 1; back <= of_alpha.rank; ++back) {  // mostly sizes that broadcast
    const auto kind = in.Take<uint8_t>();
    const bool fits = back > 1 && back <= shape.rank && kind < 128;
    alpha_dims[of_alpha.rank - back] = fits ? dims[shape.rank - back] : kind < 230 ? 1 : Number(in, 4);
  }
  if (!entmax::IsOfRows(of_alpha, shape)) return 0;
  for (size_t i = 0; i < of_alpha.rank; ++i) alphas *= static_cast<size_t>(alpha_dims[i]);

  const auto n = static_cast<size_t>(dims[shape.rank - 1]);
  const Block given(alphas * sizeof(float)), each(rows * sizeof(float)), scores(rows * n * sizeof(float)),
      out(rows * n * sizeof(float));
  auto* numbers = reinterpret_cast<float*>(scores.data.get());
  auto* from = reinterpret_cast<float*>(given.data.get());
  for (size_t i = 0; i < alphas; ++i) {
    const auto kind = in.Take<uint8_t>();
    from[i] = kind < 230 ? 1 + static_cast<float>(kind % 31) / 10 : in.Take<float>();
  }
  for (size_t i = 0; i < rows * n; ++i) numbers[i] = TakeScore(in);
  auto* alpha = reinterpret_cast<float*>(each.data.get());
  auto* p = reinterpret_cast<float*>(out.data.get());
  entmax::AlphaOfRows(from, of_alpha, shape, rows, alpha);

  const ee_score_rows of{numbers, alpha, n, 1};
  entmax::ChosenKernels().forward(&of, 0, rows, p);
  for (size_t row = 0; row < rows; ++row) CheckRow(p + row * n, n);
  if (n > 0) CheckTopK(of, rows, 1 + in.Take<uint8_t>() % n, p);
  return 0;
}
