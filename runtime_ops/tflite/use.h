// A kernel: one line of the manifest, as it runs in place of the operators that it stands for.
#ifndef EDGE_EMBED_TFLITE_USE_H_
#define EDGE_EMBED_TFLITE_USE_H_

#include "tflite/table.h"

namespace edge_embed::tflite {

constexpr size_t kMaxRank = 8;  // of what the runtimes compute with

// What the manifest calls them: ids, ... bias, and output, output_ids.
enum Input : size_t { kIds, kOffsets, kSampleWeights, kHidden, kBias, kNumInputs };
enum Output : size_t { kOutput, kOutputIds, kNumOutputs };

struct Use;

// What differs between uses. All report what is wrong to the runtime.
struct UseKind {
  const char* name;
  void (*read)(Fields* fields, Use* use);     // its own fields
  Status (*prepare)(Context* context, Use*);  // checks the shapes of inputs, and gives outputs theirs
  Status (*run)(Context* context, Use* use);
};

struct Use {
  const UseKind* kind;
  Table table;
  Memory table_memory;
  Memory scratch;  // of the kernels
  size_t scratch_bytes;
  Memory widened;            // int64 offsets of bags, int64 ids of top-k
  int inputs[kNumInputs];    // tensors, or kNoTensor
  int outputs[kNumOutputs];  // likewise
  int32_t mode;              // of bags
  int64_t k;                 // of top-k
};

extern const UseKind kRows, kBag, kLogits, kTopK;

// Null, with a report, where the line cannot be used; null without one where its tensors are not in this
// subgraph.
Use* MakeUse(Context* context, Text line, Status* status);
void FreeUse(Use* use);

// For the uses.

inline Tensor& TensorAt(Context* context, int index) { return context->tensors[index]; }

inline int64_t IdCount(const Tensor& ids) {
  return static_cast<int64_t>(ids.bytes / (ids.type == kInt32 ? sizeof(int32_t) : sizeof(int64_t)));
}

inline ee_ids ToIds(const Tensor& ids) {
  return {ids.data, IdCount(ids), ids.type == kInt32 ? EE_INT32 : EE_INT64};
}

// The scratch of the kernels, for as long as the use lives; this is the first look at the table.
void ReserveScratch(Fields* fields, ee_use what, Use* use);

Status Resize(Context* context, int tensor, const int* dims, size_t rank);

// Sizes before the last one; the shape of the input is [*, last], that of the output [*, other].
Status ResizeLike(Context* context, const Tensor& input, size_t kept, int64_t last, int tensor);

// What a call of the C ABI came to. `position` is that of an id, an offset, or a row of the table.
Status Report(Context* context, const Use& use, ee_status status, int64_t position);

}  // namespace edge_embed::tflite

#endif  // EDGE_EMBED_TFLITE_USE_H_
