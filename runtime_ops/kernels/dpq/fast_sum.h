// Sums in float32 with a small error: each of up to 64 terms is rounded at most seven times.
//
// Eight terms are added as a tree (three additions). The trees are added to two sums in turns (64 terms:
// three additions of four trees; the first addition is exact), and the two sums at the end (one addition).
// Independent additions also keep the processor busy.
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_SUM_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_SUM_H_

#include "kernels/simd.h"

namespace edge_embed::dpq {
namespace {

// term(first) + ... + term(first + kTerms - 1); kTerms is a power of two.
template <class Vector, size_t kTerms, class Term>
__attribute__((always_inline)) inline Vector Tree(const Term& term, size_t first) {
  if constexpr (kTerms == 1) {
    return term(first);
  } else {
    return Tree<Vector, kTerms / 2>(term, first) + Tree<Vector, kTerms / 2>(term, first + kTerms / 2);
  }
}

// The last one to seven of `count` terms.
template <class Vector, class Term>
__attribute__((always_inline)) inline Vector Rest(size_t count, const Term& term) {
  Vector few{};
  if ((count & 1) != 0) few = term(count - 1);
  if ((count & 2) != 0) few += Tree<Vector, 2>(term, count / 4 * 4);
  if ((count & 4) != 0) few += Tree<Vector, 4>(term, count / 8 * 8);
  return few;
}

// term(0) + ... + term(count - 1); Vector is float or a vector of it.
template <class Vector, class Term>
__attribute__((always_inline)) inline Vector AddUp(size_t count, const Term& term) {
  Vector even{}, odd = Rest<Vector>(count, term);
  for (size_t k = 0; k + 8 <= count; k += 8) {
    const Vector next = even + Tree<Vector, 8>(term, k);
    even = odd;
    odd = next;
  }
  return even + odd;
}

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_SUM_H_
