// logits: hidden float32 [*, d] -> output float32 [*, n], the products of hidden with every row.
//
// topk: hidden float32 [*, d], optional bias float32 [n] -> output float32 [*, k] and output_ids int32 |
// int64 [*, k]. They are the k largest logits plus bias and their rows, in descending order, equal logits by
// lowest row.
#include "tflite/use.h"

namespace edge_embed::tflite {
namespace {

void ReadLogits(Fields* fields, Use* use) {
  use->inputs[kHidden] = fields->TensorIndex("hidden", Only(EE_FLOAT32));
  ReserveScratch(fields, EE_LOGITS, use);
}

void ReadTopK(Fields* fields, Use* use) {
  use->inputs[kHidden] = fields->TensorIndex("hidden", Only(EE_FLOAT32));
  use->inputs[kBias] = fields->TensorIndexOr("bias", Only(EE_FLOAT32));
  use->outputs[kOutputIds] = fields->TensorIndex("output_ids", kIntegers);
  use->k = fields->Integer("k");
  ReserveScratch(fields, EE_TOPK, use);
}

bool HiddenFits(Context* context, const Use& use) {
  const IntArray& dims = *TensorAt(context, use.inputs[kHidden]).dims;
  if (dims.size >= 1 && dims.data[dims.size - 1] == use.table.columns) return true;
  context->ReportError(
      context,
      "edge_embed: got hidden of %d dimensions, the last of %d, expected the columns of the table "
      "(%lld): give vectors of that size",
      dims.size, dims.size < 1 ? 0 : dims.data[dims.size - 1], static_cast<long long>(use.table.columns));
  return false;
}

bool BiasFits(Context* context, const Use& use) {
  if (use.inputs[kBias] == kNoTensor) return true;
  const uint64_t numbers = TensorAt(context, use.inputs[kBias]).bytes / sizeof(float);
  if (numbers == static_cast<uint64_t>(use.table.num_embeddings)) return true;
  context->ReportError(
      context, "edge_embed: got a bias of %llu numbers, expected one for each of %lld rows: correct it",
      static_cast<unsigned long long>(numbers), static_cast<long long>(use.table.num_embeddings));
  return false;
}

Status ResizeOutput(Context* context, const Use& use, int64_t last, int output) {
  if (!HiddenFits(context, use)) return kError;
  const Tensor& hidden = TensorAt(context, use.inputs[kHidden]);
  return ResizeLike(context, hidden, static_cast<size_t>(hidden.dims->size) - 1, last, output);
}

Status PrepareLogits(Context* context, Use* use) {
  return ResizeOutput(context, *use, use->table.num_embeddings, use->outputs[kOutput]);
}

Status PrepareTopK(Context* context, Use* use) {
  if (!BiasFits(context, *use)) return kError;
  const Status values = ResizeOutput(context, *use, use->k, use->outputs[kOutput]);
  return values == kOk ? ResizeOutput(context, *use, use->k, use->outputs[kOutputIds]) : values;
}

int64_t Batch(const Tensor& hidden, const Use& use) {
  return static_cast<int64_t>(hidden.bytes / sizeof(float)) / use.table.columns;
}

Status RunLogits(Context* context, Use* use) {
  const Tensor &hidden = TensorAt(context, use->inputs[kHidden]),
               &output = TensorAt(context, use->outputs[kOutput]);
  int64_t bad = -1;
  const ee_status status =
      ee_logits(&use->table.c, static_cast<const float*>(hidden.data), Batch(hidden, *use),
                static_cast<float*>(output.data), output.bytes, use->scratch.data, use->scratch_bytes, &bad);
  return Report(context, *use, status, bad);
}

Status RunTopK(Context* context, Use* use) {
  const Tensor &hidden = TensorAt(context, use->inputs[kHidden]),
               &output = TensorAt(context, use->outputs[kOutput]);
  const Tensor& ids = TensorAt(context, use->outputs[kOutputIds]);
  const bool narrow = ids.type == kInt32;
  const size_t count = ids.bytes / (narrow ? sizeof(int32_t) : sizeof(int64_t));
  if (narrow && !use->widened.Reserve(count * sizeof(int64_t)))
    return Report(context, *use, EE_SHORT_SCRATCH, -1);

  ee_best best{};
  best.k = use->k;
  best.bias = use->inputs[kBias] == kNoTensor
                  ? nullptr
                  : static_cast<const float*>(TensorAt(context, use->inputs[kBias]).data);
  best.values = static_cast<float*>(output.data);
  best.values_bytes = output.bytes;
  best.ids = static_cast<int64_t*>(narrow ? use->widened.data : ids.data);
  best.ids_bytes = count * sizeof(int64_t);
  int64_t bad = -1;
  const ee_status status = ee_topk(&use->table.c, static_cast<const float*>(hidden.data), Batch(hidden, *use),
                                   &best, use->scratch.data, use->scratch_bytes, &bad);
  if (narrow && status == EE_OK) {
    auto* const rows = static_cast<int32_t*>(ids.data);
    for (size_t i = 0; i < count; ++i) rows[i] = static_cast<int32_t>(best.ids[i]);
  }
  return Report(context, *use, status, bad);
}

}  // namespace

constexpr UseKind kLogits{"logits", ReadLogits, PrepareLogits, RunLogits};
constexpr UseKind kTopK{"topk", ReadTopK, PrepareTopK, RunTopK};

}  // namespace edge_embed::tflite
