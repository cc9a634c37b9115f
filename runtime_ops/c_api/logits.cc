// Logits: products of hidden states with every row.
#include "c_api/call.h"

namespace edge_embed::c_api {
namespace {

template <class Table>
ee_status Logits(const Table& table, const float* hidden, int64_t batch, const Buffer& logits,
                 const Buffer& scratch, int64_t* bad_row) {
  if (batch < 0) return EE_BAD_SHAPE;
  if (batch == 0) return EE_OK;
  if (hidden == nullptr || logits.data == nullptr) return EE_NULL_POINTER;
  const size_t count = static_cast<size_t>(batch), rows = static_cast<size_t>(table.num_embeddings);
  const ee_status fits = CheckBuffers(count, rows, logits, LogitsDoubles(table), scratch);
  if (fits != EE_OK) return fits;

  const auto& kernel = ChosenKernels(table).logits;
  double* const memory = static_cast<double*>(scratch.data);
  double* const prepared = memory + kernel.scratch(table).saturated();
  const size_t columns = Columns(table);
  size_t bad = 0;
  ee_status status = EE_OK;
  for (size_t state = 0; state < count; state += kStatesAtOnce) {
    const size_t states = count - state < kStatesAtOnce ? count - state : kStatesAtOnce;
    const LogitsInput input = kernel.Prepare(table, hidden + state * columns, states, prepared);
    const Output out{static_cast<float*>(logits.data) + state * rows, EE_FLOAT32};
    status = kernel.run(table, input, 0, rows, LogitsOutput{out, rows, 0}, memory, &bad);
  }
  return Report(status, bad, bad_row);
}

}  // namespace
}  // namespace edge_embed::c_api

ee_status ee_logits(const ee_table* table, const float* hidden, int64_t batch, float* logits,
                    size_t logits_bytes, void* scratch, size_t scratch_bytes, int64_t* bad_row) {
  using namespace edge_embed::c_api;
  if (bad_row != nullptr) *bad_row = -1;
  return WithTable(table, [&](const auto& sound, const auto&) {
    return Logits(sound, hidden, batch, {logits, logits_bytes}, {scratch, scratch_bytes}, bad_row);
  });
}
