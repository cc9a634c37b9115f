// The k largest of the products with every row.
#include "kernels/topk.h"
#include "c_api/call.h"

namespace edge_embed::c_api {
namespace {

// The scratch of a head that gives the k best: what it prepares, its own, and the best of some states.
template <class Table>
struct TopKScratch {
  TopKScratch(const TopK<Table>& kernel, const Table& table, size_t k)
      : own(kernel.Prepared(table, kStatesAtOnce)),
        best(own + kernel.scratch(table)),
        all(best + Size(kStatesAtOnce) * (k + 1)) {}

  ee_status Bytes(size_t* bytes) const {
    uint64_t fitting;
    if (!(all * sizeof(double)).Get(&fitting)) return EE_SIZE_OVERFLOW;
    *bytes = static_cast<size_t>(fitting);
    return EE_OK;
  }

  Size own, best, all;  // doubles before them, and in all
};

template <class CTable>
ee_status TopKScratchBytes(const CTable* c_table, int64_t k, size_t* bytes) {
  if (bytes == nullptr) return EE_NULL_POINTER;
  return WithTable(c_table, [&](const auto& table) {
    const ee_status status = CheckK(k, table.num_embeddings);
    if (status != EE_OK) return status;
    const TopK kernel(ChosenVariant(), table);
    return TopKScratch(kernel, table, static_cast<size_t>(k)).Bytes(bytes);
  });
}

ee_status CheckBest(const ee_topk& topk, Size batch, const Buffer& scratch, size_t scratch_bytes) {
  uint64_t values, ids;
  const Size count = batch * static_cast<uint64_t>(topk.k);
  if (!(count * sizeof(float)).Get(&values) || !(count * sizeof(int64_t)).Get(&ids)) return EE_SIZE_OVERFLOW;
  if (topk.values_bytes < values || topk.ids_bytes < ids) return EE_SHORT_OUTPUT;
  if (scratch.bytes < scratch_bytes) return EE_SHORT_SCRATCH;
  return topk.values == nullptr || topk.ids == nullptr || scratch.data == nullptr ? EE_NULL_POINTER : EE_OK;
}

// The best of the states from `state` on.
void WriteBest(const TopKInput& input, size_t state, const ee_topk& topk) {
  for (size_t b = 0; b < input.head.batch; ++b) {
    const Best best = input.BestOf(b);
    Sort(best.heap, best.k);
    for (size_t i = 0; i < best.k; ++i) {
      topk.values[(state + b) * best.k + i] = LogitOf(best.heap[i]);
      topk.ids[(state + b) * best.k + i] = RowOf(best.heap[i]);
    }
  }
}

template <class Table>
ee_status FindBest(const Table& table, const float* hidden, int64_t batch, const ee_topk& topk,
                   const Buffer& scratch, int64_t* bad_row) {
  ee_status status = CheckK(topk.k, table.num_embeddings);
  if (status != EE_OK) return status;
  if (batch < 0) return EE_BAD_SHAPE;
  if (batch == 0) return EE_OK;
  if (hidden == nullptr) return EE_NULL_POINTER;
  const TopK kernel(ChosenVariant(), table);
  const size_t count = static_cast<size_t>(batch), k = static_cast<size_t>(topk.k);
  const TopKScratch parts(kernel, table, k);
  size_t needed;
  status = parts.Bytes(&needed);
  if (status == EE_OK) status = CheckBest(topk, count, scratch, needed);
  if (status != EE_OK) return status;

  double* const memory = static_cast<double*>(scratch.data);
  TopKInput input{{}, k, topk.bias, EE_FLOAT32, nullptr};
  input.best = static_cast<Candidate*>(scratch.data) + parts.best.saturated();
  size_t bad = 0;
  for (size_t state = 0; state < count && status == EE_OK; state += kStatesAtOnce) {
    const size_t states = count - state < kStatesAtOnce ? count - state : kStatesAtOnce;
    input.head = kernel.Prepare(table, hidden + state * Columns(table), states, memory);
    for (size_t i = 0; i < states * (k + 1); ++i) input.best[i] = kNone;
    status = kernel.Run(table, input, 0, static_cast<size_t>(table.num_embeddings),
                        memory + parts.own.saturated(), &bad);
    if (status == EE_OK) WriteBest(input, state, topk);
  }
  return Report(status, bad, bad_row);
}

template <class CTable>
ee_status WriteTopK(const CTable* c_table, const float* hidden, int64_t batch, const ee_topk* topk,
                    const Buffer& scratch, int64_t* bad_row) {
  if (bad_row != nullptr) *bad_row = -1;
  if (topk == nullptr) return EE_NULL_POINTER;
  return WithTable(
      c_table, [&](const auto& table) { return FindBest(table, hidden, batch, *topk, scratch, bad_row); });
}

}  // namespace
}  // namespace edge_embed::c_api

ee_status ee_dpq_topk_scratch_bytes(const ee_dpq_table* table, int64_t k, size_t* bytes) {
  return edge_embed::c_api::TopKScratchBytes(table, k, bytes);
}

ee_status ee_dpq_topk_f32(const ee_dpq_table* table, const float* hidden, int64_t batch, const ee_topk* topk,
                          void* scratch, size_t scratch_bytes, int64_t* bad_row) {
  return edge_embed::c_api::WriteTopK(table, hidden, batch, topk, {scratch, scratch_bytes}, bad_row);
}

ee_status ee_ant_topk_scratch_bytes(const ee_ant_table* table, int64_t k, size_t* bytes) {
  return edge_embed::c_api::TopKScratchBytes(table, k, bytes);
}

ee_status ee_ant_topk_f32(const ee_ant_table* table, const float* hidden, int64_t batch, const ee_topk* topk,
                          void* scratch, size_t scratch_bytes, int64_t* bad_row) {
  return edge_embed::c_api::WriteTopK(table, hidden, batch, topk, {scratch, scratch_bytes}, bad_row);
}

ee_status ee_tt_topk_scratch_bytes(const ee_tt_table* table, int64_t k, size_t* bytes) {
  return edge_embed::c_api::TopKScratchBytes(table, k, bytes);
}

ee_status ee_tt_topk_f32(const ee_tt_table* table, const float* hidden, int64_t batch, const ee_topk* topk,
                         void* scratch, size_t scratch_bytes, int64_t* bad_row) {
  return edge_embed::c_api::WriteTopK(table, hidden, batch, topk, {scratch, scratch_bytes}, bad_row);
}
