// edge_embed.<X>Logits: hidden (float32 | float16) [*, d], the table -> logits [*, n], hidden @ rows
// transposed.
//
// The table is never materialised: each row is computed, multiplied with all hidden states, and discarded.
#ifndef EDGE_EMBED_ORT_LOGITS_H_
#define EDGE_EMBED_ORT_LOGITS_H_

#include "ort/op.h"
#include "ort/result.h"

namespace edge_embed::ort {

// Reads hidden [*, columns] as float32 [batch, columns]. `buffer` holds it if it has another type.
struct Hidden {
  Tensor tensor;
  const float* data;
  size_t batch;
};
OrtStatus* ReadHidden(const Node& node, const OrtKernelContext* context, size_t columns, Buffer* buffer,
                      Hidden* hidden);

// This number of states shares the prepared data and one pass over the codes. It bounds their memory.
constexpr size_t kStatesAtOnce = 64;

// Calls some(first state, prepared input) until all states are processed.
template <class Table, class Kernel, class Some>
OrtStatus* ForStates(const Node& node, const Table& table, const Kernel& kernel, const Hidden& hidden,
                     const Some& some) {
  const size_t columns = Columns(table), most = hidden.batch < kStatesAtOnce ? hidden.batch : kStatesAtOnce;
  Buffer buffer(*node.api);
  if (OrtStatus* status = buffer.Allocate(node, kernel.Prepared(table, most) + 1, sizeof(double)))
    return status;
  for (size_t state = 0; state < hidden.batch; state += kStatesAtOnce) {
    const size_t left = hidden.batch - state, states = left < most ? left : most;
    const LogitsInput input =
        kernel.Prepare(table, hidden.data + state * columns, states, static_cast<double*>(buffer.data()));
    if (OrtStatus* status = some(state, input)) return status;
  }
  return nullptr;
}

struct Logits {
  template <class Method>
  static constexpr const char* Name() {
    return Method::kLogits;
  }
  static constexpr InputSpec kInputs[] = {{"hidden", kFloats}};
  static constexpr size_t kFloatInput = 0;
  static constexpr size_t kOutputs = 1;
  static constexpr bool kMakesRows = false;

  struct Attributes {};
  static OrtStatus* ReadAttributes(const Node&, const OrtKernelInfo*, Attributes*) { return nullptr; }

  template <class Table>
  static OrtStatus* Compute(const Node& node, const Attributes&, OrtKernelContext* context,
                            const Table& table, ee_type type) {
    const size_t columns = Columns(table), rows = static_cast<size_t>(table.num_embeddings);
    Buffer buffer(*node.api);
    Hidden hidden{};
    if (OrtStatus* status = ReadHidden(node, context, columns, &buffer, &hidden)) return status;
    size_t bytes;
    if (!OutputBytes(hidden.batch, rows, type, &bytes)) return FailResultSize(node, hidden.batch, rows);
    int64_t* dims = hidden.tensor.dims;
    dims[hidden.tensor.rank - 1] = table.num_embeddings;
    Output logits{};
    if (OrtStatus* status = MakeOutput(node, context, 0, dims, hidden.tensor.rank, type, &logits))
      return status;
    if (hidden.batch == 0) return nullptr;

    const auto& kernel = ChosenKernels(table).logits;
    FirstError error;
    const auto some_states = [&](size_t state, const LogitsInput& input) {
      char* const data = static_cast<char*>(logits.data) + state * rows * SizeOf(type);
      const LogitsOutput out{{data, type}, rows, 0};
      const auto work = [&](size_t begin, size_t end, double* scratch) {
        size_t bad = 0;
        const ee_status status = kernel.run(table, input, begin, end, out, scratch, &bad);
        if (status != EE_OK) error.Note(status, bad);
      };
      const Size row_work = Size(input.batch) * LogitsWork(table);
      return ForRows(node, context, rows, row_work.saturated(), kernel.scratch(table), work);
    };
    if (OrtStatus* status = ForStates(node, table, kernel, hidden, some_states)) return status;
    return error.none() ? nullptr
                        : FailTableRow(node, error.status(), static_cast<int64_t>(error.position()));
  }
};

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_LOGITS_H_
