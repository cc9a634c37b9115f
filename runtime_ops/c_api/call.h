// The common part of all calls of the C interface: checks of the caller's buffers, and the position of a bad
// element.
#ifndef EDGE_EMBED_C_API_CALL_H_
#define EDGE_EMBED_C_API_CALL_H_

#include "c_api/tables.h"
#include "kernels/topk.h"

namespace edge_embed::c_api {

// A buffer of the caller.
struct Buffer {
  void* data;
  size_t bytes;
};

inline ee_status ReadIds(const ee_ids* c, Ids* ids) {
  if (c == nullptr) return EE_NULL_POINTER;
  if (c->count < 0) return EE_BAD_SHAPE;
  if (c->type != EE_INT32 && c->type != EE_INT64) return EE_BAD_TYPE;
  if (c->data == nullptr && c->count > 0) return EE_NULL_POINTER;
  *ids = {c->data, static_cast<ee_type>(c->type), static_cast<size_t>(c->count)};
  return EE_OK;
}

// An output layer processes this number of states at a time, which bounds its memory.
constexpr size_t kStatesAtOnce = 16;

template <class Table>
Size LogitsDoubles(const Table& table) {
  const LogitsKernel<Table>& kernel = ChosenKernels(table).logits;
  return kernel.scratch(table) + kernel.Prepared(table, kStatesAtOnce);
}

// The scratch of top-k: the prepared data, the scratch of the kernel, and the candidates of some states.
template <class Table>
struct TopKDoubles {
  TopKDoubles(const TopK<Table>& kernel, const Table& table, size_t k)
      : own(kernel.Prepared(table, kStatesAtOnce)),
        best(own + kernel.scratch(table)),
        all(best + Size(kStatesAtOnce) * (k + 1)) {}

  Size own, best, all;  // doubles before each part, and of all parts
};

inline ee_status ScratchBytes(Size doubles, size_t* bytes) {
  uint64_t all;
  if (!(doubles * sizeof(double)).Get(&all)) return EE_SIZE_OVERFLOW;
  *bytes = static_cast<size_t>(all);
  return EE_OK;
}

inline ee_status CheckScratch(Size doubles, const Buffer& scratch) {
  size_t needed;
  const ee_status status = ScratchBytes(doubles, &needed);
  if (status != EE_OK) return status;
  if (scratch.bytes < needed) return EE_SHORT_SCRATCH;
  return scratch.data == nullptr && needed > 0 ? EE_NULL_POINTER : EE_OK;
}

// Returns EE_OK if the rows of the output and the scratch fit.
inline ee_status CheckBuffers(Size rows, Size columns, const Buffer& output, Size doubles,
                              const Buffer& scratch) {
  size_t needed;
  if (!OutputBytes(rows, columns, EE_FLOAT32, &needed)) return EE_SIZE_OVERFLOW;
  return output.bytes < needed ? EE_SHORT_OUTPUT : CheckScratch(doubles, scratch);
}

inline bool ReportsPosition(ee_status status) {
  return status == EE_ID_OUT_OF_RANGE || status == EE_BAD_ROW_OFFSETS || status == EE_LONG_ROW ||
         status == EE_BAD_ANCHOR_ID || status == EE_BAD_OFFSETS || status == EE_BAD_ROW_SCALE_CODE ||
         status == EE_BAD_TIER_PLACE;
}

inline ee_status Report(ee_status status, size_t bad, int64_t* bad_position) {
  if (ReportsPosition(status) && bad_position != nullptr) *bad_position = static_cast<int64_t>(bad);
  return status;
}

}  // namespace edge_embed::c_api

#endif  // EDGE_EMBED_C_API_CALL_H_
