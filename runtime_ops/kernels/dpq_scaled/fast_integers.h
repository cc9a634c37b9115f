// Rows of integers: one column a group, and the values of all groups are consecutive integers.
//
//   row[k] = scale * (code_k + first)          code_k: bits [k*b, (k+1)*b) of the row,   first = values[0]
//
// Codes become numbers without a lookup: bytes are moved to the lane of their column, shifted and converted.
// The integers are exact in float32, so the product is rounded once, as for values from a table.
#ifndef EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_INTEGERS_H_
#define EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_INTEGERS_H_

#include "kernels/dpq/fast_values.h"
#include "kernels/dpq_scaled/dpq_scaled.h"

namespace edge_embed::dpq_scaled {
namespace {

using dpq::Layout;

// Columns that are decoded together: their codes begin and end with a byte.
constexpr size_t kStep = kLanes < 8 ? 8 : kLanes;
constexpr size_t kVectors = kStep / kLanes;
// Bytes that a read of kStep columns may touch beyond the end of a row, whose columns are rounded up to
// kRoundedColumns.
constexpr size_t kRoundedColumns = 32;
constexpr size_t kPaddedBytes = 64;
// Tables have up to 256 values.
constexpr size_t kMostBits = 8;
constexpr size_t kMostValues = size_t{1} << kMostBits;

inline size_t RoundedUp(size_t columns) {
  return (columns + kRoundedColumns - 1) / kRoundedColumns * kRoundedColumns;
}

// True if values[k] = first + k for all k, bit by bit.
__attribute__((noinline)) inline bool AreConsecutive(const Table& table, const Layout& layout,
                                                     int32_t* first) {
  alignas(kVectorBytes) unsigned char widened[kMostValues * sizeof(float)];
  const unsigned char* values = dpq::FloatCodebook(table.plain(), layout, 0, widened);
  constexpr float kMost = 1 << 20;
  const float least = Load<float>(values, 0);
  if (!(least >= -kMost && least <= kMost)) return false;
  *first = static_cast<int32_t>(least);
  uint32_t differ = 0;
  for (size_t k = 0; k <= layout.last_code; ++k) {
    const float expected = static_cast<float>(*first + static_cast<int32_t>(k));
    differ |= BitsOfFloat(expected) ^ Load<uint32_t>(values, k);
  }
  return differ == 0;
}

// Converts codes to numbers. It copies all it needs, so that a loop keeps it in registers.
class Decoder {
 public:
  Decoder(const Table& table, const Layout& layout) {
    int32_t first = 0;
    fits_ = layout.width == 1 && table.shared && layout.bits <= kMostBits && !layout.must_clamp() &&
            AreConsecutive(table, layout, &first);
    if (!fits_) return;
    bits_ = layout.bits;
    step_bytes_ = kStep * bits_ / 8;
    mask_ = static_cast<uint32_t>(layout.mask) - Words{};
    first_ = first - Integers{};
    for (size_t k = 0; k < kStep; ++k) {
      const size_t byte = k * bits_ / 8, at = k % kLanes * 4;
      shifts_[k / kLanes][k % kLanes] = static_cast<uint32_t>(k * bits_ % 8);
      // The other two bytes of a lane may be any: the mask removes them.
      for (size_t i = 0; i < 4; ++i)
        index_[k / kLanes][at + i] = static_cast<uint8_t>((byte + i % 2) % kReadBytes);
    }
  }

  // True if the table has such rows.
  bool fits() const { return fits_; }
  size_t step_bytes() const { return step_bytes_; }

  // The numbers of kStep columns, without a scale.
  __attribute__((always_inline)) void Decode(const unsigned char* codes, Floats (&numbers)[kVectors]) const {
#if defined(__AVX512VBMI__)
    const __m512i bytes = _mm512_zextsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(codes)));
    const Words moved = (Words)_mm512_maskz_permutexvar_epi8(~uint64_t{0}, (__m512i)index_[0], bytes);
    numbers[0] = ToFloats(moved >> shifts_[0] & mask_);
#elif defined(__AVX2__)
    const __m256i bytes = _mm256_set1_epi64x(Load<int64_t>(codes, 0));
    numbers[0] = ToFloats((Words)_mm256_shuffle_epi8(bytes, (__m256i)index_[0]) >> shifts_[0] & mask_);
#elif defined(__aarch64__)
    const uint8x16_t bytes = vcombine_u8(vld1_u8(codes), vdup_n_u8(0));
    for (size_t v = 0; v < kVectors; ++v) {
      numbers[v] = ToFloats((Words)vqtbl1q_u8(bytes, (uint8x16_t)index_[v]) >> shifts_[v] & mask_);
    }
#else
    const uint64_t word = Load<uint64_t>(codes, 0);
    for (size_t v = 0; v < kVectors; ++v) {
      Words some;
      for (size_t k = 0; k < kLanes; ++k) some[k] = static_cast<uint32_t>(word >> ((v * kLanes + k) * bits_));
      numbers[v] = ToFloats(some & mask_);
    }
#endif
  }

 private:
  static constexpr size_t kReadBytes = kStep * kMostBits / 8;
  typedef uint8_t Places __attribute__((vector_size(kVectorBytes)));

  __attribute__((always_inline)) Floats ToFloats(Words codes) const {
    return __builtin_convertvector((Integers)codes + first_, Floats);
  }

  bool fits_;
  size_t bits_ = 0, step_bytes_ = 0;
  Words mask_, shifts_[kVectors];
  Integers first_;
  Places index_[kVectors];
};

// The codes of rows. After each row, kPaddedBytes can be read: the last rows of the table are copied.
class CodeRows {
 public:
  CodeRows(const Layout& layout, size_t rows, unsigned char* memory)
      : codes_(layout.codes), row_bytes_(layout.row_bytes) {
    const size_t last = kPaddedBytes / row_bytes_ + 1;
    first_copied_ = rows > last ? rows - last : 0;
    const size_t bytes = (rows - first_copied_) * row_bytes_;
    dpq::CopyRest(codes_ + first_copied_ * row_bytes_, bytes, memory);
    __builtin_memset(memory + bytes, 0, kPaddedBytes);
    copied_ = memory;
  }

  static Size MemoryDoubles(const Table& table) {
    return Size(static_cast<uint64_t>(table.num_groups)) + 2 * kPaddedBytes;  // bytes of a row, bits <= 64
  }

  __attribute__((always_inline)) const unsigned char* At(size_t id) const {
    return id < first_copied_ ? codes_ + id * row_bytes_ : copied_ + (id - first_copied_) * row_bytes_;
  }

 private:
  const unsigned char* codes_;
  const unsigned char* copied_;
  size_t row_bytes_, first_copied_;
};

// Writes `count` columns of a row.
__attribute__((always_inline)) inline void WriteIntegers(const Decoder& decoder, const unsigned char* codes,
                                                         float scale, size_t count, unsigned char* out) {
  const Floats factor = Broadcast(scale);
  const size_t step_bytes = decoder.step_bytes();
  Floats numbers[kVectors];
  size_t k = 0;
  for (; k + kStep <= count; k += kStep, codes += step_bytes, out += kStep * sizeof(float)) {
    PrefetchAt<true>(out, 2048);
    decoder.Decode(codes, numbers);
    for (size_t v = 0; v < kVectors; ++v) StoreFloats(numbers[v] * factor, out + v * kVectorBytes);
  }
  if (k == count) return;
  unsigned char last[kStep * sizeof(float)];
  decoder.Decode(codes, numbers);
  for (size_t v = 0; v < kVectors; ++v) StoreFloats(numbers[v] * factor, last + v * kVectorBytes);
  dpq::CopyRest(last, (count - k) * sizeof(float), out);
}

}  // namespace
}  // namespace edge_embed::dpq_scaled

#endif  // EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_INTEGERS_H_
