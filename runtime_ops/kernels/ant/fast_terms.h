// Rows of the table as terms: an anchor number and a float32 weight each, for all types of tables. The code
// that sums terms therefore needs no types. This header refuses all damage of a table.
#ifndef EDGE_EMBED_KERNELS_ANT_FAST_TERMS_H_
#define EDGE_EMBED_KERNELS_ANT_FAST_TERMS_H_

#include "kernels/simd.h"
#include "kernels/variant.h"

namespace edge_embed::ant {
namespace {

constexpr size_t kMaxTerms = 512;

struct Terms {
  size_t count = 0;
  uint32_t anchors[kMaxTerms + kLanes];  // decoding writes whole vectors
  float weights[kMaxTerms + kLanes];
};

// The place of the terms of a row.
struct Range {
  size_t begin, end;
};

inline ee_status FindTerms(const Table& table, size_t row, Range* range) {
  const int64_t begin = Load<int32_t>(table.row_offsets, row),
                end = Load<int32_t>(table.row_offsets, row + 1);
  if (begin < 0 || end < begin || end > table.num_weights) return EE_BAD_ROW_OFFSETS;
  if (end - begin > table.num_anchors) return EE_LONG_ROW;
  *range = {static_cast<size_t>(begin), static_cast<size_t>(end)};
  return EE_OK;
}

template <typename T>
struct Vector {
  typedef T Type __attribute__((vector_size(kLanes * sizeof(T))));
  typedef T Unaligned __attribute__((vector_size(kLanes * sizeof(T)), aligned(1), may_alias));
};

template <typename T>
Words LoadWords(const unsigned char* from) {
  using Stored = typename Vector<T>::Type;
  const Stored stored = *reinterpret_cast<const typename Vector<T>::Unaligned*>(from);
  return __builtin_convertvector(stored, Words);
}
// GCC 12 converts 8 to 32 bits element by element, but uses vectors for 8 to 16 and 16 to 32 bits.
template <>
inline Words LoadWords<uint8_t>(const unsigned char* from) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  return (Words)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#else
  const Vector<uint8_t>::Type stored = *reinterpret_cast<const Vector<uint8_t>::Unaligned*>(from);
  return __builtin_convertvector(__builtin_convertvector(stored, Vector<uint16_t>::Type), Words);
#endif
}

// Readers of a vector of anchor ids or weights, one for each type.
template <typename T>
struct AnchorReader {
  using Stored = T;
  void operator()(const unsigned char* from, uint32_t* to) const {
    *reinterpret_cast<Vector<uint32_t>::Unaligned*>(to) = LoadWords<T>(from);
  }
};

template <typename T>
Floats LoadWeights(const unsigned char* from);
template <>
inline Floats LoadWeights<float>(const unsigned char* from) {
  return LoadFloats(from);
}
template <>
inline Floats LoadWeights<Half>(const unsigned char* from) {
  return LoadHalves(from);
}
template <>
inline Floats LoadWeights<int8_t>(const unsigned char* from) {
  return LoadInt8(from);
}

template <typename T>
struct WeightReader {
  using Stored = T;
  float scale;
  void operator()(const unsigned char* from, float* to) const {
    StoreFloats(LoadWeights<T>(from) * scale, to);
  }
};

// Copies the last numbers of an array, followed by zeros.
template <size_t kBytes>
__attribute__((noinline)) void CopyLast(const unsigned char* from, size_t bytes,
                                        unsigned char (&to)[kBytes]) {
  __builtin_memset(to, 0, kBytes);
  __builtin_memcpy(to, from, bytes);
}

// Decodes array[range], and up to a vector more, which the next call overwrites. At the end of the array, it
// reads no byte beyond it.
template <class Reader, typename Out>
__attribute__((always_inline)) inline void Decode(const Reader& read, const unsigned char* array,
                                                  size_t array_count, const Range& range, Out* to) {
  constexpr size_t kSize = sizeof(typename Reader::Stored);
  for (size_t t = range.begin; t < range.end; t += kLanes, to += kLanes) {
    const unsigned char* from = array + t * kSize;
    unsigned char last[kLanes * kSize];
    if (array_count - t < kLanes) {
      CopyLast(from, (array_count - t) * kSize, last);
      from = last;
    }
    read(from, to);
  }
}

// Decodes rows that are stored contiguously as one.
template <class Reader, typename Out>
void DecodeAll(const Reader& reader, const unsigned char* array, int64_t array_count, const Range* ranges,
               size_t count, Out* to) {
  for (size_t j = 0; j < count;) {
    Range run = ranges[j++];
    for (; j < count && ranges[j].begin == run.end; ++j) run.end = ranges[j].end;
    Decode(reader, array, static_cast<size_t>(array_count), run, to);
    to += run.end - run.begin;
  }
}

inline void DecodeAnchors(const Table& table, const Range* ranges, size_t count, uint32_t* to) {
  const unsigned char* array = table.anchor_ids;
  if (table.anchor_id_type == EE_UINT8) {
    DecodeAll(AnchorReader<uint8_t>{}, array, table.num_weights, ranges, count, to);
  } else if (table.anchor_id_type == EE_UINT16) {
    DecodeAll(AnchorReader<uint16_t>{}, array, table.num_weights, ranges, count, to);
  } else {
    DecodeAll(AnchorReader<uint32_t>{}, array, table.num_weights, ranges, count, to);
  }
}

inline void DecodeWeights(const Table& table, float scale, const Range* ranges, size_t count, float* to) {
  const unsigned char* array = table.weights;
  if (table.weight_type == EE_FLOAT32) {
    DecodeAll(WeightReader<float>{scale}, array, table.num_weights, ranges, count, to);
  } else if (table.weight_type == EE_FLOAT16) {
    DecodeAll(WeightReader<Half>{scale}, array, table.num_weights, ranges, count, to);
  } else {
    DecodeAll(WeightReader<int8_t>{scale}, array, table.num_weights, ranges, count, to);
  }
}

// Index of the first of `count` anchors that is not below num_anchors, or `count`.
inline size_t FirstBadAnchor(const Table& table, const uint32_t* anchors, size_t count) {
  if (table.num_anchors > int64_t{UINT32_MAX}) return count;
  const uint32_t all = static_cast<uint32_t>(table.num_anchors);
  Words bad{};
  size_t t = 0;
  for (; t + kLanes <= count; t += kLanes) {
    bad |= (Words)(*reinterpret_cast<const Vector<uint32_t>::Unaligned*>(anchors + t) >= all);
  }
  if (Any(bad)) t = 0;
  while (t < count && anchors[t] < all) ++t;
  return t;
}

// Rows that are processed together, with at most kMaxTerms terms in all.
constexpr size_t kBlockRows = 64;

struct Block {
  size_t rows = 0;
  size_t paddings = 0;  // padding rows among them
  Range ranges[kBlockRows];
  Terms terms;

  size_t Count(size_t row) const { return ranges[row].end - ranges[row].begin; }
};

// Reads the terms of the rows of a block, which are terms.count, with weights times `scale`. Removes the rows
// from the first one with an invalid anchor on.
__attribute__((noinline)) inline void ReadTerms(const Table& table, float scale, Block* block) {
  Terms& terms = block->terms;
  DecodeAnchors(table, block->ranges, block->rows, terms.anchors);
  DecodeWeights(table, scale, block->ranges, block->rows, terms.weights);
  const size_t good = FirstBadAnchor(table, terms.anchors, terms.count);
  if (good == terms.count) return;
  size_t row = 0;
  terms.count = 0;
  for (; terms.count + block->Count(row) <= good; ++row) terms.count += block->Count(row);
  block->rows = row;
}

// Prefetches terms of later rows, which may be anywhere. Wrong positions of a damaged table do no harm.
__attribute__((always_inline)) inline void PrefetchOffsets(const Table& table, int64_t id) {
  PrefetchAt(table.row_offsets, static_cast<size_t>(id) * sizeof(int32_t));
}

__attribute__((always_inline)) inline void PrefetchTerms(const Table& table, int64_t id) {
  if (id < 0 || id >= table.num_embeddings) return;
  const size_t begin = static_cast<size_t>(Load<int32_t>(table.row_offsets, static_cast<size_t>(id)));
  PrefetchAt(table.anchor_ids, begin * SizeOf(table.anchor_id_type));
  PrefetchAt(table.weights, begin * SizeOf(table.weight_type));
  PrefetchAt(table.weights, begin * SizeOf(table.weight_type) + 28);
}

}  // namespace
}  // namespace edge_embed::ant

#endif  // EDGE_EMBED_KERNELS_ANT_FAST_TERMS_H_
