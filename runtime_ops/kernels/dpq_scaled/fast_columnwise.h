// Rows of columns with values of their own: one column a group, and a codebook for each group.
//
//   row[k] = scale * values[k][code_k]          code_k: bits [k*b, (k+1)*b) of the row, b <= 5
//
// For AVX-512; other instruction sets look up one value after another (dpq/fast_rows.h).
//
// Lanes of a register belong to different columns, so that a lookup in one codebook serves few of them. Eight
// rows are therefore looked up together. Lanes 2r and 2r + 1 are two columns of row r, and one permutation of
// 32 floats looks up both, in their codebooks of sixteen. Registers are transposed afterwards, or after some
// rows of each of eight bags were added.
//
// Rows are bit-exact. Rounding of sums is that of fast_sum.h: up to five rows of a bag are added in
// registers, and these sums are added together with their errors. A bag therefore has the same bits whatever
// bags are beside it.
#ifndef EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_COLUMNWISE_H_
#define EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_COLUMNWISE_H_

#include "kernels/dpq_scaled/fast_sum.h"
#include "kernels/words.h"

namespace edge_embed::dpq_scaled {
namespace {

#if defined(__AVX512VBMI__)

// Rows that are looked up together, and columns whose values are in registers at a time.
constexpr size_t kOctet = 8;
constexpr size_t kBlockColumns = 16;
constexpr size_t kPairs = kBlockColumns / 2;
// Codes of a row are read as four words of eight bytes. A word has the codes of sixteen columns, or of eight
// with five bits.
constexpr size_t kStagedWords = 4;
constexpr size_t kWordRows = kOctet * sizeof(uint64_t);  // bytes of a word of each row
constexpr size_t kStagedBytes = kStagedWords * kWordRows;
constexpr size_t kMostColumnBits = 5;

// Segments, parts of bags of up to kSumRows rows, that are added together.
constexpr size_t kSegments = 64;
constexpr size_t kGroups = kSegments / kOctet;
// A group of eight segments has as many octets as its longest segment has rows.
constexpr size_t kOctets = kGroups * kSumRows;

inline size_t RowsOf(const Part& segment) { return segment.end - segment.begin; }

inline bool IsColumnwise(const dpq::Table& table) {
  return table.group_width == 1 && !table.shared && table.bits <= static_cast<int>(kMostColumnBits);
}

// words[r][k] = words[k][r], for eight words of 64 bits of eight rows.
__attribute__((always_inline)) inline void Turn(Words (&words)[kOctet]) {
  Words turned[kOctet];
#pragma GCC unroll 2
  for (size_t high = 0; high < 2; ++high) {
    Words rows[4];
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) {
      rows[k] =
          high != 0 ? HighPairs(words[2 * k], words[2 * k + 1]) : LowPairs(words[2 * k], words[2 * k + 1]);
    }
#pragma GCC unroll 2
    for (size_t odd = 0; odd < 2; ++odd) {
      const Words first = odd != 0 ? OddFours(rows[0], rows[1]) : EvenFours(rows[0], rows[1]);
      const Words second = odd != 0 ? OddFours(rows[2], rows[3]) : EvenFours(rows[2], rows[3]);
      turned[high + 2 * odd] = EvenFours(first, second);
      turned[high + 2 * odd + 4] = OddFours(first, second);
    }
  }
#pragma GCC unroll 8
  for (size_t k = 0; k < kOctet; ++k) words[k] = turned[k];
}

// How values of the table become entries of 32 bits.
enum class Entries { kFloats, kHalves, kHalfBits, kBytes };

// The constants of a table.
struct ColumnCodes {
  __attribute__((noinline)) ColumnCodes(const dpq::Table& plain, const Layout& given, bool as_bits)
      : table(plain), layout(given), bits(given.bits), wide(bits == kMostColumnBits) {
    word_columns = wide ? kBlockColumns / 2 : kBlockColumns;
    word_bytes = word_columns * bits / 8;
    entries = table.value_type == EE_FLOAT32 ? Entries::kFloats
              : table.value_type == EE_INT8  ? Entries::kBytes
              : as_bits                      ? Entries::kHalfBits
                                             : Entries::kHalves;
    auto* const constants = reinterpret_cast<unsigned char*>(bytes);
    const unsigned char* none = nullptr;
    for (size_t byte = 0; byte < kVectorBytes; ++byte) {
      const size_t odd = byte / 4 % 2, first = byte / 32 * 32;  // `first` of two rows
      const size_t place = (2 * (byte % 4) + odd) * bits;
      constants[byte] = static_cast<unsigned char>((1U << bits) - 1);
      constants[byte + kVectorBytes] = wide || odd == 0 ? 0 : 0x10;
      constants[byte + 2 * kVectorBytes] = static_cast<unsigned char>(place);
      constants[byte + 3 * kVectorBytes] = static_cast<unsigned char>(place + (wide ? 0 : kPairs * bits));
      constants[byte + 4 * kVectorBytes] =
          static_cast<unsigned char>(first + (byte % 32 / 8 * word_bytes + byte % 8) % 32);
      InOrder(&none);  // keeps the loop short
    }
  }

  size_t num_entries() const { return wide ? 2 * kLanes : kLanes; }

  const dpq::Table& table;
  const Layout& layout;
  size_t bits;
  bool wide;  // 32 entries a column
  size_t word_columns, word_bytes;
  Entries entries;
  const Words& masks() const { return bytes[0]; }
  const Words& second() const { return bytes[1]; }
  const Words& places(size_t half) const { return bytes[2 + half]; }
  const Words& spread() const { return bytes[4]; }

  Words bytes[5];
};

// Sixteen or fewer entries of a column from `first` on; the last one is repeated.
__attribute__((always_inline)) inline Words LoadEntries(const ColumnCodes& codes, size_t column,
                                                        size_t first) {
  const size_t left = codes.layout.last_code + 1 - first, count = left < kLanes ? left : kLanes;
  const auto mask = static_cast<__mmask16>((uint32_t{1} << count) - 1);
  const unsigned char* const from =
      codes.layout.values + column * codes.layout.codebook_bytes + first * codes.layout.vector_bytes;
  Words entries;
  if (codes.entries == Entries::kFloats) {
    entries = (Words)_mm512_maskz_loadu_epi32(mask, from);
  } else if (codes.entries == Entries::kBytes) {
    const auto integers = (Integers)_mm512_maskz_cvtepi8_epi32(0xFFFF, _mm_maskz_loadu_epi8(mask, from));
    entries = (Words)(__builtin_convertvector(integers, Floats) * dpq::ScaleOf(codes.table, column));
  } else {
    const __m256i halves = _mm256_maskz_loadu_epi16(mask, from);
    entries = (Words)_mm512_maskz_cvtepu16_epi32(0xFFFF, halves);
    if (codes.entries == Entries::kHalves) {
      const auto bits = entries;
      entries = (Words)_mm512_maskz_cvtph_ps(0xFFFF, halves);
      // The instruction sets this bit of every NaN; it is that of the half.
      const Words is_nan = (Words)((bits & 0x7FFF) > 0x7C00);
      entries &= ~(is_nan & ((bits & 0x200) << 13 ^ 0x400000));
    }
  }
  Words lane;
  for (uint32_t k = 0; k < kLanes; ++k) lane[k] = k;
  const Words last = static_cast<uint32_t>(count - 1) - Words{};
  return (Words)_mm512_maskz_permutexvar_epi32(0xFFFF, (__m512i)(lane < last ? lane : last),
                                               (__m512i)entries);
}

// The codebooks of all columns, one after another, with a multiple of kBlockColumns: in the table, or
// completed in `memory`.
__attribute__((noinline)) inline const float* Codebooks(const ColumnCodes& codes, float* memory) {
  const size_t entries = codes.num_entries(), groups = codes.layout.groups;
  if (codes.entries == Entries::kFloats && codes.layout.last_code + 1 == entries &&
      groups % kBlockColumns == 0) {
    return reinterpret_cast<const float*>(codes.layout.values);
  }
  for (size_t column = 0; column < RoundedUp(groups); ++column) {
    for (size_t first = 0; first < entries; first += kLanes) {
      const size_t last = codes.layout.last_code, from = first < last ? first : last;
      StoreFloats(column < groups ? (Floats)LoadEntries(codes, column, from) : Floats{},
                  memory + column * entries + first);
    }
  }
  return memory;
}

__attribute__((noinline)) inline Size CodebookDoubles(const dpq::Table& table) {
  const Size columns = Size(static_cast<uint64_t>(table.num_groups)) + kRoundedColumns;
  return IsColumnwise(table) ? columns * kLanes : Size(0);
}

// Eight rows, of which some may be missing: two lanes each.
struct Octet {
  const unsigned char* codes[kOctet];
  __mmask16 lanes;
  float scales[kLanes], weights[kLanes];
};

// Looks up the values of sixteen columns of an octet, and calls use(pair, values) for two columns at a time.
template <bool kWide, class Use>
__attribute__((always_inline)) inline void LookUpBlock(const ColumnCodes& codes, const unsigned char* staged,
                                                       const float* tables, const Use& use) {
  constexpr size_t kEntries = kWide ? 2 * kLanes : kLanes;
  const __m512i next = _mm512_set1_epi16(256), upper = _mm512_set1_epi32(0x10000);
#pragma GCC unroll 2
  for (size_t half = 0; half < 2; ++half) {
    const __m512i word = (__m512i)LoadFloats(staged + (kWide ? half * kWordRows : 0));
    const __m512i moved =
        _mm512_maskz_multishift_epi64_epi8(~uint64_t{0}, (__m512i)codes.places(kWide ? 0 : half), word);
    const auto first = (__m512i)(((Words)moved & codes.masks()) | codes.second());
    // Shifts by one and two bytes as products: shifts would use the unit of the permutations.
    const __m512i second = _mm512_maskz_mulhi_epu16(~uint32_t{0}, first, next);
#pragma GCC unroll 4
    for (size_t t = 0; t < 4; ++t) {
      const __m512i low = t % 2 == 0 ? first : second;
      const __m512i index = t < 2 ? low : _mm512_maskz_madd_epi16(0xFFFF, low, upper);
      const size_t pair = 4 * half + t;
      const auto entries = [&](size_t k) __attribute__((always_inline)) {
        return (__m512)LoadFloats(tables + 2 * pair * kEntries + k * kLanes);
      };
      __m512 values = _mm512_maskz_permutex2var_ps(0xFFFF, entries(0), index, entries(1));
      if constexpr (kWide) {
        values = _mm512_mask_mov_ps(values, 0xAAAA,
                                    _mm512_maskz_permutex2var_ps(0xFFFF, entries(2), index, entries(3)));
      }
      use(pair, (Floats)values);
    }
  }
}

template <class Use>
__attribute__((always_inline)) inline void LookUpAny(const ColumnCodes& codes, const unsigned char* staged,
                                                     const float* tables, const Use& use) {
  if (codes.wide) return LookUpBlock<true>(codes, staged, tables, use);
  LookUpBlock<false>(codes, staged, tables, use);
}

// The rows of a window that are looked up together.
struct Plan {
  Octet octets[kOctets];
  size_t ends[kGroups];  // octets up to the end of each group
  size_t groups;
};

// Writes the rows of one octet.
struct RowsOut {
  const Output& rows;
  size_t first;  // index of the first row of the window
  size_t step;   // bytes of a row
  size_t columns;
  const Window& window;
  bool scaled;
};

// A row of sixteen columns, of which some may be missing, as floats or as bits of halves.
__attribute__((always_inline)) inline void StoreRow(Words row, size_t columns, bool halves,
                                                    unsigned char* to) {
  const auto mask = static_cast<__mmask16>((uint32_t{1} << (columns < kLanes ? columns : kLanes)) - 1);
  if (halves) {
    _mm512_mask_cvtepi32_storeu_epi16(to, mask, (__m512i)row);
  } else {
    _mm512_mask_storeu_epi32(to, mask, (__m512i)row);
  }
}

__attribute__((noinline)) inline void CopyBlock(const ColumnCodes& given, const unsigned char* staged,
                                                const float* tables, const Plan& plan, size_t column,
                                                const RowsOut& out) {
  const ColumnCodes codes = given;
  const size_t size = SizeOf(out.rows.type), left = out.columns - column;
  for (size_t group = 0, row = 0; group < plan.groups; ++group, staged += kStagedBytes) {
    Words rows[kPairs];
    LookUpAny(codes, staged, tables,
              [&](size_t pair, Floats values) __attribute__((always_inline)) { rows[pair] = (Words)values; });
    Turn(rows);
#pragma GCC unroll 8
    for (size_t k = 0; k < kOctet; ++k, ++row) {
      if (row == out.window.count) return;
      if (out.scaled) rows[k] = (Words)((Floats)rows[k] * out.window.scales[row]);
      rows[k] &= 0 - (out.window.counted[row] - Words{});
      unsigned char* const to = RowAt(out.rows, out.first + row, out.step);
      StoreRow(rows[k], left, size == 2, to + column * size);
    }
  }
}

// Writes, or adds to their bags, the sums of eight segments.
__attribute__((noinline)) inline void FinishGroup(const SumCall& call, const Part* segments, size_t count,
                                                  const Words (&rows)[kOctet], size_t column) {
  for (size_t k = 0; k < count; ++k) {
    const Part& segment = segments[k];
    Floats sum = (Floats)rows[k];
    if (!segment.first || !segment.last) {
      dpq::Fold(sum, segment.first, call.totals, column);
      if (!segment.last) continue;
      const Floats high = LoadFloats(call.totals.high + column), low = LoadFloats(call.totals.low + column);
      sum = high - high == Floats{} ? high + low : high;  // an infinite sum has no error
    }
    if (segment.divisor > 1) sum /= segment.divisor;
    WriteSum(call, segment.out_at, sum, column);
  }
}

// The sums of sixteen columns. They are simple if each segment is a whole bag, in float32 and without
// factors, and codes have up to four bits.
template <bool kSimple>
__attribute__((noinline)) void SumBlock(const ColumnCodes& given, const unsigned char* staged,
                                        const float* tables, const Plan& plan, size_t column,
                                        const SumCall& call, const Part* segments, size_t count) {
  const ColumnCodes codes = given;
  float* const out = static_cast<float*>(call.out.data) + (kSimple ? column : 0);
  size_t octet = 0;
  for (size_t group = 0; group < plan.groups; ++group) {
    Floats sums[kPairs] = {};
    for (; octet < plan.ends[group]; ++octet, staged += kStagedBytes) {
      const Octet& now = plan.octets[octet];
      const __mmask16 lanes = now.lanes;
      const auto add = [&](size_t pair, Floats values) __attribute__((always_inline)) {
        if constexpr (!kSimple) values = values * LoadFloats(now.scales) * LoadFloats(now.weights);
        sums[pair] =
            (Floats)_mm512_mask_add_ps((__m512)sums[pair], lanes, (__m512)sums[pair], (__m512)values);
      };
      if constexpr (kSimple) {
        LookUpBlock<false>(codes, staged, tables, add);
      } else {
        LookUpAny(codes, staged, tables, add);
      }
    }
    Words rows[kOctet];
#pragma GCC unroll 8
    for (size_t k = 0; k < kOctet; ++k) rows[k] = (Words)sums[k];
    Turn(rows);
    const size_t first = group * kOctet, some = count - first < kOctet ? count - first : kOctet;
    if constexpr (kSimple) {
#pragma GCC unroll 8
      for (size_t k = 0; k < kOctet; ++k) {
        if (k == some) break;
        const Part& segment = segments[first + k];
        if (segment.divisor > 1) rows[k] = (Words)((Floats)rows[k] / segment.divisor);
        StoreFloats((Floats)rows[k], out + segment.out_at);
      }
    } else {
      FinishGroup(call, segments + first, some, rows, column);
    }
  }
}

// Column-wise rows of windows.
class ColumnRows {
 public:
  // `memory` has CodebookDoubles.
  __attribute__((noinline)) ColumnRows(const Table& table, const Layout& layout, bool as_bits, bool factors,
                                       double* memory)
      : codes_(table.plain(), layout, as_bits),
        codebooks_(Codebooks(codes_, reinterpret_cast<float*>(memory))),
        factors_(factors) {}

  // Writes the rows of a window, of `step` bytes each, the first of which has the index `first`.
  __attribute__((noinline)) void Copy(const Window& window, size_t columns, bool scaled, const Output& rows,
                                      size_t first, size_t step) {
    plan_.groups = (window.count + kOctet - 1) / kOctet;
    for (size_t group = 0; group < plan_.groups; ++group) {
#pragma GCC unroll 1
      for (size_t k = 0; k < kOctet; ++k) {
        const size_t row = group * kOctet + k;
        plan_.octets[group].codes[k] = window.codes[row < window.count ? row : 0];
      }
      plan_.ends[group] = group + 1;
    }
    const RowsOut out{rows, first, step, columns, window, scaled};
    ForBlocks(columns, [&](const unsigned char* staged, const float* tables, size_t column) {
      CopyBlock(codes_, staged, tables, plan_, column, out);
    });
  }

  // Rows of a bag; they are added by Finish.
  void Add(const SumCall& call, const Part& part) {
    Part segment = part;
    for (;; segment.begin = segment.end) {
      if (count_ == kSegments) Finish(call);
      segment.end = part.end - segment.begin < kSumRows ? part.end : segment.begin + kSumRows;
      segment.first = part.first && segment.begin == part.begin;
      segment.last = part.last && segment.end == part.end;
      is_simple_ = is_simple_ && segment.first && segment.last;
      segments_[count_++] = segment;
      if (segment.end == part.end) return;
    }
  }

  __attribute__((noinline)) void Finish(const SumCall& call) {
    const bool simple = is_simple_ && !factors_ && !codes_.wide && call.out.type == EE_FLOAT32;
    Arrange(call.window, !simple || call.columns % kBlockColumns != 0, call.weighted);
    ForBlocks(call.columns, [&](const unsigned char* staged, const float* tables, size_t column) {
      if (simple && column + kBlockColumns <= call.columns) {
        SumBlock<true>(codes_, staged, tables, plan_, column, call, segments_, count_);
      } else {
        SumBlock<false>(codes_, staged, tables, plan_, column, call, segments_, count_);
      }
    });
    count_ = 0;
    is_simple_ = true;
  }

 private:
  // Lanes of an octet are the rows of eight segments with the same index; `factors` tells whether they have
  // scales and weights.
  __attribute__((noinline)) void Arrange(const Window& window, bool factors, bool weighted) {
    plan_.groups = (count_ + kOctet - 1) / kOctet;
    size_t at = 0;
    for (size_t group = 0; group < plan_.groups; ++group) {
      const Part* const segments = segments_ + group * kOctet;
      const size_t left = count_ - group * kOctet, some = left < kOctet ? left : kOctet;
      size_t steps = 0;
#pragma GCC unroll 1
      for (size_t k = 0; k < some; ++k) steps = RowsOf(segments[k]) > steps ? RowsOf(segments[k]) : steps;
      for (size_t step = 0; step < steps; ++step) {
        Octet& octet = plan_.octets[at++];
        uint32_t lanes = 0;
#pragma GCC unroll 1
        for (size_t k = 0; k < kOctet; ++k) {
          const bool exists = k < some && step < RowsOf(segments[k]);
          const size_t row = exists ? segments[k].begin + step : 0;
          octet.codes[k] = window.codes[row];
          lanes |= exists && window.counted[row] != 0 ? uint32_t{3} << (2 * k) : 0;
          if (!factors) continue;
          octet.scales[2 * k] = octet.scales[2 * k + 1] = window.scales[row];
          octet.weights[2 * k] = octet.weights[2 * k + 1] = weighted ? window.weights[row] : 1;
        }
        octet.lanes = static_cast<__mmask16>(lanes);
      }
      plan_.ends[group] = at;
    }
  }

  // Calls use(staged codes, codebooks, first column) for sixteen columns at a time.
  template <class Use>
  void ForBlocks(size_t columns, const Use& use) {
    const size_t words = kBlockColumns / codes_.word_columns, chunk = kStagedWords * codes_.word_columns;
    for (size_t column = 0; column < columns; column += kBlockColumns) {
      const size_t word = column % chunk / kBlockColumns * words;
      if (word == 0) Stage(column / chunk * kStagedWords * codes_.word_bytes);
      use(staged_ + word * kWordRows, codebooks_ + column * codes_.num_entries(), column);
    }
  }

  // Reads four words of all rows from the byte `from` on, and transposes those of each octet.
  __attribute__((noinline)) void Stage(size_t from) {
    const size_t count = plan_.groups == 0 ? 0 : plan_.ends[plan_.groups - 1];
    const auto spread = (__m512i)codes_.spread();
    const bool spreads = codes_.word_bytes != sizeof(uint64_t);
    unsigned char* to = staged_;
    for (size_t k = 0; k < count; ++k, to += kStagedBytes) {
      const unsigned char* const* const rows = plan_.octets[k].codes;
      Words pairs[4];  // rows 0 and 2, 1 and 3, 4 and 6, 5 and 7
#pragma GCC unroll 4
      for (size_t i = 0; i < 4; ++i) {
        const size_t row = i / 2 * 4 + i % 2;
        const __m512i first = _mm512_castsi256_si512((__m256i)LoadEight(rows[row] + from));
        __m512i two = _mm512_maskz_inserti64x4(0xFF, first, (__m256i)LoadEight(rows[row + 2] + from), 1);
        if (spreads) two = _mm512_maskz_permutexvar_epi8(~uint64_t{0}, spread, two);
        pairs[i] = (Words)two;
      }
#pragma GCC unroll 2
      for (size_t odd = 0; odd < 2; ++odd) {
        const Words first = odd != 0 ? HighPairs(pairs[0], pairs[1]) : LowPairs(pairs[0], pairs[1]);
        const Words second = odd != 0 ? HighPairs(pairs[2], pairs[3]) : LowPairs(pairs[2], pairs[3]);
        StoreFloats((Floats)EvenFours(first, second), to + odd * kWordRows);
        StoreFloats((Floats)OddFours(first, second), to + (odd + 2) * kWordRows);
      }
    }
  }

  const ColumnCodes codes_;
  const float* const codebooks_;
  const bool factors_;
  bool is_simple_ = true;  // segments are whole bags
  size_t count_ = 0;
  Part segments_[kSegments];
  Plan plan_;
  alignas(kVectorBytes) unsigned char staged_[kOctets * kStagedBytes];
};

#else

inline bool IsColumnwise(const dpq::Table&) { return false; }
inline Size CodebookDoubles(const dpq::Table&) { return 0; }

#endif

}  // namespace
}  // namespace edge_embed::dpq_scaled

#endif  // EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_COLUMNWISE_H_
