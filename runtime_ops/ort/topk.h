// edge_embed.<X>TopK: hidden (float32 | float16) [*, d], bias [n], the table -> values [*, k] and ids int64
// [*, k]. They are the k largest of hidden @ rows transposed + bias, in descending order, equal values by
// lowest id.
//
// bias has the type of hidden and is read only if `biased` is 1. The logits are never all in memory.
#ifndef EDGE_EMBED_ORT_TOPK_H_
#define EDGE_EMBED_ORT_TOPK_H_

#include "kernels/topk.h"
#include "ort/logits.h"

namespace edge_embed::ort {

struct TopKAttributes {
  size_t k;
  bool biased;
};

OrtStatus* ReadTopKAttributes(const Node& node, const OrtKernelInfo* info, TopKAttributes* attributes);

// Refuses a table with fewer rows than k, and one with too many rows.
OrtStatus* CheckRows(const Node& node, const TopKAttributes& attributes, int64_t rows);

// Null if there is no bias.
OrtStatus* ReadBias(const Node& node, const TopKAttributes& attributes, const OrtKernelContext* context,
                    int64_t rows, ee_type type, const void** bias);

// Writes the candidates of the states from `state` on.
void WriteBest(const TopKInput& input, size_t state, const Output& values, int64_t* ids);

struct BestOf {
  template <class Method>
  static constexpr const char* Name() {
    return Method::kTopK;
  }
  static constexpr InputSpec kInputs[] = {{"hidden", kFloats}, {"bias", kFloats}};
  static constexpr size_t kFloatInput = 0;
  static constexpr size_t kOutputs = 2;
  static constexpr bool kMakesRows = false;

  using Attributes = TopKAttributes;
  static constexpr auto ReadAttributes = ReadTopKAttributes;

  template <class Table>
  static OrtStatus* Compute(const Node& node, const Attributes& attributes, OrtKernelContext* context,
                            const Table& table, ee_type type) {
    const size_t k = attributes.k;
    Buffer buffer(*node.api);
    Hidden hidden{};
    TopKInput input{{}, k, nullptr, type, nullptr};
    if (OrtStatus* status = CheckRows(node, attributes, table.num_embeddings)) return status;
    if (OrtStatus* status = ReadHidden(node, context, Columns(table), &buffer, &hidden)) return status;
    if (OrtStatus* status = ReadBias(node, attributes, context, table.num_embeddings, type, &input.bias)) {
      return status;
    }
    int64_t* dims = hidden.tensor.dims;
    dims[hidden.tensor.rank - 1] = static_cast<int64_t>(k);
    Output values{}, ids{};
    if (OrtStatus* status = MakeOutput(node, context, 0, dims, hidden.tensor.rank, type, &values))
      return status;
    if (OrtStatus* status = MakeOutput(node, context, 1, dims, hidden.tensor.rank, EE_INT64, &ids))
      return status;
    if (hidden.batch == 0) return nullptr;

    const TopK<Table> kernel(ChosenVariant(), table);
    Buffer best(*node.api);
    const size_t most = hidden.batch < kStatesAtOnce ? hidden.batch : kStatesAtOnce;
    if (OrtStatus* status = best.Allocate(node, Size(most) * (k + 1), sizeof(Candidate))) return status;
    input.best = static_cast<Candidate*>(best.data());
    FirstError error;
    const auto some_states = [&](size_t state, const LogitsInput& logits) {
      input.logits = logits;
      for (size_t i = 0; i < logits.batch * (k + 1); ++i) input.best[i] = kNone;
      const auto work = [&](size_t begin, size_t end, double* scratch) {
        size_t bad = 0;
        const ee_status status = kernel.Run(table, input, begin, end, scratch, &bad);
        if (status != EE_OK) error.Note(status, bad);
      };
      const Size row_work = Size(logits.batch) * LogitsWork(table);
      OrtStatus* const status = ForRows(node, context, static_cast<size_t>(table.num_embeddings),
                                        row_work.saturated(), kernel.scratch(table), work);
      if (status == nullptr && error.none()) WriteBest(input, state, values, static_cast<int64_t*>(ids.data));
      return status;
    };
    if (OrtStatus* status = ForStates(node, table, kernel, hidden, some_states)) return status;
    return error.none() ? nullptr
                        : FailTableRow(node, error.status(), static_cast<int64_t>(error.position()));
  }
};

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_TOPK_H_
