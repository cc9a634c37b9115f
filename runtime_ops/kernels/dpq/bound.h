// Bytes whose sums are upper bounds of the logits of a state, for tables with four-bit codes:
//
//   logits[i] <= upper[i] = scale * sum over j of q[j][code_j(i)] + rest
//   q[j][k] = round((product[j][k] - least[j]) / scale),    scale = max over j, k of (product - least) / 255
//   rest    = sum over j of least[j] + max over k of (product[j][k] - least[j] - scale * q[j][k])
#ifndef EDGE_EMBED_KERNELS_DPQ_BOUND_H_
#define EDGE_EMBED_KERNELS_DPQ_BOUND_H_

#include <stddef.h>

namespace edge_embed::dpq {

constexpr size_t kCodesOfGroup = 16;

struct Bound {
  float scale, rest;
};

// The order of the bytes, which follows that of the codes: one group after another, or, of eight groups, the
// low nibbles of four bytes before the high ones.
enum class ByteOrder { kGroups, kNibbles };

// Writes the bytes of a state from its products [groups, 16], and returns its bound. If a product is not
// finite, the bound is NaN, and every row passes it.
Bound MakeBytes(const float* products, size_t groups, ByteOrder order, unsigned char* bytes);

}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_BOUND_H_
