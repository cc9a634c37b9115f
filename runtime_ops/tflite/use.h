// A kernel: one line of the manifest, run in place of the operators that it replaces.
#ifndef EDGE_EMBED_TFLITE_USE_H_
#define EDGE_EMBED_TFLITE_USE_H_

#include "tflite/table.h"

namespace edge_embed::tflite {

constexpr size_t kMaxRank = 8;  // the largest rank that the runtimes support

// Names in the manifest: ids, ... bias, and output, output_ids.
enum Input : size_t { kIds, kOffsets, kSampleWeights, kHidden, kBias, kNumInputs };
enum Output : size_t { kOutput, kOutputIds, kNumOutputs };

struct Use;

// The part that differs between uses. All functions report errors to the runtime.
struct UseKind {
  const char* name;
  void (*read)(Fields* fields, Use* use);     // reads the fields of the use
  Status (*prepare)(Context* context, Use*);  // checks the shapes of inputs, and sets those of outputs
  Status (*run)(Context* context, Use* use);
};

struct Use {
  const UseKind* kind;
  Table table;
  Memory table_memory;
  Memory scratch;  // scratch of the kernels
  size_t scratch_bytes;
  Memory widened;            // int64 offsets of bags, int64 ids of top-k
  int inputs[kNumInputs];    // tensors, or kNoTensor
  int outputs[kNumOutputs];  // tensors, or kNoTensor
  int32_t mode;              // mode of bags
  int64_t k;                 // k of top-k
};

extern const UseKind kRows, kBag, kLogits, kTopK;

// Returns null, with a report, if the line is invalid. Returns null without a report if its tensors are not
// in this subgraph.
Use* MakeUse(Context* context, Text line, Status* status);
void FreeUse(Use* use);

// Functions for the uses.

inline Tensor& TensorAt(Context* context, int index) { return context->tensors[index]; }

inline int64_t IdCount(const Tensor& ids) {
  return static_cast<int64_t>(ids.bytes / (ids.type == kInt32 ? sizeof(int32_t) : sizeof(int64_t)));
}

inline ee_ids ToIds(const Tensor& ids) {
  return {ids.data, IdCount(ids), ids.type == kInt32 ? EE_INT32 : EE_INT64};
}

// Allocates the scratch of the kernels, for the life of the use. This is the first check of the table.
void ReserveScratch(Fields* fields, ee_use what, Use* use);

Status Resize(Context* context, int tensor, const int* dims, size_t rank);

// Sizes before the last one: the shape of the input is [*, last], and that of the output is [*, other].
Status ResizeLike(Context* context, const Tensor& input, size_t kept, int64_t last, int tensor);

// Reports the status of a call of the C interface. `position` is that of an id, an offset, or a row of the
// table.
Status Report(Context* context, const Use& use, ee_status status, int64_t position);

}  // namespace edge_embed::tflite

#endif  // EDGE_EMBED_TFLITE_USE_H_
