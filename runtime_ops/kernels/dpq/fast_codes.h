// Reading the packed codes of rows.
//
// Codes lie bit to bit, so that reading the last ones of a row by whole words would leave the table. Rows are
// therefore copied into a small padded buffer first, which also brings the cache misses of many rows
// together.
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_CODES_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_CODES_H_

#include "kernels/dpq/dpq.h"
#include "kernels/simd.h"

namespace edge_embed::dpq {
namespace {

// Eight codes are read at a time: `bits` bytes.
constexpr size_t kCodesAtOnce = 8;
// Bytes that reading eight codes may touch beyond the last byte of a row.
constexpr size_t kCodePadding = 16;

// A table as the loops below want it.
struct Layout {
  explicit Layout(const Table& table)
      : codes(table.codes),
        values(table.values),
        blocks(table.blocks),
        groups(static_cast<size_t>(table.num_groups)),
        bits(static_cast<size_t>(table.bits)),
        mask((uint64_t{1} << bits) - 1),
        last_code(static_cast<size_t>(table.num_codes) - 1),
        row_bytes(groups * bits / 8 + (groups * bits % 8 != 0)),
        width(static_cast<size_t>(table.group_width)),
        vector_bytes(width * SizeOf(table.value_type)),
        book_bytes(static_cast<size_t>(table.num_codes) * vector_bytes),
        book_step(table.shared ? 0 : book_bytes) {}

  // Whether a damaged table can hold codes that are none.
  bool must_clamp() const { return last_code != mask; }

  const unsigned char* codes;
  const unsigned char* values;
  const unsigned char* blocks;
  size_t groups, bits;
  uint64_t mask;
  size_t last_code;
  size_t row_bytes;
  size_t width, vector_bytes;    // of the values of one code
  size_t book_bytes, book_step;  // of the values of a group; from those of one group to those of the next
};

// Codes out of padded bytes. A copy of what it needs, for a loop to keep in registers: bytes that are written
// could be those of a Layout elsewhere.
class CodeReader {
 public:
  __attribute__((always_inline)) explicit CodeReader(const Layout& layout)
      : bits_(layout.bits), mask_(layout.mask), last_(layout.last_code) {}

  // Calls use(k, code) for the codes k = 0 .. 7 from `codes` on. They are in two words, four in each, because
  // four codes of 16 bits fill one. The second four begin in the middle of a byte where bits is odd.
  template <bool kClamp, class Use>
  __attribute__((always_inline)) void Eight(const unsigned char* codes, const Use& use) const {
    uint64_t first = Load<uint64_t>(codes, 0);
    uint64_t second = Load<uint64_t>(codes + bits_ / 2, 0) >> (bits_ % 2 * 4);
    for (size_t k = 0; k < 4; ++k, first >>= bits_) use(k, Clamp<kClamp>(first & mask_));
    for (size_t k = 4; k < 8; ++k, second >>= bits_) use(k, Clamp<kClamp>(second & mask_));
  }

  // Code k of these eight.
  template <bool kClamp>
  __attribute__((always_inline)) size_t One(const unsigned char* codes, size_t k) const {
    return Clamp<kClamp>(Load<uint64_t>(codes + k * bits_ / 8, 0) >> (k * bits_ % 8) & mask_);
  }

  size_t bits() const { return bits_; }

 private:
  template <bool kClamp>
  __attribute__((always_inline)) size_t Clamp(size_t code) const {
    return kClamp && code > last_ ? last_ : code;
  }

  size_t bits_;
  uint64_t mask_;
  size_t last_;
};

// Copies by pieces of a fixed size: a compiler's own copy of few bytes is a call.
template <size_t kPiece>
__attribute__((always_inline)) inline void CopyPiece(const unsigned char* from, unsigned char* to) {
  __builtin_memcpy(to, from, kPiece);
}
// Two pieces that may overlap: kPiece <= count <= 2 * kPiece.
template <size_t kPiece>
__attribute__((always_inline)) inline void CopyTwo(const unsigned char* from, size_t count,
                                                   unsigned char* to) {
  CopyPiece<kPiece>(from, to);
  CopyPiece<kPiece>(from + count - kPiece, to + count - kPiece);
}
// Pieces of which the last two may overlap: count >= kPiece.
template <size_t kPiece>
__attribute__((always_inline)) inline void CopyMany(const unsigned char* from, size_t count,
                                                    unsigned char* to) {
  for (size_t k = kPiece; k < count; k += kPiece) CopyPiece<kPiece>(from + k - kPiece, to + k - kPiece);
  CopyPiece<kPiece>(from + count - kPiece, to + count - kPiece);
}
__attribute__((always_inline)) inline void CopyBytes(const unsigned char* from, size_t count,
                                                     unsigned char* to) {
  if (count >= 16) return CopyMany<16>(from, count, to);
  if (count >= 8) return CopyTwo<8>(from, count, to);
  if (count >= 4) return CopyTwo<4>(from, count, to);
  if (count >= 2) return CopyTwo<2>(from, count, to);
  if (count == 1) *to = *from;
}
// The same, where a call is no matter.
__attribute__((noinline)) inline void CopyRest(const unsigned char* from, size_t count, unsigned char* to) {
  CopyBytes(from, count, to);
}

// So many rows are made together. Of a long row, a part at a time: as many groups as the buffer takes.
constexpr size_t kBlockRows = 32;
constexpr size_t kStagedBytes = 512;  // of one row

// The codes of some groups of up to kBlockRows rows.
class Stage {
 public:
  // Groups of a row that fit, a multiple of eight.
  static size_t GroupsAtOnce(const Layout& layout) {
    return (kStagedBytes - kCodePadding) / layout.bits * kCodesAtOnce;
  }

  // Those of the rows ids[0] .. ids[count-1], from the group `first` on, which is a multiple of eight.
  void Read(const Layout& layout, const size_t* ids, size_t count, size_t first, size_t groups) {
    const size_t bytes = groups * layout.bits / 8 + (groups * layout.bits % 8 != 0);
    const unsigned char* from = layout.codes + first / kCodesAtOnce * layout.bits;
    stride_ = (bytes + kCodePadding + 15) / 16 * 16;
    for (size_t i = 0; i < count; ++i) {
      unsigned char* to = bytes_ + i * stride_;
      CopyBytes(from + ids[i] * layout.row_bytes, bytes, to);
      __builtin_memset(to + bytes, 0, kCodePadding);
    }
  }

  const unsigned char* Row(size_t i) const { return bytes_ + i * stride_; }

 private:
  size_t stride_;
  alignas(64) unsigned char bytes_[kBlockRows * kStagedBytes];
};

// Fetches what Read will want, up to the bytes that fit at once. Always inlined: a function that does nothing
// else has no effect for GCC 12, which drops calls of it.
__attribute__((always_inline)) inline void PrefetchCodes(const Layout& layout, const size_t* ids,
                                                         size_t count) {
  const size_t bytes = layout.row_bytes < kStagedBytes ? layout.row_bytes : kStagedBytes;
  for (size_t i = 0; i < count; ++i) {
    const unsigned char* row = layout.codes + ids[i] * layout.row_bytes;
    for (size_t k = 0; k < bytes; k += 64) __builtin_prefetch(row + k);
    __builtin_prefetch(row + bytes - 1);
  }
}

// The ids begin .. end-1 up to the first that is no row; how many.
__attribute__((noinline)) inline size_t TakeIds(const Table& table, const Ids& ids, size_t begin, size_t end,
                                                size_t* taken) {
  for (size_t i = begin; i < end; ++i) {
    const int64_t id = ids.At(i);
    if (id < 0 || id >= table.num_embeddings) return i - begin;
    taken[i - begin] = static_cast<size_t>(id);
  }
  return end - begin;
}

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_CODES_H_
