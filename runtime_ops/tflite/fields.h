// The fields of one line of the manifest, looked up in the model that it comes with.
#ifndef EDGE_EMBED_TFLITE_FIELDS_H_
#define EDGE_EMBED_TFLITE_FIELDS_H_

#include "kernels/type.h"
#include "tflite/abi.h"
#include "tflite/manifest.h"

namespace edge_embed::tflite {

constexpr int kNoTensor = -1;
constexpr const char* kDamaged =
    ": the file is damaged or was not made by edge-embed, export the model again";

// A tensor whose data lie in the file.
struct Constant {
  const void* data;  // null: there is none
  size_t bytes;
  ee_type type;
};

// Element types that a tensor may have, one bit each. Unsigned numbers and float16 may be held under a signed
// type of their size, which more operators of TFLite take.
using TypeSet = uint32_t;
constexpr TypeSet Only(ee_type type) { return TypeSet{1} << type; }
constexpr TypeSet kFloats = Only(EE_FLOAT32) | Only(EE_FLOAT16);
constexpr TypeSet kIntegers = Only(EE_INT32) | Only(EE_INT64);

// What is missing or wrong is reported to the runtime, once; ok() is false from then on, and everything
// returns 0, no tensor or no data.
class Fields {
 public:
  Fields(Context* context, Text line, Text use, Text method)
      : context_(context), line_(line), use_(use), method_(method) {}

  bool ok() const { return ok_; }
  bool Has(const char* key) const;
  // Whether the value of `key` is the name of a tensor of this subgraph.
  bool HasTensor(const char* key) const;

  int64_t Integer(const char* key);
  int64_t IntegerOr(const char* key, int64_t otherwise);
  size_t Integers(const char* key, size_t most, int64_t* integers);
  int TensorIndex(const char* key, TypeSet types);
  int TensorIndexOr(const char* key, TypeSet types);  // kNoTensor where the line has no such field
  Constant ReadConstant(const char* key, TypeSet types);
  Constant ReadConstantOr(const char* key, TypeSet types);  // no data where the line has no such field

  void Fail(const char* field, const char* got, const char* expected);

 private:
  void FailType(const char* field, const Tensor& tensor, TypeSet types);

  Context* context_;
  Text line_, use_, method_;
  bool ok_ = true;
};

}  // namespace edge_embed::tflite

#endif  // EDGE_EMBED_TFLITE_FIELDS_H_
