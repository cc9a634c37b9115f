#include "kernels/dpq/bound.h"

#include "kernels/half.h"

namespace edge_embed::dpq {
namespace {

struct Span {
  double least, most;
};

Span SpanOf(const float* products) {
  Span span{static_cast<double>(products[0]), static_cast<double>(products[0])};
  for (size_t k = 1; k < kCodesOfGroup; ++k) {
    const double product = static_cast<double>(products[k]);
    if (product < span.least) span.least = product;
    if (product > span.most) span.most = product;
  }
  return span;
}

size_t ByteAt(size_t group, ByteOrder order) {
  if (order == ByteOrder::kGroups) return group * kCodesOfGroup;
  const size_t in_eight = group % 8;
  return (group - in_eight + in_eight % 2 * 4 + in_eight / 2) * kCodesOfGroup;
}

}  // namespace

Bound MakeBytes(const float* products, size_t groups, ByteOrder order, unsigned char* bytes) {
  double widest = 0, magnitudes = 0;
  bool finite = true;
  for (size_t j = 0; j < groups; ++j) {
    const Span span = SpanOf(products + j * kCodesOfGroup);
    const double width = span.most - span.least;
    const double magnitude = -span.least > span.most ? -span.least : span.most;
    finite &= width < 3e38 && magnitude < 3e38;  // false for NaN
    if (width > widest) widest = width;
    magnitudes += magnitude > 0 ? magnitude : 0;
  }
  if (!finite) return {0, FloatOfBits(0x7FC00000)};
  const float scale = widest > 0 ? static_cast<float>(widest / 255) : 1.0F;
  const double inverse = 1 / (scale > 0 ? static_cast<double>(scale) : 1.0);
  double rest = 0;
  for (size_t j = 0; j < groups; ++j) {
    const float* const of_group = products + j * kCodesOfGroup;
    unsigned char* const to = bytes + ByteAt(j, order);
    const double least = SpanOf(of_group).least;
    double error = 0;
    for (size_t k = 0; k < kCodesOfGroup; ++k) {
      const double above = static_cast<double>(of_group[k]) - least;
      const int nearest = static_cast<int>(above * inverse + 0.5);
      const int quantized = nearest < 255 ? nearest : 255;
      to[k] = static_cast<unsigned char>(quantized);
      const double left = above - static_cast<double>(scale) * quantized;
      if (left > error) error = left;
    }
    rest += least + error;
  }
  // The sum of products is rounded at most once for each product, and the bound a few times.
  constexpr double kUnit = 1.1920928955078125e-07,
                   kTiny = 1e-37;  // the runtime may flush smaller numbers to zero
  rest += (magnitudes * kUnit + kTiny) * static_cast<double>(groups + 8);
  return {scale, static_cast<float>(rest)};
}

}  // namespace edge_embed::dpq
