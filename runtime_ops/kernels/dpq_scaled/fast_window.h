// The next rows of integers of a call: their ids are checked, their scales read and their codes prefetched
// before the first one is decoded.
#ifndef EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_WINDOW_H_
#define EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_WINDOW_H_

#include "kernels/dpq/fast_bag.h"
#include "kernels/dpq_scaled/fast_rows.h"

namespace edge_embed::dpq_scaled {
namespace {

constexpr size_t kWindowRows = 64;

// The padding row has scale and weight 0.
struct Window {
  const unsigned char* codes[kWindowRows];
  float scales[kWindowRows];
  float weights[kWindowRows];     // only with sample weights
  uint32_t counted[kWindowRows];  // 0 for the padding row, else 1
  size_t count;                   // rows before the first error
  ee_status status;               // of the row after them, if there is an error
};

// Tables up to this size stay in a cache, where a prefetch costs more than it saves.
constexpr size_t kCachedBytes = 512 * 1024;

// The same for ids of one type. Fields are copied, because the compiler cannot tell that stores leave them.
template <class Id>
__attribute__((noinline)) void TakeRows(const Table& table, size_t row_bytes, const CodeRows& given,
                                        const void* ids, size_t begin, size_t end, Window* window) {
  const CodeRows rows = given;
  const unsigned char* const scale_codes = table.row_scale_codes;
  const unsigned char* const scales = table.row_scales;
  const uint64_t num_rows = static_cast<uint64_t>(table.num_embeddings);
  const uint64_t padding = static_cast<uint64_t>(table.padding_idx);  // very large without a padding row
  const size_t num_scales = static_cast<size_t>(table.num_row_scales);
  const size_t lines = table.codes_bytes <= kCachedBytes ? 0 : (row_bytes + 63) / 64;
  size_t count = 0;
  ee_status status = EE_OK;
  for (size_t i = begin; i < end; ++i, ++count) {
    const auto id = static_cast<uint64_t>(int64_t{Load<Id>(ids, i)});
    if (id >= num_rows) {
      status = EE_ID_OUT_OF_RANGE;
      break;
    }
    const unsigned char* const row = rows.At(id);
    for (size_t line = 0; line < lines; ++line) PrefetchAt(row, line * 64);
    float scale = 1;
    if (id == padding) {
      scale = 0;
    } else if (num_scales > 0) {
      const size_t code = scale_codes[id];
      if (code >= num_scales) {
        status = EE_BAD_ROW_SCALE_CODE;
        break;
      }
      scale = Load<float>(scales, code);
    }
    window->codes[count] = row;
    window->scales[count] = scale;
    window->counted[count] = id != padding;
  }
  window->count = count;
  window->status = status;
}

// The address of row `index`.
__attribute__((always_inline)) inline unsigned char* RowAt(const Output& rows, size_t index,
                                                           size_t row_bytes) {
  const size_t place = rows.places == nullptr ? index : rows.places[index];
  return static_cast<unsigned char*>(rows.data) + place * row_bytes;
}

// Reads the rows of the ids begin .. end-1, at most kWindowRows. `bags` may be null.
__attribute__((noinline)) inline void TakeWindow(const Table& table, const Layout& layout,
                                                 const CodeRows& codes, const Ids& ids, const Bags* bags,
                                                 size_t begin, size_t end, Window* window) {
  if (ids.type == EE_INT32) {
    TakeRows<int32_t>(table, layout.row_bytes, codes, ids.data, begin, end, window);
  } else {
    TakeRows<int64_t>(table, layout.row_bytes, codes, ids.data, begin, end, window);
  }
  if (bags == nullptr || bags->sample_weights == nullptr) return;
  for (size_t k = 0; k < window->count; ++k) {
    window->weights[k] = window->counted[k] != 0 ? dpq::WeightOf(*bags, begin + k) : 0;
  }
}

// Rows begin .. end-1 without padding rows.
__attribute__((noinline)) inline size_t CountRows(const Window& window, size_t begin, size_t end) {
  size_t counted = 0;
  const unsigned char* none = nullptr;
  for (size_t i = begin; i < end; ++i) {
    counted += window.counted[i];
    InOrder(&none);  // a few numbers: prevents a second loop of vectors
  }
  return counted;
}

}  // namespace
}  // namespace edge_embed::dpq_scaled

#endif  // EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_WINDOW_H_
