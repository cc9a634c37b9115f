// What all calls of the C ABI do alike: check the caller's buffers, and tell which element of the input is
// bad.
#ifndef EDGE_EMBED_C_API_CALL_H_
#define EDGE_EMBED_C_API_CALL_H_

#include "c_api/tables.h"
#include "kernels/variant.h"

namespace edge_embed::c_api {

inline ee_type IdType(const int32_t*) { return EE_INT32; }
inline ee_type IdType(const int64_t*) { return EE_INT64; }

// A buffer of the caller's.
struct Buffer {
  void* data;
  size_t bytes;
};

// use(table) of the kernels' table, which is sound.
template <class CTable, class Use>
ee_status WithTable(const CTable* c_table, const Use& use) {
  if (c_table == nullptr) return EE_NULL_POINTER;
  const auto table = ToTable(*c_table);
  const ee_status valid = Validate(table);
  return valid == EE_OK ? use(table) : valid;
}

// Heads take so many states at a time, which bounds the memory they need.
constexpr size_t kStatesAtOnce = 16;

// What any use of the table needs: one number for the caller.
template <class Table>
ee_status ScratchOf(const Table& table, size_t* bytes) {
  const auto& kernels = ChosenKernels(table);
  const Size head = kernels.logits.scratch(table) + kernels.logits.Prepared(table, kStatesAtOnce);
  const Size doubles = Max(Max(kernels.gather.scratch(table), kernels.bag.scratch(table)), head);
  uint64_t all;
  if (!(doubles * sizeof(double)).Get(&all)) return EE_SIZE_OVERFLOW;
  *bytes = static_cast<size_t>(all);
  return EE_OK;
}

// EE_OK where rows of the output and the scratch fit; null: none is needed.
template <class Table>
ee_status CheckBuffers(const Table& table, Size rows, Size columns, const Buffer& output,
                       const Buffer* scratch) {
  size_t needed, scratch_bytes;
  if (!OutputBytes(rows, columns, EE_FLOAT32, &needed)) return EE_SIZE_OVERFLOW;
  if (output.bytes < needed) return EE_SHORT_OUTPUT;
  if (scratch == nullptr) return EE_OK;
  const ee_status sized = ScratchOf(table, &scratch_bytes);
  if (sized != EE_OK) return sized;
  if (scratch->bytes < scratch_bytes) return EE_SHORT_SCRATCH;
  return scratch->data == nullptr ? EE_NULL_POINTER : EE_OK;
}

inline bool ReportsPosition(ee_status status) {
  return status == EE_ID_OUT_OF_RANGE || status == EE_BAD_ROW_OFFSETS || status == EE_LONG_ROW ||
         status == EE_BAD_ANCHOR_ID || status == EE_BAD_OFFSETS;
}

inline ee_status Report(ee_status status, size_t bad, int64_t* bad_position) {
  if (ReportsPosition(status) && bad_position != nullptr) *bad_position = static_cast<int64_t>(bad);
  return status;
}

}  // namespace edge_embed::c_api

#endif  // EDGE_EMBED_C_API_CALL_H_
