// The fields of one line of the manifest, and the tensors of the model that they name.
#ifndef EDGE_EMBED_TFLITE_FIELDS_H_
#define EDGE_EMBED_TFLITE_FIELDS_H_

#include "kernels/type.h"
#include "tflite/abi.h"
#include "tflite/manifest.h"

namespace edge_embed::tflite {

constexpr int kNoTensor = -1;
constexpr const char* kDamaged =
    ": the file is damaged or was not made by edge-embed, export the model again";

// A tensor with data in the file.
struct Constant {
  const void* data;  // null: no data
  size_t bytes;
  ee_type type;
};

// Element types of a tensor, one bit each. Unsigned numbers and float16 may be stored under a signed type of
// their size, which more operators of TFLite accept.
using TypeSet = uint32_t;
constexpr TypeSet Only(ee_type type) { return TypeSet{1} << type; }
constexpr TypeSet kFloats = Only(EE_FLOAT32) | Only(EE_FLOAT16);
constexpr TypeSet kIntegers = Only(EE_INT32) | Only(EE_INT64);

// Reports the first missing or wrong field to the runtime. From then on, ok() is false, and every function
// returns 0, no tensor or no data.
class Fields {
 public:
  Fields(Context* context, Text line, Text use, Text method)
      : context_(context), line_(line), use_(use), method_(method) {}

  bool ok() const { return ok_; }
  // The first part of all names from now on, such as "tier_0_".
  void SetPrefix(const char* prefix) { prefix_ = prefix; }
  bool Has(const char* key) const;
  // True if the value of `key` is the name of a tensor of this subgraph.
  bool HasTensor(const char* key) const;

  int64_t Integer(const char* key);
  int64_t IntegerOr(const char* key, int64_t otherwise);
  size_t Integers(const char* key, size_t most, int64_t* integers);
  int TensorIndex(const char* key, TypeSet types);
  int TensorIndexOr(const char* key, TypeSet types);  // kNoTensor if the line has no such field
  Constant ReadConstant(const char* key, TypeSet types);
  Constant ReadConstantOr(const char* key, TypeSet types);  // no data if the line has no such field

  void Fail(const char* field, const char* got, const char* expected);

 private:
  bool Find(const char* key, Text* value) const;
  void FailType(const char* field, const Tensor& tensor, TypeSet types);

  Context* context_;
  Text line_, use_, method_;
  const char* prefix_ = "";
  bool ok_ = true;
};

}  // namespace edge_embed::tflite

#endif  // EDGE_EMBED_TFLITE_FIELDS_H_
