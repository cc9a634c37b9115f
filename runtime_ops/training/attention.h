// Sparse attention of training.h for the instruction set that a file is compiled for.
//
// Scores of a few queries with a panel of keys are computed in registers, as in a matrix product. The largest
// ones of each lane give a bound of tau (kernels/entmax/lanes.h), which leaves few candidates, on which
// entmax runs. The values of those with p > 0 are added.
//
// All code of this file is in an unnamed namespace, because it is compiled once for each instruction set.
#ifndef EDGE_EMBED_TRAINING_ATTENTION_H_
#define EDGE_EMBED_TRAINING_ATTENTION_H_

#include "kernels/entmax/fast.h"
#include "training/block.h"
#include "training/training.h"

namespace edge_embed::attention {
namespace {

using entmax::kInfinity;
using entmax::kNaN;

// A tile: its sums and the vectors of keys fit the registers.
constexpr size_t kRows = 6;
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr size_t kPanelVectors = 4;
#else
constexpr size_t kPanelVectors = 2;
#endif
constexpr size_t kPanel = kPanelVectors * kLanes;
constexpr size_t kPrefetched =
    1U << 16;                      // numbers of values that leave room for others in a second-level cache
constexpr size_t kFewQueries = 4;  // for fewer, the order of the keys would cost more than it gains

inline size_t Panels(size_t keys) { return (keys + kPanel - 1) / kPanel; }

// Requests numbers that are used soon: rows are too far apart for a processor to foresee them.
inline void PrefetchRow(const float* row, size_t width) {
  constexpr size_t kLine = 64;
  for (size_t byte = 0; byte < width * sizeof(float); byte += kLine) PrefetchAt(row, byte);
}
constexpr size_t kAhead = 16;  // rows

// Writes keys as panels [keys / kPanel, width, kPanel]; those after the last key are 0.
inline void PackKeys(const float* keys, size_t stride, size_t count, size_t width, float* panels) {
  for (size_t first = 0; first < count; first += kPanel, panels += kPanel * width) {
    for (size_t j = 0; j < kPanel; ++j) {
      const float* key = first + j < count ? keys + (first + j) * stride : nullptr;
      if (first + j + kAhead < count) PrefetchRow(keys + (first + j + kAhead) * stride, width);
      for (size_t i = 0; i < width; ++i) panels[i * kPanel + j] = key == nullptr ? 0 : key[i];
    }
  }
}

// Scores of a query, in memory for all its keys and one more panel, and the largest one of every lane. A lane
// leaves out NaN.
struct Scores {
  float* data;
  Floats best[kPanelVectors];

  void Begin() {
    for (Floats& vector : best) vector = Broadcast(-kInfinity);
  }
  // The vector of keys from `key` on, which is a multiple of kLanes.
  void Take(Floats vector, size_t key) {
    Floats& highest = best[key / kLanes % kPanelVectors];
    highest = vector > highest ? vector : highest;
    StoreFloats(vector, data + key);
  }
  float Largest() const { return entmax::LargestOf(best, kPanelVectors); }
};

// Moves the numbers that are not at or below a limit to the front of an array with room for one more vector,
// and their keys; NaN too. Without kHasKeys, keys are the indices. Returns the count.
template <bool kHasKeys>
inline size_t KeepAbove(float limit, size_t count, float* numbers, int32_t* keys) {
  size_t kept = 0;
#if defined(__AVX512F__)
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  entmax::ForEach<kLanes>(count, [&](size_t i, size_t part) {
    const Floats vector = LoadFloats(numbers + i);
    const __mmask16 above = _mm512_mask_cmp_ps_mask(entmax::FirstLanes(part), (__m512)vector,
                                                    (__m512)Broadcast(limit), _CMP_NLE_UQ);
    const __m512i from = kHasKeys ? (__m512i)LoadFloats(keys + i)
                                  : _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(i)));
    StoreFloats((Floats)_mm512_maskz_compress_ps(above, (__m512)vector), numbers + kept);
    StoreFloats((Floats)_mm512_maskz_compress_epi32(above, from), keys + kept);
    kept += static_cast<size_t>(__builtin_popcount(above));
  });
#else
  entmax::ForEach<kLanes>(count, [&](size_t i, size_t part) {
    if (!Any(~(LoadFloats(numbers + i) <= Broadcast(limit)))) return;
    for (size_t j = i; j < i + part; ++j) {
      const float number = numbers[j];
      numbers[kept] = number;
      keys[kept] = kHasKeys ? keys[j] : static_cast<int32_t>(j);
      kept += !(number <= limit);
    }
  });
#endif
  return kept;
}

// Part of a row of the mask, or nothing.
inline Floats Masked(Floats scores, const float* mask, size_t count) {
  const Floats added = mask == nullptr ? Floats{} : entmax::LoadPart(mask, count, -kInfinity);
  const Integers is_out = added == Broadcast(-kInfinity);
  Floats sum = scores + added;
  sum = is_out ? Broadcast(-kInfinity) : sum;
  if (mask == nullptr && count < kLanes) {
    for (size_t lane = count; lane < kLanes; ++lane) sum[lane] = -kInfinity;
  }
  return sum;
}

inline bool IsMasked(const float* mask, size_t count) {
  Integers is_in{};
  entmax::ForEach<kLanes>(count, [&](size_t i, size_t part) {
    is_in |= entmax::LoadPart(mask + i, part, -kInfinity) != Broadcast(-kInfinity);
  });
  return !Any(is_in);
}

// One attention head of a sequence.
struct AttentionHead {
  const ee_attention* of;
  const float *query, *key, *value, *mask;
  float* out;
  float* probabilities;
  float alpha;

  const float* MaskOf(size_t row) const {
    return mask == nullptr ? nullptr : mask + row * of->mask_strides[2];
  }
};

inline AttentionHead AttentionHeadOf(const ee_attention* of, size_t number, float* out,
                                     float* probabilities) {
  const size_t batch = number / of->num_heads, index = number % of->num_heads;
  const size_t kv = index / (of->num_heads / of->num_kv_heads);
  const auto at = [batch](const size_t* strides, size_t place) {
    return batch * strides[0] + place * strides[1];
  };
  return {of,
          of->query + at(of->query_strides, index),
          of->key + at(of->key_strides, kv),
          of->value + at(of->value_strides, kv),
          of->mask == nullptr ? nullptr : of->mask + at(of->mask_strides, index),
          out + at(of->out_strides, index),
          probabilities == nullptr ? nullptr : probabilities + number * of->queries * of->keys,
          of->alphas[of->alpha_per_attention_head != 0 ? index : 0]};
}

// Scores of a tile: products of kRows queries with a panel of keys.
inline void Products(const float* queries, const float* panel, size_t width,
                     Floats (&sums)[kRows][kPanelVectors]) {
  Floats parts[kRows][kPanelVectors]{};
  for (size_t i = 0; i < width; ++i) {
    Floats keys[kPanelVectors];
    for (size_t v = 0; v < kPanelVectors; ++v) keys[v] = LoadFloats(panel + i * kPanel + v * kLanes);
    for (size_t row = 0; row < kRows; ++row) {
      const Floats query = Broadcast(queries[row * width + i]);
      for (size_t v = 0; v < kPanelVectors; ++v) parts[row][v] += query * keys[v];
    }
  }
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t v = 0; v < kPanelVectors; ++v) sums[row][v] = parts[row][v];
  }
}

// Scores of queries first .. first + rows - 1, from panels of keys.
// `queries` [kRows, width] is memory.
inline void FindByPanels(const AttentionHead& attention, size_t first, size_t rows, const float* panels,
                         float* queries, Scores* found) {
  const ee_attention& of = *attention.of;
  for (size_t row = 0; row < kRows; ++row) {  // those after the last repeat it
    const float* query = attention.query + (first + (row < rows ? row : rows - 1)) * of.query_strides[2];
    if (first + row + kAhead < of.queries) PrefetchRow(query + kAhead * of.query_strides[2], of.width);
    for (size_t i = 0; i < of.width; ++i) queries[row * of.width + i] = of.scale * query[i];
  }
  for (size_t key = 0; key < of.keys; key += kPanel, panels += kPanel * of.width) {
    const size_t count = of.keys - key < kPanel ? of.keys - key : kPanel;
    if (attention.mask != nullptr) {
      bool is_masked = true;
      for (size_t row = 0; row < rows; ++row)
        is_masked &= IsMasked(attention.MaskOf(first + row) + key, count);
      if (is_masked) {
        for (size_t row = 0; row < rows; ++row) entmax::Fill(found[row].data + key, kPanel, -kInfinity);
        continue;
      }
    }
    Floats scores[kRows][kPanelVectors];
    Products(queries, panels, of.width, scores);
    for (size_t row = 0; row < rows; ++row) {
      if (attention.mask != nullptr || count < kPanel) {
        for (size_t v = 0; v < kPanelVectors; ++v) {
          const size_t begin = v * kLanes, part = begin >= count ? 0 : Less(count - begin, kLanes);
          const float* mask =
              attention.mask == nullptr || part == 0 ? nullptr : attention.MaskOf(first + row) + key + begin;
          scores[row][v] = Masked(scores[row][v], mask, part);
        }
      }
      for (size_t v = 0; v < kPanelVectors; ++v) found[row].Take(scores[row][v], key + v * kLanes);
    }
  }
}

inline float Product(const float* left, const float* right, size_t width) {
  Floats sums{};
  entmax::ForEach<kLanes>(width, [&](size_t i, size_t count) {
    sums += entmax::LoadPart(left + i, count, 0) * entmax::LoadPart(right + i, count, 0);
  });
  float sum = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) sum += sums[lane];
  return sum;
}

// Scores of one query, from keys as they are.
inline void FindByKeys(const AttentionHead& attention, size_t row, Scores* found) {
  const ee_attention& of = *attention.of;
  const float* query = attention.query + row * of.query_strides[2];
  entmax::ForEach<kLanes>(of.keys, [&](size_t key, size_t count) {
    const float* mask = attention.mask == nullptr ? nullptr : attention.MaskOf(row) + key;
    Floats scores{};
    for (size_t lane = 0; lane < count; ++lane) {
      scores[lane] = of.scale * Product(query, attention.key + (key + lane) * of.key_strides[2], of.width);
    }
    found->Take(Masked(scores, mask, count), key);
  });
}

// Adds kVectors vectors of the values of some keys, two keys at a time, as each sum waits for the one before.
template <size_t kVectors>
inline void AddValues(const float* values, size_t stride, const float* p, const int32_t* keys, size_t count,
                      float* out) {
  Floats sums[kVectors]{}, others[kVectors]{};
  size_t j = 0;
  for (; j + 2 <= count; j += 2) {
    const float *value = values + static_cast<size_t>(keys[j]) * stride,
                *other = values + static_cast<size_t>(keys[j + 1]) * stride;
    for (size_t v = 0; v < kVectors; ++v) {
      sums[v] += p[j] * LoadFloats(value + v * kLanes);
      others[v] += p[j + 1] * LoadFloats(other + v * kLanes);
    }
  }
  if (j < count) {
    const float* value = values + static_cast<size_t>(keys[j]) * stride;
    for (size_t v = 0; v < kVectors; ++v) sums[v] += p[j] * LoadFloats(value + v * kLanes);
  }
  for (size_t v = 0; v < kVectors; ++v) StoreFloats(sums[v] + others[v], out + v * kLanes);
}

inline void MeanOfValues(const AttentionHead& attention, const float* p, const int32_t* keys, size_t count,
                         float* out) {
  const size_t stride = attention.of->value_strides[2], width = attention.of->value_width;
  size_t i = 0;
  for (; i + 4 * kLanes <= width; i += 4 * kLanes)
    AddValues<4>(attention.value + i, stride, p, keys, count, out + i);
  for (; i + kLanes <= width; i += kLanes) AddValues<1>(attention.value + i, stride, p, keys, count, out + i);
  if (i == width) return;
  Floats sums{};
  for (size_t j = 0; j < count; ++j) {
    sums +=
        p[j] * entmax::LoadPart(attention.value + static_cast<size_t>(keys[j]) * stride + i, width - i, 0);
  }
  entmax::StorePart(sums, out + i, width - i);
}

// Writes the output of a query. `p` and `keys` have room for all keys and one more vector.
inline void Finish(const AttentionHead& attention, size_t row, const Scores& scores, float* p,
                   int32_t* keys) {
  const ee_attention& of = *attention.of;
  float* out = attention.out + row * of.out_strides[2];
  float* probabilities =
      attention.probabilities == nullptr ? nullptr : attention.probabilities + row * of.keys;
  const float largest = scores.Largest();
  bool is_nan = largest == kInfinity;
  size_t count = 0;
  if (largest == -kInfinity) {  // all keys are masked, or products are NaN or minus infinity
    is_nan = attention.mask == nullptr || !IsMasked(attention.MaskOf(row), of.keys);
  } else if (!is_nan) {
    const double tau = entmax::LeastTau(scores.best, kPanelVectors, largest, attention.alpha);
    count = KeepAbove<false>(entmax::LimitOf(largest, attention.alpha, tau), of.keys, scores.data, keys);
    entmax::ForwardAbove(scores.data, count, largest, attention.alpha, tau, p);
    is_nan = p[0] != p[0];
    count = KeepAbove<true>(0, count, p, keys);
  }
  if (probabilities != nullptr) {
    entmax::Fill(probabilities, of.keys, is_nan ? kNaN : 0);
    for (size_t j = 0; j < count; ++j) probabilities[keys[j]] = p[j];
  }
  if (is_nan) return entmax::Fill(out, of.value_width, kNaN);
  MeanOfValues(attention, p, keys, count, out);
}

inline int Attention(const ee_attention* of, size_t begin, size_t end, float* out, float* probabilities) {
  const size_t room = of->keys + kPanel, packed = Panels(of->keys) * kPanel * of->width;
  Scratch scratch;
  if (!scratch.Reserve(packed + kRows * of->width + (kRows + 2) * room, kRows + 4)) return 1;
  float* panels = scratch.Take(packed);
  float* queries = scratch.Take(kRows * of->width);
  float* p = scratch.Take(room);
  int32_t* keys = reinterpret_cast<int32_t*>(scratch.Take(room));
  Scores found[kRows];
  for (Scores& each : found) each.data = scratch.Take(room);
  const float* packed_keys = nullptr;
  for (size_t row = begin; row < end;) {
    const AttentionHead attention = AttentionHeadOf(of, row / of->queries, out, probabilities);
    const size_t first = row % of->queries, count = Less(of->queries - first, end - row);
    const bool use_panels = count >= kFewQueries;
    if (use_panels && attention.key != packed_keys) {  // attention heads that share keys follow each other
      PackKeys(attention.key, of->key_strides[2], of->keys, of->width, panels);
      packed_keys = attention.key;
      if (of->keys * of->value_width <= kPrefetched) {
        for (size_t j = 0; j < of->keys; ++j)
          PrefetchRow(attention.value + j * of->value_strides[2], of->value_width);
      }
    }
    for (size_t i = 0; i < count; i += kRows) {
      const size_t rows = Less(count - i, kRows);
      for (size_t j = 0; j < rows; ++j) found[j].Begin();
      if (use_panels) {
        FindByPanels(attention, first + i, rows, panels, queries, found);
      } else {
        for (size_t j = 0; j < rows; ++j) FindByKeys(attention, first + i + j, &found[j]);
      }
      for (size_t j = 0; j < rows; ++j) Finish(attention, first + i + j, found[j], p, keys);
    }
    row += count;
  }
  return 0;
}

}  // namespace
}  // namespace edge_embed::attention

#endif  // EDGE_EMBED_TRAINING_ATTENTION_H_
