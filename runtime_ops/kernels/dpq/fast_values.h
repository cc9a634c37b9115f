// Values as floats: float16 exactly, int8 times the scale of its group, rounded once.
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_VALUES_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_VALUES_H_

#include "kernels/dpq/fast_codes.h"

namespace edge_embed::dpq {
namespace {

// Widens float16 numbers at `halves` to floats at `out`. Both arrays may end at the same address: no float
// overwrites a number that is still to be read. It calls ToFloat because the instruction of the processor
// changes the kind of a NaN.
inline void WidenBits(const unsigned char* halves, size_t count, unsigned char* out) {
  constexpr size_t kAtOnce = 8;
  for (size_t k = 0; k < count; k += kAtOnce) {
    const size_t some = count - k;
    Half narrow[kAtOnce] = {};
    float wide[kAtOnce];
    unsigned char* const from = reinterpret_cast<unsigned char*>(narrow);
    unsigned char* const to = reinterpret_cast<unsigned char*>(wide);
    if (some >= kAtOnce) {
      CopyPiece<sizeof(narrow)>(halves + 2 * k, from);
    } else {
      CopyRest(halves + 2 * k, 2 * some, from);
    }
    for (size_t i = 0; i < kAtOnce; ++i) wide[i] = ToFloat(narrow[i]);
    if (some >= kAtOnce) {
      CopyPiece<sizeof(wide)>(to, out + 4 * k);
    } else {
      CopyRest(to, 4 * some, out + 4 * k);
    }
  }
}

inline float ScaleOf(const Table& table, size_t group) {
  return Load<float>(table.value_scales, table.shared ? 0 : group);
}

// Multiplies values[first] .. values[end-1] by a scale and writes them to the same indices of `out`. Up to
// index `last`, it uses vectors, which may exceed `end`; the rest is computed one by one.
inline void ScaleInt8(const unsigned char* values, Floats scale, size_t first, size_t end, size_t last,
                      unsigned char* out) {
  for (; first < end && first < last; first += kLanes) {
    StoreFloats(LoadInt8(values + first) * scale, out + first * sizeof(float));
  }
  for (; first < end; ++first) {
    Store(static_cast<float>(Load<int8_t>(values, first)) * scale[0], out, first);
    InOrder(&values);  // a few numbers: prevents a second loop of vectors
  }
}

// Difference in bytes between a float and a value.
inline size_t Narrower(const Table& table) { return sizeof(float) - SizeOf(table.value_type); }

// Widens the values of a row in place, from the end of the space of its floats. The next group overwrites
// numbers that a vector of int8 writes beyond its group. The last columns are widened one by one: a vector
// from c on would overwrite values still to be read if 4 (c + kLanes) > 3 columns + c + 1.
__attribute__((noinline)) inline void WidenRow(const Table& table, const Layout& layout, unsigned char* row) {
  const size_t columns = layout.groups * layout.width, kept = (4 * kLanes + 1) / 3;
  const unsigned char* values = row + Narrower(table) * columns;
  if (table.value_type == EE_FLOAT16) return WidenBits(values, columns, row);
  const size_t last = columns < kept ? 0 : columns - kept + 1;
  size_t group = 0, first = 0;
  if (layout.width == kLanes / 2) {  // a vector has two groups
    Words lane;
    for (size_t k = 0; k < kLanes; ++k) lane[k] = static_cast<uint32_t>(k);
    for (; first < last; group += 2, first += kLanes) {
      const Floats scale =
          lane < kLanes / 2 ? Broadcast(ScaleOf(table, group)) : Broadcast(ScaleOf(table, group + 1));
      StoreFloats(LoadInt8(values + first) * scale, row + first * sizeof(float));
    }
  }
  for (; group < layout.groups; ++group, first += layout.width) {
    ScaleInt8(values, Broadcast(ScaleOf(table, group)), first, first + layout.width, last, row);
  }
}

// All values of a group as floats [K, s]: in the table if they are floats, else in `codebook`.
__attribute__((noinline)) inline const unsigned char* FloatCodebook(const Table& table, const Layout& layout,
                                                                    size_t group, unsigned char* codebook) {
  const unsigned char* values = layout.values + group * layout.codebook_step;
  const size_t count = (layout.last_code + 1) * layout.width;
  if (table.value_type == EE_FLOAT32) return values;
  if (table.value_type == EE_FLOAT16) {
    WidenToFloat(values, EE_FLOAT16, count, codebook);
  } else {
    ScaleInt8(values, Broadcast(ScaleOf(table, group)), 0, count, count - count % kLanes, codebook);
  }
  return codebook;
}

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_VALUES_H_
