// Reading the packed codes of rows.
//
// Codes are packed bit by bit. Reading the last codes of a row by whole words would therefore leave the
// table. Rows are first copied into a small padded buffer, which also overlaps the cache misses of many rows.
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_CODES_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_CODES_H_

#include "kernels/dpq/dpq.h"
#include "kernels/simd.h"

namespace edge_embed::dpq {
namespace {

// Eight codes are read at a time, from `bits` bytes.
constexpr size_t kCodesAtOnce = 8;
// Bytes that a read of eight codes may touch beyond the last byte of a row.
constexpr size_t kCodePadding = 16;

// The sizes of a table in the form that the loops need.
struct Layout {
  explicit Layout(const Table& table)
      : codes(table.codes),
        values(table.values),
        blocks(table.blocks),
        rows(static_cast<size_t>(table.num_embeddings)),
        groups(static_cast<size_t>(table.num_groups)),
        bits(static_cast<size_t>(table.bits)),
        mask((uint64_t{1} << bits) - 1),
        last_code(static_cast<size_t>(table.num_codes) - 1),
        row_bytes(groups * bits / 8 + (groups * bits % 8 != 0)),
        width(static_cast<size_t>(table.group_width)),
        vector_bytes(width * SizeOf(table.value_type)),
        codebook_bytes(static_cast<size_t>(table.num_codes) * vector_bytes),
        codebook_step(table.shared ? 0 : codebook_bytes) {}

  // True if a damaged table can have codes above num_codes-1.
  bool must_clamp() const { return last_code != mask; }

  const unsigned char* codes;
  const unsigned char* values;
  const unsigned char* blocks;
  size_t rows, groups, bits;
  uint64_t mask;
  size_t last_code;
  size_t row_bytes;
  size_t width, vector_bytes;            // bytes of the values of one code
  size_t codebook_bytes, codebook_step;  // bytes of the values of a group; step from one group to the next
};

// Reads codes from padded bytes. It copies the fields of a Layout, so that a loop keeps them in registers: a
// store of a byte could change a Layout in memory.
class CodeReader {
 public:
  static constexpr bool kFixed = false;  // whether the compiler knows the number of bits

  __attribute__((always_inline)) explicit CodeReader(const Layout& layout)
      : bits_(layout.bits), mask_(layout.mask), last_(layout.last_code) {}

  // Calls use(k, code) for the codes k = 0 .. 7 at `codes`. They are read as two words of four codes, because
  // four codes of 16 bits fill a word. If bits is odd, the second four begin in the middle of a byte.
  template <bool kClamp, class Use>
  __attribute__((always_inline)) void Eight(const unsigned char* codes, const Use& use) const {
    uint64_t first = Load<uint64_t>(codes, 0);
    uint64_t second = Load<uint64_t>(codes + bits_ / 2, 0) >> (bits_ % 2 * 4);
    EDGE_EMBED_UNROLL
    for (size_t k = 0; k < 4; ++k, first >>= bits_) use(k, Clamp<kClamp>(first & mask_));
    EDGE_EMBED_UNROLL
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

// Copies in pieces of a fixed size: a compiler's copy of few bytes of unknown number is a function call.
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
// The same as a function call, where speed does not matter.
__attribute__((noinline)) inline void CopyRest(const unsigned char* from, size_t count, unsigned char* to) {
  CopyBytes(from, count, to);
}

// Number of rows that are computed together. A long row is computed in parts, as many groups as the buffer
// holds.
constexpr size_t kBlockRows = 32;
constexpr size_t kStagedBytes = 512;  // bytes of one row

// The codes of some groups of up to kBlockRows rows.
class Stage {
 public:
  // Number of groups of a row that fit, a multiple of eight.
  static size_t GroupsAtOnce(const Layout& layout) {
    return (kStagedBytes - kCodePadding) / layout.bits * kCodesAtOnce;
  }

  // Copies the codes of the rows ids[0] .. ids[count-1], from the group `first` on, which is a multiple of
  // eight.
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

// Prefetches the bytes of the next Read, up to the size of its buffer. Always inlined: GCC 12 drops calls of
// a function that does nothing else.
__attribute__((always_inline)) inline void PrefetchCodes(const Layout& layout, const size_t* ids,
                                                         size_t count) {
  const size_t bytes = layout.row_bytes < kStagedBytes ? layout.row_bytes : kStagedBytes;
  for (size_t i = 0; i < count; ++i) {
    const unsigned char* row = layout.codes + ids[i] * layout.row_bytes;
    for (size_t k = 0; k < bytes; k += 64) __builtin_prefetch(row + k);
    __builtin_prefetch(row + bytes - 1);
  }
}

// Copies the ids begin .. end-1 up to the first invalid one, and returns their number.
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
