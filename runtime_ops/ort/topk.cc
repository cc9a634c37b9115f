#include "ort/topk.h"

namespace edge_embed::ort {

OrtStatus* ReadTopKAttributes(const Node& node, const OrtKernelInfo* info, TopKAttributes* attributes) {
  int64_t k = 0, biased = 0;
  if (OrtStatus* status = ReadInt(node, info, "k", &k)) return status;
  if (OrtStatus* status = ReadInt(node, info, "biased", &biased)) return status;
  if (CheckK(k, kMaxTopKRows) == EE_OK && (biased == 0 || biased == 1)) {
    attributes->k = static_cast<size_t>(k);
    attributes->biased = biased == 1;
    return nullptr;
  }
  Message message = Begin(node);
  message << "got k=" << k << " and biased=" << biased << ", expected k from 1 to " << EE_MAX_K
          << ", and biased 0 or 1" << kDamaged;
  return Fail(node, message);
}

OrtStatus* CheckRows(const Node& node, const TopKAttributes& attributes, int64_t rows) {
  const int64_t k = static_cast<int64_t>(attributes.k);
  const ee_status status = CheckK(k, rows);
  if (status == EE_OK) return nullptr;
  Message message = Begin(node);
  message << StatusMessage(status) << "; got k=" << k << " and " << rows << " rows" << kDamaged;
  return Fail(node, message);
}

OrtStatus* ReadBias(const Node& node, const TopKAttributes& attributes, const OrtKernelContext* context,
                    int64_t rows, ee_type type, const void** bias) {
  if (!attributes.biased) return nullptr;
  Tensor tensor;
  if (OrtStatus* status = ReadInput(node, context, 1, "bias", &tensor)) return status;
  if (tensor.rank == 1 && tensor.dims[0] == rows && tensor.type == type) {
    *bias = tensor.data;
    return nullptr;
  }
  Message message = Begin(node);
  message << "got bias of shape " << tensor << (tensor.type == type ? "" : " and another type")
          << ", expected [" << rows
          << "] (one for each row) in the type of hidden: give one number for each row";
  return Fail(node, message);
}

void WriteBest(const TopKInput& input, size_t state, const Output& values, int64_t* ids) {
  for (size_t b = 0; b < input.logits.batch; ++b) {
    const Best best = input.BestOf(b);
    Sort(best.heap, best.k);
    for (size_t i = 0; i < best.k; ++i) {
      const double value = static_cast<double>(LogitOf(best.heap[i]));
      Narrow(&value, 1, values.data, values.type, (state + b) * best.k + i);
      ids[(state + b) * best.k + i] = RowOf(best.heap[i]);
    }
  }
}

}  // namespace edge_embed::ort
