// Sums of bytes, for one byte of as many rows as a register has bytes: an instruction looks up a nibble of
// each row in a table of sixteen bytes.
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_COLUMNS_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_COLUMNS_H_

#include "kernels/bytes.h"
#include "kernels/dpq/fast_bound.h"

namespace edge_embed::dpq {
namespace {

#if (defined(__AVX2__) && !defined(__AVX512VBMI__)) || defined(__aarch64__)

constexpr size_t kScannedRows = kColumnRows;
constexpr size_t kScannedStates = 4;
constexpr uint64_t kMostGroups = 256;  // sixteen bits hold the sum of so many bytes

// 16-bit sums: `all` adds two rows each, the second one times 256; `odd` has the second one.
struct Sums {
  Shorts all{}, odd{};

  Shorts even() const { return all - (odd << 8); }

  void Uppers(const Bound& bound, float* uppers) const {
    const Shorts first = even();
    for (size_t i = 0; i < kScannedRows; i += 2) {
      uppers[i] = static_cast<float>(first[i / 2]) * bound.scale + bound.rest;
      uppers[i + 1] = static_cast<float>(odd[i / 2]) * bound.scale + bound.rest;
    }
  }
};

// True if a bound exceeds a threshold, which may be NaN. The comparison uses integers, rounded down, so that
// more rows pass at most.
class Filter {
 public:
  Filter() = default;
  Filter(const Bound& bound, float threshold) {
    const double most =
        (static_cast<double>(threshold) - static_cast<double>(bound.rest)) / static_cast<double>(bound.scale);
    all_pass_ = !(most >= 1);  // also true for NaN
    if (all_pass_) return;
    const uint16_t whole = static_cast<uint16_t>(most < 65535 ? most - 1e-3 : 65535);
    most_ = whole - Shorts{};
  }

  bool Passes(const Sums& sums) const {
    return all_pass_ || Any((Shorts)(sums.even() > most_) | (Shorts)(sums.odd > most_));
  }

 private:
  bool all_pass_;
  Shorts most_;
};

template <size_t kCount>
__attribute__((always_inline)) inline void AddColumn(Bytes codes, const unsigned char* bytes, size_t of_state,
                                                     Sums (&sums)[kCount]) {
  for (size_t s = 0; s < kCount; ++s) {
    const Shorts found = (Shorts)LookUpBytes(bytes + s * of_state, codes);
    sums[s].all += found;
    sums[s].odd += found >> 8;
  }
}

// Copies rows and fills missing rows and bytes with zeros.
__attribute__((noinline)) void PadColumns(const unsigned char* from, size_t step, size_t rows, size_t bytes,
                                          unsigned char (&padded)[kScannedRows * kColumns]) {
  __builtin_memset(padded, 0, sizeof(padded));
  for (size_t i = 0; i < rows; ++i) CopyRest(from + i * step, bytes, padded + i * kColumns);
}

// Adds the bytes of `rows` rows, for states whose bytes are `of_state` apart.
template <size_t kCount>
__attribute__((always_inline)) inline void AddBytes(const Layout& layout, size_t first, size_t rows,
                                                    const unsigned char* bytes, size_t of_state,
                                                    Sums (&sums)[kCount]) {
  const unsigned char* const codes = layout.codes + first * layout.row_bytes;
  PrefetchAhead(codes, kScannedRows * layout.row_bytes);
  for (size_t at = 0; at < layout.row_bytes; at += kColumns) {
    const size_t left = layout.row_bytes - at, count = left < kColumns ? left : kColumns;
    const bool whole = rows == kScannedRows && count == kColumns;
    unsigned char padded[kScannedRows * kColumns];
    if (!whole) PadColumns(codes + at, layout.row_bytes, rows, count, padded);
    Bytes columns[kColumns];
    TurnBytes(whole ? codes + at : padded, whole ? layout.row_bytes : kColumns, columns);
    for (size_t b = 0; b < count; ++b, bytes += 2 * kCodesOfGroup) {
      AddColumn<kCount>(columns[b] & 15, bytes, of_state, sums);
      AddColumn<kCount>(columns[b] >> 4, bytes + kCodesOfGroup, of_state, sums);
    }
  }
}

#endif

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_COLUMNS_H_
