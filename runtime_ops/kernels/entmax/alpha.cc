#include "kernels/entmax/alpha.h"

#include "kernels/element.h"

namespace edge_embed::entmax {

bool IsOfRows(const Shape& alpha, const Shape& scores) {
  if (scores.rank == 0 || alpha.rank > scores.rank) return false;
  for (size_t back = 1; back <= alpha.rank; ++back) {  // from the last dimension, which is that of a row
    const int64_t size = alpha.dims[alpha.rank - back];
    if (size != 1 && (back == 1 || size != scores.dims[scores.rank - back])) return false;
  }
  return true;
}

void AlphaOfRows(const void* from, const Shape& alpha, const Shape& scores, size_t rows, float* to) {
  for (size_t row = 0; row < rows; ++row) {
    size_t left = row, index = 0, step = 1;
    for (size_t back = 2; back <= alpha.rank; ++back) {
      const auto size = static_cast<size_t>(scores.dims[scores.rank - back]);
      const auto own = static_cast<size_t>(alpha.dims[alpha.rank - back]);
      if (own != 1) index += left % size * step;
      step *= own;
      if (size != 0) left /= size;  // the one alpha of no rows
    }
    to[row] = Load<float>(from, index);
  }
}

}  // namespace edge_embed::entmax
