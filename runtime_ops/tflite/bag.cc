// bag: ids int32 | int64 [N], offsets int32 | int64 [B+1], sample_weights float32 [N] -> output float32
// [B,d].
//
// Bag b contains the ids at positions offsets[b] .. offsets[b+1]-1. Without offsets, ids are [B, L], and a
// row is a bag. `mode` is 0 (sum), 1 (mean) or 2 (max). sample_weights are optional and require mode 0.
#include "tflite/use.h"

namespace edge_embed::tflite {
namespace {

void Read(Fields* fields, Use* use) {
  use->inputs[kIds] = fields->TensorIndex("ids", kIntegers);
  use->inputs[kOffsets] = fields->TensorIndexOr("offsets", kIntegers);
  use->inputs[kSampleWeights] = fields->TensorIndexOr("sample_weights", Only(EE_FLOAT32));
  const int64_t mode = fields->Integer("mode");
  if (mode < 0 || mode > 2 || (mode != 0 && use->inputs[kSampleWeights] != kNoTensor)) {
    fields->Fail("mode", "an unknown mode, or sample_weights with it",
                 "0, 1 or 2, and sample_weights only with 0");
  }
  use->mode = static_cast<int32_t>(mode);
  ReserveScratch(fields, EE_BAG, use);
}

Status FailShape(Context* context) {
  context->ReportError(
      context,
      "edge_embed: got shapes of ids, offsets and sample_weights that do not match, expected ids "
      "[N] with offsets [bags + 1] or ids [bags, L] without, and one sample weight for each id: "
      "correct the inputs");
  return kError;
}

bool ShapesFit(Context* context, const Use& use) {
  const Tensor& ids = TensorAt(context, use.inputs[kIds]);
  if (use.inputs[kSampleWeights] != kNoTensor &&
      TensorAt(context, use.inputs[kSampleWeights]).bytes / sizeof(float) !=
          static_cast<size_t>(IdCount(ids))) {
    return false;
  }
  if (use.inputs[kOffsets] == kNoTensor) return ids.dims->size == 2;
  const Tensor& offsets = TensorAt(context, use.inputs[kOffsets]);
  return ids.dims->size == 1 && offsets.dims->size == 1 && offsets.dims->data[0] >= 1;
}

int64_t CountBags(Context* context, const Use& use) {
  if (use.inputs[kOffsets] == kNoTensor) return TensorAt(context, use.inputs[kIds]).dims->data[0];
  return TensorAt(context, use.inputs[kOffsets]).dims->data[0] - 1;
}

Status Prepare(Context* context, Use* use) {
  if (!ShapesFit(context, *use)) return FailShape(context);
  const int64_t bags = CountBags(context, *use), columns = use->table.columns;
  if (columns > INT32_MAX) return FailShape(context);
  const int dims[] = {static_cast<int>(bags), static_cast<int>(columns)};
  return Resize(context, use->outputs[kOutput], dims, 2);
}

// Offsets for the C interface; null if the allocation fails.
const int64_t* WideOffsets(Context* context, Use* use, int64_t bags) {
  const bool given = use->inputs[kOffsets] != kNoTensor;
  const void* const data = given ? TensorAt(context, use->inputs[kOffsets]).data : nullptr;
  if (given && TensorAt(context, use->inputs[kOffsets]).type == kInt64)
    return static_cast<const int64_t*>(data);
  if (!use->widened.Reserve((static_cast<size_t>(bags) + 1) * sizeof(int64_t))) return nullptr;
  auto* const wide = static_cast<int64_t*>(use->widened.data);
  const int64_t length = given ? 0 : TensorAt(context, use->inputs[kIds]).dims->data[1];
  for (int64_t i = 0; i <= bags; ++i) wide[i] = given ? static_cast<const int32_t*>(data)[i] : i * length;
  return wide;
}

Status Run(Context* context, Use* use) {
  const Tensor &ids = TensorAt(context, use->inputs[kIds]),
               &output = TensorAt(context, use->outputs[kOutput]);
  const bool weighted = use->inputs[kSampleWeights] != kNoTensor && IdCount(ids) > 0;
  ee_bags bags{};
  bags.num_bags = CountBags(context, *use);
  bags.offsets = WideOffsets(context, use, bags.num_bags);
  bags.sample_weights =
      weighted ? static_cast<const float*>(TensorAt(context, use->inputs[kSampleWeights]).data) : nullptr;
  bags.mode = use->mode;
  const ee_ids all = ToIds(ids);
  int64_t bad = -1;
  const ee_status status = ee_bag(&use->table.c, &all, &bags, static_cast<float*>(output.data), output.bytes,
                                  use->scratch.data, use->scratch_bytes, &bad);
  return Report(context, *use, status, bad);
}

}  // namespace

constexpr UseKind kBag{"bag", Read, Prepare, Run};

}  // namespace edge_embed::tflite
