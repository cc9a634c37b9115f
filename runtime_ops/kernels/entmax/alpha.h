// Shapes of alpha beside scores [*, n]: alpha broadcasts to [*, 1], as tensors do in ONNX and torch.
#ifndef EDGE_EMBED_KERNELS_ENTMAX_ALPHA_H_
#define EDGE_EMBED_KERNELS_ENTMAX_ALPHA_H_

#include <stddef.h>
#include <stdint.h>

namespace edge_embed::entmax {

struct Shape {
  const int64_t* dims;
  size_t rank;
};

// Whether a shape broadcasts to that of the rows of scores, whose rank is at least 1.
bool IsOfRows(const Shape& alpha, const Shape& scores);

// Writes the alpha of each row, for shapes that IsOfRows accepts and `rows` rows. `from` may have any
// alignment.
void AlphaOfRows(const void* from, const Shape& alpha, const Shape& scores, size_t rows, float* to);

}  // namespace edge_embed::entmax

#endif  // EDGE_EMBED_KERNELS_ENTMAX_ALPHA_H_
