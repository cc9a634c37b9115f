// edge_embed.<X>Embedding: ids (int32 | int64, any rank), the table -> rows [*ids.shape, d].
#ifndef EDGE_EMBED_ORT_ROWS_H_
#define EDGE_EMBED_ORT_ROWS_H_

#include "ort/op.h"
#include "ort/result.h"

namespace edge_embed::ort {

struct Rows {
  template <class Method>
  static constexpr const char* Name() {
    return Method::kRows;
  }
  static constexpr InputSpec kInputs[] = {{"ids", kIdTypes}};
  static constexpr size_t kFloatInput = kNoFloatInput;
  static constexpr size_t kOutputs = 1;
  static constexpr bool kMakesRows = true;

  struct Attributes {};
  static OrtStatus* ReadAttributes(const Node&, const OrtKernelInfo*, Attributes*) { return nullptr; }

  template <class Table>
  static OrtStatus* Compute(const Node& node, const Attributes&, OrtKernelContext* context,
                            const Table& table, ee_type type) {
    Tensor tensor;
    if (OrtStatus* status = ReadInput(node, context, 0, kInputs[0].name, &tensor)) return status;
    const Ids ids{tensor.data, tensor.type, tensor.count};
    Output rows{};
    if (OrtStatus* status = MakeRows(node, context, tensor, Columns(table), type, &rows)) return status;
    if (ids.count == 0) return nullptr;

    const auto& kernel = ChosenKernels(table).gather;
    FirstError error;
    const auto work = [&](size_t begin, size_t end, double* scratch) {
      size_t bad = 0;
      const ee_status status = kernel.run(table, ids, begin, end, rows, scratch, &bad);
      if (status != EE_OK) error.Note(status, bad);
    };
    if (OrtStatus* status = ForRows(node, context, ids.count, RowWork(table), kernel.scratch(table), work)) {
      return status;
    }
    return error.none() ? nullptr
                        : FailRow(node, error, ids.At(error.position()), "of the flattened ids", table);
  }

 private:
  static OrtStatus* MakeRows(const Node& node, OrtKernelContext* context, const Tensor& ids, size_t columns,
                             ee_type type, Output* rows) {
    size_t bytes;
    if (!OutputBytes(ids.count, columns, type, &bytes)) return FailResultSize(node, ids.count, columns);
    int64_t dims[kMaxRank + 1];
    for (size_t i = 0; i < ids.rank; ++i) dims[i] = ids.dims[i];
    dims[ids.rank] = static_cast<int64_t>(columns);
    return MakeOutput(node, context, 0, dims, ids.rank + 1, type, rows);
  }
};

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_ROWS_H_
