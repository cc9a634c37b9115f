// Rows from codes: for every group, a copy of the values of its code. The loops differ only in the size of a
// copy, so there is one for each size that is a power of two.
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_ROWS_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_ROWS_H_

#include "kernels/dpq/fast_codes.h"

namespace edge_embed::dpq {
namespace {

template <size_t kBytes>
struct CopyExactly {
  explicit CopyExactly(size_t) {}
  static constexpr size_t bytes = kBytes;
  __attribute__((always_inline)) void operator()(const unsigned char* from, unsigned char* to) const {
    CopyPiece<kBytes>(from, to);
  }
};

// Copies of other sizes; the functions describe them.
template <size_t kPiece>
struct CopyAsTwo {
  size_t bytes;
  __attribute__((always_inline)) void operator()(const unsigned char* from, unsigned char* to) const {
    CopyTwo<kPiece>(from, bytes, to);
  }
};

template <size_t kPiece>
struct CopyInPieces {
  size_t bytes;
  __attribute__((always_inline)) void operator()(const unsigned char* from, unsigned char* to) const {
    CopyMany<kPiece>(from, bytes, to);
  }
};

struct CopyAny {
  size_t bytes;
  void operator()(const unsigned char* from, unsigned char* to) const { CopyRest(from, bytes, to); }
};

// Groups of some rows, from the group `first` on, which is the first in the stage.
struct RowPart {
  const Stage& stage;
  size_t first, groups;
};

// Whether rows can be written in another order. Only tiered tables need that, which build on rows with
// scales.
#if defined(EDGE_EMBED_NO_DPQ_SCALED)
constexpr bool kHasPlaces = false;
#else
constexpr bool kHasPlaces = true;
#endif
inline size_t PlaceOf(const uint16_t* places, size_t i) { return kHasPlaces ? places[i] : i; }

// Writes row i at places[i] * out_step.
template <class Copy, bool kClamp>
void MakeRows(const Layout& layout, const RowPart& part, size_t count, unsigned char* out, size_t out_step,
              const uint16_t* places) {
  const CodeReader reader(layout);
  const Copy copy{layout.vector_bytes};
  const size_t codebook_step = layout.codebook_step;
  const size_t eights = part.groups / kCodesAtOnce, bytes = part.groups * copy.bytes;
  for (size_t i = 0; i < count; ++i) {
    const unsigned char* codes = part.stage.Row(i);
    const unsigned char* values = layout.values + part.first * codebook_step;
    unsigned char* to = out + PlaceOf(places, i) * out_step;
    const unsigned char* const end = to + bytes;
    const auto put = [&](size_t, size_t code) __attribute__((always_inline)) {
      copy(values + code * copy.bytes, to);
      values += codebook_step;
      to += copy.bytes;
    };
    for (size_t k = 0; k < eights; ++k, codes += reader.bits()) {
      PrefetchOutput(to, kCodesAtOnce * copy.bytes);
      reader.template Eight<kClamp>(codes, put);
    }
    size_t k = 0;
    while (to != end) put(k, reader.template One<kClamp>(codes, k)), ++k;
  }
}

using RowMaker = decltype(MakeRows<CopyExactly<4>, false>);

inline RowMaker* ChooseRowMaker(const Layout& layout) {
  const size_t bytes = layout.vector_bytes;
  if (!layout.must_clamp()) {
    switch (bytes) {
      case 4:
        return MakeRows<CopyExactly<4>, false>;
      case 8:
        return MakeRows<CopyExactly<8>, false>;
      case 16:
        return MakeRows<CopyExactly<16>, false>;
      case 32:
        return MakeRows<CopyExactly<32>, false>;
      default:
        break;
    }
  }
  // Less frequent tables share loops that clamp codes, which costs less for longer copies.
  if (bytes >= kVectorBytes) return MakeRows<CopyInPieces<kVectorBytes>, true>;
  if (bytes >= 16) return MakeRows<CopyInPieces<16>, true>;
  if (bytes >= 8) return MakeRows<CopyAsTwo<8>, true>;
  return MakeRows<CopyAny, true>;
}

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_ROWS_H_
