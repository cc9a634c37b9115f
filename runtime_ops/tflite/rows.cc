// rows: ids int32 | int64 [*] -> output float32 [*, d].
#include "tflite/use.h"

namespace edge_embed::tflite {
namespace {

void Read(Fields* fields, Use* use) {
  use->inputs[kIds] = fields->TensorIndex("ids", kIntegers);
  ReserveScratch(fields, EE_GATHER, use);
}

Status Prepare(Context* context, Use* use) {
  const Tensor& ids = TensorAt(context, use->inputs[kIds]);
  return ResizeLike(context, ids, static_cast<size_t>(ids.dims->size), use->table.columns,
                    use->outputs[kOutput]);
}

Status Run(Context* context, Use* use) {
  const Tensor &ids = TensorAt(context, use->inputs[kIds]),
               &output = TensorAt(context, use->outputs[kOutput]);
  const ee_ids all = ToIds(ids);
  int64_t bad = -1;
  const ee_status status = ee_gather(&use->table.c, &all, static_cast<float*>(output.data), output.bytes,
                                     use->scratch.data, use->scratch_bytes, &bad);
  return Report(context, *use, status, bad);
}

}  // namespace

constexpr UseKind kRows{"rows", Read, Prepare, Run};

}  // namespace edge_embed::tflite
