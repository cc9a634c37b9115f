#include "tflite/use.h"

namespace edge_embed::tflite {
namespace {

constexpr const UseKind* kKinds[] = {&kRows, &kBag, &kLogits, &kTopK};

const UseKind* FindKind(Text name) {
  for (const UseKind* kind : kKinds) {
    if (name.Is(kind->name)) return kind;
  }
  return nullptr;
}

void ReadUse(Fields* fields, Text method, Use* use) {
  use->outputs[kOutput] = fields->TensorIndex("output", Only(EE_FLOAT32));
  if (ReadTable(fields, method, &use->table_memory, &use->table)) use->kind->read(fields, use);
}

}  // namespace

Use* MakeUse(Context* context, Text line, Status* status) {
  Text rest = line, name{}, method{};
  TakeWord(&rest, &name);
  TakeWord(&rest, &method);
  Fields fields(context, rest, name, method);
  *status = kOk;
  if (fields.Has("output") && !fields.HasTensor("output")) return nullptr;
  *status = kError;
  auto* const use = static_cast<Use*>(calloc(1, sizeof(Use)));
  if (use == nullptr) return nullptr;
  for (int& input : use->inputs) input = kNoTensor;
  for (int& output : use->outputs) output = kNoTensor;
  use->kind = FindKind(name);
  if (use->kind == nullptr) {
    fields.Fail("use", "an unknown use", "rows, bag, logits or topk");
  } else {
    ReadUse(&fields, method, use);
  }
  if (fields.ok()) {
    *status = kOk;
    return use;
  }
  FreeUse(use);
  return nullptr;
}

void FreeUse(Use* use) {
  if (use == nullptr) return;
  use->table_memory.Free();
  use->scratch.Free();
  use->widened.Free();
  free(use);
}

void ReserveScratch(Fields* fields, ee_use what, Use* use) {
  size_t bytes = 0;
  const ee_status status = ee_scratch_bytes(&use->table.c, what, use->k, &bytes);
  if (status != EE_OK) return fields->Fail("table", ee_status_message(status), "a valid table");
  use->scratch_bytes = bytes;
  if (!use->scratch.Reserve(bytes))
    fields->Fail("table", "not enough memory for its scratch buffer", "smaller rows");
}

Status Resize(Context* context, int tensor, const int* dims, size_t rank) {
  auto* const array = static_cast<IntArray*>(malloc(sizeof(int) * (rank + 1)));
  if (array == nullptr) return kError;
  array->size = static_cast<int>(rank);
  for (size_t i = 0; i < rank; ++i) array->data[i] = dims[i];
  return context->ResizeTensor(context, &TensorAt(context, tensor), array);
}

Status ResizeLike(Context* context, const Tensor& input, size_t kept, int64_t last, int tensor) {
  int dims[kMaxRank + 1];
  if (kept > kMaxRank || last < 0 || last > INT32_MAX) {
    context->ReportError(context,
                         "edge_embed: got a tensor of %d dimensions with %lld numbers per item, expected "
                         "at most %d dimensions and fewer than 2^31 numbers: reshape it",
                         static_cast<int>(kept), static_cast<long long>(last), static_cast<int>(kMaxRank));
    return kError;
  }
  for (size_t i = 0; i < kept; ++i) dims[i] = input.dims->data[i];
  dims[kept] = static_cast<int>(last);
  return Resize(context, tensor, dims, kept + 1);
}

Status Report(Context* context, const Use& use, ee_status status, int64_t position) {
  if (status == EE_OK) return kOk;
  const auto at = static_cast<long long>(position);
  if (status == EE_ID_OUT_OF_RANGE) {
    const Tensor& ids = TensorAt(context, use.inputs[kIds]);
    const long long id = ids.type == kInt32 ? static_cast<const int32_t*>(ids.data)[position]
                                            : static_cast<const int64_t*>(ids.data)[position];
    context->ReportError(
        context,
        "edge_embed: got id %lld at position %lld of the flattened ids, expected 0 <= id < %lld (the "
        "rows of the table): correct the ids",
        id, at, static_cast<long long>(use.table.num_embeddings));
  } else if (position >= 0) {
    context->ReportError(context, "edge_embed: %s; at position %lld of the %s%s", ee_status_message(status),
                         at,
                         status == EE_BAD_OFFSETS        ? "offsets"
                         : use.inputs[kIds] != kNoTensor ? "flattened ids"
                                                         : "rows",
                         status == EE_BAD_OFFSETS ? ": correct the offsets" : kDamaged);
  } else {
    context->ReportError(context, "edge_embed: %s: run a smaller batch", ee_status_message(status));
  }
  return kError;
}

}  // namespace edge_embed::tflite
