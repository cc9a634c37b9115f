// Rows of small numbers: one column a group, and values that all groups share.
//
//   row[k] = scale * values[code_k]          code_k: bits [k*b, (k+1)*b) of the row
//
// If the values are consecutive integers, codes become numbers without a lookup: bytes are moved to the lane
// of their column, shifted and converted. The integers are exact in float32, so the product is rounded once.
// With AVX-512, up to sixteen values of any kind are in a register, and one instruction looks them up.
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

#if defined(__AVX512VBMI__)
constexpr size_t kMostTableBits = 4;
#else
constexpr size_t kMostTableBits = 0;
#endif

// Codes from this value on are signed bytes with another sign bit.
constexpr int32_t kLeastByte = -128;

// How codes become numbers.
enum class Way { kNone, kTable, kBytes, kShifts };

// True if values[k] = first + k for all k, bit by bit.
__attribute__((noinline)) inline bool AreConsecutive(const float* values, size_t count, int32_t* first) {
  constexpr float kMost = 1 << 20;
  if (!(values[0] >= -kMost && values[0] <= kMost)) return false;
  *first = static_cast<int32_t>(values[0]);
  uint32_t differ = 0;
  for (size_t k = 0; k < count; ++k) {
    const float expected = static_cast<float>(*first + static_cast<int32_t>(k));
    differ |= BitsOfFloat(expected) ^ BitsOfFloat(values[k]);
  }
  return differ == 0;
}

// The constants of a table for decoding.
class Decoder {
 public:
  __attribute__((noinline, cold)) Decoder(const Table& table, const Layout& layout) {
    if (layout.width != 1 || !table.shared || layout.bits > kMostBits || layout.must_clamp()) return;
    alignas(kVectorBytes) float values[kMostValues];
    auto* const widened = reinterpret_cast<unsigned char*>(values);
    const size_t count = layout.last_code + 1;
    const unsigned char* const from = dpq::FloatCodebook(table.plain(), layout, 0, widened);
    if (from != widened) __builtin_memcpy(widened, from, count * sizeof(float));
    bits_ = layout.bits;
    if (bits_ <= kMostTableBits) {
      way_ = Way::kTable;
      SetTable(values, count);
    } else if (AreConsecutive(values, count, &first_)) {
      way_ = bits_ == 8 && first_ == kLeastByte && kVectors == 1 ? Way::kBytes : Way::kShifts;
      SetShifts();
    }
  }

  // True if the table has such rows.
  bool fits() const { return way_ != Way::kNone; }
  Way way() const { return way_; }
  size_t step_bytes() const { return kStep * bits_ / 8; }

 private:
  template <Way kWay>
  friend class Numbers;
  typedef uint8_t Places __attribute__((vector_size(kVectorBytes)));
  static constexpr size_t kReadBytes = kStep * kMostBits / 8;

  void SetTable(const float* values, size_t count) {
    for (size_t k = 0; k < kLanes; ++k) {
      table_[k] = values[k % count];  // higher bits of an index belong to the next code
      places_[0][4 * k] = static_cast<uint8_t>(k * bits_);
    }
  }

  void SetShifts() {
    mask_ = (uint32_t{1} << bits_) - 1;
    for (size_t k = 0; k < kStep; ++k) {
      const size_t byte = k * bits_ / 8, at = k % kLanes * 4;
      shifts_[k / kLanes][k % kLanes] = static_cast<uint32_t>(k * bits_ % 8);
      // The other two bytes of a lane may be any: the mask removes them.
      for (size_t i = 0; i < 4; ++i)
        places_[k / kLanes][at + i] = static_cast<uint8_t>((byte + i % 2) % kReadBytes);
    }
  }

  Way way_ = Way::kNone;
  size_t bits_ = 0;
  int32_t first_ = 0;
  uint32_t mask_ = 0;
  Floats table_{};
  Words shifts_[kVectors] = {};
  Places places_[kVectors] = {};
};

// Decodes the numbers of kStep columns, without a scale. It copies its constants, so that a loop keeps them
// in registers: a store could change the decoder.
template <Way kWay>
class Numbers {
 public:
  __attribute__((always_inline)) explicit Numbers(const Decoder& decoder)
      : bits_(decoder.bits_),
        first_(decoder.first_ - Integers{}),
        mask_(decoder.mask_ - Words{}),
        table_(decoder.table_) {
    for (size_t v = 0; v < kVectors; ++v) shifts_[v] = decoder.shifts_[v], places_[v] = decoder.places_[v];
  }

  __attribute__((always_inline)) size_t step_bytes() const { return kStep * bits_ / 8; }

  __attribute__((always_inline)) void Decode(const unsigned char* codes, Floats (&numbers)[kVectors]) const {
    if constexpr (kWay == Way::kTable) {
      numbers[0] = LookUp(codes);
    } else if constexpr (kWay == Way::kBytes) {
      numbers[0] = Bytes(codes);
    } else {
      Shift(codes, numbers);
    }
  }

 private:
  __attribute__((always_inline)) Floats ToFloats(Words codes) const {
    return __builtin_convertvector((Integers)codes + first_, Floats);
  }

  __attribute__((always_inline)) Floats LookUp(const unsigned char* codes) const {
#if defined(__AVX512VBMI__)
    const __m512i word = _mm512_set1_epi64(Load<int64_t>(codes, 0));
    const __m512i index = _mm512_maskz_multishift_epi64_epi8(~uint64_t{0}, (__m512i)places_[0], word);
    return (Floats)_mm512_maskz_permutexvar_ps(0xFFFF, index, (__m512)table_);
#else
    return Load<uint8_t>(codes, 0) - Floats{};  // never called
#endif
  }

  __attribute__((always_inline)) static Floats Bytes(const unsigned char* codes) {
#if defined(__AVX512F__)
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i_u*>(codes)) ^ kSigns;
    return __builtin_convertvector((Integers)_mm512_maskz_cvtepi8_epi32(0xFFFF, bytes), Floats);
#elif defined(__AVX2__)
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i_u*>(codes)) ^ kSigns;
    return __builtin_convertvector((Integers)_mm256_cvtepi8_epi32(bytes), Floats);
#else
    return Load<uint8_t>(codes, 0) - Floats{};  // never called
#endif
  }

  __attribute__((always_inline)) void Shift(const unsigned char* codes, Floats (&numbers)[kVectors]) const {
#if defined(__AVX512VBMI__)
    const __m512i bytes = _mm512_zextsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(codes)));
    const Words moved = (Words)_mm512_maskz_permutexvar_epi8(~uint64_t{0}, (__m512i)places_[0], bytes);
    numbers[0] = ToFloats(moved >> shifts_[0] & mask_);
#elif defined(__AVX2__)
    const __m256i bytes = _mm256_set1_epi64x(Load<int64_t>(codes, 0));
    numbers[0] = ToFloats((Words)_mm256_shuffle_epi8(bytes, (__m256i)places_[0]) >> shifts_[0] & mask_);
#elif defined(__aarch64__)
    const uint8x16_t bytes = vcombine_u8(vld1_u8(codes), vdup_n_u8(0));
    for (size_t v = 0; v < kVectors; ++v) {
      numbers[v] = ToFloats((Words)vqtbl1q_u8(bytes, (uint8x16_t)places_[v]) >> shifts_[v] & mask_);
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

#if defined(__AVX2__)
  static constexpr __m128i kSigns = {INT64_C(-0x7F7F7F7F7F7F7F80), INT64_C(-0x7F7F7F7F7F7F7F80)};
#endif
  size_t bits_;
  Integers first_;
  Words mask_;
  Floats table_;
  Words shifts_[kVectors];
  Decoder::Places places_[kVectors];
};

// Calls use(numbers) for the way of a decoder that fits.
template <class Use>
__attribute__((always_inline)) inline auto WithNumbers(const Decoder& decoder, const Use& use) {
  if constexpr (kMostTableBits > 0) {
    if (decoder.way() == Way::kTable) return use(Numbers<Way::kTable>(decoder));
  }
  if constexpr (kVectors == 1) {
    if (decoder.way() == Way::kBytes) return use(Numbers<Way::kBytes>(decoder));
  }
  return use(Numbers<Way::kShifts>(decoder));
}

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
template <Way kWay>
__attribute__((always_inline)) inline void WriteNumbers(const Numbers<kWay>& decoder,
                                                        const unsigned char* codes, float scale, size_t count,
                                                        unsigned char* out) {
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
