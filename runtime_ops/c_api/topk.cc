// Top-k: the k largest products with every row.
#include "c_api/call.h"

namespace edge_embed::c_api {
namespace {

ee_status CheckBest(const ee_best& best, Size batch) {
  uint64_t values, ids;
  const Size count = batch * static_cast<uint64_t>(best.k);
  if (!(count * sizeof(float)).Get(&values) || !(count * sizeof(int64_t)).Get(&ids)) return EE_SIZE_OVERFLOW;
  if (best.values_bytes < values || best.ids_bytes < ids) return EE_SHORT_OUTPUT;
  return best.values == nullptr || best.ids == nullptr ? EE_NULL_POINTER : EE_OK;
}

// Writes the candidates of the states from `state` on, in descending order.
void WriteBest(const TopKInput& input, size_t state, const ee_best& out) {
  for (size_t b = 0; b < input.logits.batch; ++b) {
    const Best best = input.BestOf(b);
    Sort(best.heap, best.k);
    for (size_t i = 0; i < best.k; ++i) {
      out.values[(state + b) * best.k + i] = LogitOf(best.heap[i]);
      out.ids[(state + b) * best.k + i] = RowOf(best.heap[i]);
    }
  }
}

template <class Table>
ee_status FindBest(const Table& table, const float* hidden, int64_t batch, const ee_best& best,
                   const Buffer& scratch, int64_t* bad_row) {
  ee_status status = CheckK(best.k, table.num_embeddings);
  if (status != EE_OK) return status;
  if (batch < 0) return EE_BAD_SHAPE;
  if (batch == 0) return EE_OK;
  if (hidden == nullptr) return EE_NULL_POINTER;
  const TopK kernel(ChosenVariant(), table);
  const size_t count = static_cast<size_t>(batch), k = static_cast<size_t>(best.k);
  const TopKDoubles parts(kernel, table, k);
  status = CheckBest(best, count);
  if (status == EE_OK) status = CheckScratch(parts.all, scratch);
  if (status != EE_OK) return status;

  double* const memory = static_cast<double*>(scratch.data);
  TopKInput input{{}, k, best.bias, EE_FLOAT32, nullptr};
  input.best = static_cast<Candidate*>(scratch.data) + parts.best.saturated();
  size_t bad = 0;
  for (size_t state = 0; state < count && status == EE_OK; state += kStatesAtOnce) {
    const size_t states = count - state < kStatesAtOnce ? count - state : kStatesAtOnce;
    input.logits = kernel.Prepare(table, hidden + state * Columns(table), states, memory);
    for (size_t i = 0; i < states * (k + 1); ++i) input.best[i] = kNone;
    status = kernel.Run(table, input, 0, static_cast<size_t>(table.num_embeddings),
                        memory + parts.own.saturated(), &bad);
    if (status == EE_OK) WriteBest(input, state, best);
  }
  return Report(status, bad, bad_row);
}

}  // namespace
}  // namespace edge_embed::c_api

ee_status ee_topk(const ee_table* table, const float* hidden, int64_t batch, const ee_best* best,
                  void* scratch, size_t scratch_bytes, int64_t* bad_row) {
  using namespace edge_embed::c_api;
  if (bad_row != nullptr) *bad_row = -1;
  if (best == nullptr) return EE_NULL_POINTER;
  return WithTable(table, [&](const auto& sound, const auto&) {
    return FindBest(sound, hidden, batch, *best, {scratch, scratch_bytes}, bad_row);
  });
}
