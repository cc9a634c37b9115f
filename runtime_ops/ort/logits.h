// edge_embed.<X>Logits: hidden (float32 | float16) [*, d], the table -> logits [*, n], hidden @ rows
// transposed.
//
// The table is never whole in memory: every row is made, multiplied with all of hidden, and forgotten.
#ifndef EDGE_EMBED_ORT_LOGITS_H_
#define EDGE_EMBED_ORT_LOGITS_H_

#include "ort/op.h"
#include "ort/result.h"

namespace edge_embed::ort {

// Reads hidden [*, columns] as float32 [batch, columns]; `buffer` keeps it where it had another type.
struct Hidden {
  Tensor tensor;
  const float* data;
  size_t batch;
};
OrtStatus* ReadHidden(const Node& node, const OrtKernelContext* context, size_t columns, Buffer* buffer,
                      Hidden* hidden);

struct Logits {
  template <class Method>
  static constexpr const char* Name() {
    return Method::kLogits;
  }
  static constexpr InputSpec kInputs[] = {{"hidden", kFloats}};
  static constexpr size_t kFloatInput = 0;

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
    if (OrtStatus* status = MakeOutput(node, context, dims, hidden.tensor.rank, type, &logits)) return status;
    if (hidden.batch == 0) return nullptr;

    const auto& kernel = ChosenKernels(table).logits;
    FirstError error;
    const auto work = [&](size_t begin, size_t end, double* scratch) {
      size_t bad = 0;
      const ee_status status =
          kernel.run(table, hidden.data, hidden.batch, begin, end, logits, scratch, &bad);
      if (status != EE_OK) error.Note(status, bad);
    };
    const LogitsWork head = HeadWork(table);
    const Size row_work = Size(hidden.batch) * head.row, call_work = Size(hidden.batch) * head.call;
    if (OrtStatus* status =
            ForRows(node, context, rows, row_work.saturated(), call_work, kernel.scratch(table), work)) {
      return status;
    }
    return error.none() ? nullptr
                        : FailTableRow(node, error.status(), static_cast<int64_t>(error.position()));
  }
};

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_LOGITS_H_
