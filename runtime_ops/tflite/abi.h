// The part of TensorFlow Lite's delegate interface that is used here, declared by its binary layout. The
// header tensorflow/lite/core/c/common.h is in no package that a build could download.
//
// The layout is that of TensorFlow Lite 2.14.0; later versions only append to its structs. LiteRT 2.3.0 has
// the same tensors, nodes and delegates, and one more field in Registration, which is passed by value. It is
// declared, and an older runtime does not read it.
//
// tests/runtime_ops/test_tflite_rows.py runs both runtimes, which would fail at once if a field had another
// place. Fields that are not read here are untyped.
#ifndef EDGE_EMBED_TFLITE_ABI_H_
#define EDGE_EMBED_TFLITE_ABI_H_

#include <stddef.h>
#include <stdint.h>

namespace edge_embed::tflite {

enum Status : int { kOk = 0, kError = 1 };

enum TensorType : int {
  kFloat32 = 1,
  kInt32 = 2,
  kUInt8 = 3,
  kInt64 = 4,
  kInt16 = 7,
  kInt8 = 9,
  kFloat16 = 10,
  kUInt32 = 16,
  kUInt16 = 17
};

enum Allocation : int { kConstant = 1 };  // in the file of the model

enum DelegateFlags : int64_t { kAllowDynamicTensors = 1 };

struct IntArray {
  int size;
  int data[1];  // [size]; the declaration of the runtime has no length
};

struct Tensor {
  TensorType type;
  void* data;
  IntArray* dims;
  float scale;
  int32_t zero_point;
  Allocation allocation_type;
  size_t bytes;
  const void* allocation;
  const char* name;
  struct Delegate* delegate;
  int buffer_handle;
  bool data_is_stale;
  bool is_variable;
  int quantization_type;
  void* quantization;
  void* sparsity;
  const IntArray* dims_signature;
};

struct Node {
  IntArray* inputs;
  IntArray* outputs;
  IntArray* intermediates;
  IntArray* temporaries;
  void* user_data;
  void* builtin_data;
  const void* custom_initial_data;
  int custom_initial_data_size;
  struct Delegate* delegate;
  bool might_have_side_effect;
};

// Parameters of a kernel of the delegate.
struct DelegateParams {
  struct Delegate* delegate;
  IntArray* nodes_to_replace;
  IntArray* input_tensors;
  IntArray* output_tensors;
};

struct Context {
  size_t tensors_size;
  Status (*GetExecutionPlan)(Context*, IntArray** plan);
  Tensor* tensors;
  void* impl;
  Status (*ResizeTensor)(Context*, Tensor*, IntArray* dims);  // frees dims, which must be from malloc
  void (*ReportError)(Context*, const char* format, ...);
  void* AddTensors;
  Status (*GetNodeAndRegistration)(Context*, int index, Node**, struct Registration**);
  Status (*ReplaceNodeSubsetsWithDelegateKernels)(Context*, struct Registration, const IntArray* nodes,
                                                  struct Delegate*);
  int recommended_num_threads;
  void* GetExternalContext;
  void* SetExternalContext;
  bool allow_fp32_relax_to_fp16;
  void* profiler;
  void* AllocatePersistentBuffer;
  void* AllocateBufferForEval;
  void* RequestScratchBufferInArena;
  void* GetScratchBuffer;
  void* ResizeTensorExplicit;
  Status (*PreviewDelegatePartitioning)(Context*, const IntArray* nodes, DelegateParams** partitions,
                                        int* num_partitions);
  void* GetTensor;
  void* GetEvalTensor;
  Status (*GetModelMetadata)(const Context*, const char* name, const char** data, size_t* bytes);
};

struct Registration {
  void* (*init)(Context*, const char* buffer, size_t length);
  void (*free)(Context*, void* user_data);
  Status (*prepare)(Context*, Node*);
  Status (*invoke)(Context*, Node*);
  const char* (*profiling_string)(const Context*, const Node*);
  int32_t builtin_code;
  const char* custom_name;
  int version;
  void* registration_external;
  void* async_kernel;
  uint64_t inplace_operator;  // since 2.15
};

struct Delegate {
  void* data;
  Status (*Prepare)(Context*, Delegate*);
  void* CopyFromBufferHandle;
  void* CopyToBufferHandle;
  void* FreeBufferHandle;
  int64_t flags;
  void* opaque_delegate_builder;
};

}  // namespace edge_embed::tflite

#endif  // EDGE_EMBED_TFLITE_ABI_H_
