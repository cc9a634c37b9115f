#include "tflite/fields.h"

#include <stdio.h>

namespace edge_embed::tflite {
namespace {

struct TypeName {
  TensorType tensor;
  ee_type type;
  const char* name;
};
constexpr size_t kFirstTwin = 8;
// Types from kFirstTwin on: stored under another type of the same size.
constexpr TypeName kTypes[] = {
    {kFloat32, EE_FLOAT32, "float32"}, {kFloat16, EE_FLOAT16, "float16"}, {kInt8, EE_INT8, "int8"},
    {kUInt8, EE_UINT8, "uint8"},       {kUInt16, EE_UINT16, "uint16"},    {kUInt32, EE_UINT32, "uint32"},
    {kInt32, EE_INT32, "int32"},       {kInt64, EE_INT64, "int64"},       {kInt8, EE_UINT8, "int8"},
    {kInt16, EE_UINT16, "int16"},      {kInt32, EE_UINT32, "int32"},      {kInt16, EE_FLOAT16, "int16"}};

bool FindType(TensorType tensor, TypeSet allowed, ee_type* type) {
  for (const TypeName& known : kTypes) {
    if (known.tensor != tensor || (allowed & Only(known.type)) == 0) continue;
    *type = known.type;
    return true;
  }
  return false;
}

// kNoTensor also if several tensors have that name, because the name is ambiguous.
int FindTensor(const Context& context, Text name) {
  int found = kNoTensor;
  for (size_t i = 0; i < context.tensors_size; ++i) {
    if (context.tensors[i].name == nullptr || !name.Is(context.tensors[i].name)) continue;
    if (found != kNoTensor) return kNoTensor;
    found = static_cast<int>(i);
  }
  return found;
}

// For "%.*s": names are short, and the name of a hostile file may be cut.
int Shown(Text text) { return text.size < 64 ? static_cast<int>(text.size) : 64; }

}  // namespace

void Fields::Fail(const char* field, const char* got, const char* expected) {
  if (!ok_) return;
  ok_ = false;
  context_->ReportError(context_, "edge_embed: %.*s of %.*s, %s%s: got %s, expected %s%s", Shown(use_),
                        use_.data, Shown(method_), method_.data, prefix_, field, got, expected, kDamaged);
}

void Fields::FailType(const char* field, const Tensor& tensor, TypeSet types) {
  char got[24], expected[64];
  size_t end = 0;
  snprintf(got, sizeof(got), "type %d of TFLite", tensor.type);
  for (const TypeName& known : kTypes) {
    if (known.tensor == tensor.type) snprintf(got, sizeof(got), "%s", known.name);
    const bool is_twin = &known >= kTypes + kFirstTwin;
    if (is_twin || (types & Only(known.type)) == 0) continue;
    end += static_cast<size_t>(
        snprintf(expected + end, sizeof(expected) - end, "%s%s", end == 0 ? "" : " or ", known.name));
  }
  Fail(field, got, expected);
}

bool Fields::Find(const char* key, Text* value) const {
  char name[64];
  snprintf(name, sizeof(name), "%s%s", prefix_, key);
  return FindField(line_, name, value);
}

bool Fields::Has(const char* key) const {
  Text value;
  return Find(key, &value);
}

bool Fields::HasTensor(const char* key) const {
  Text value;
  return Find(key, &value) && FindTensor(*context_, value) != kNoTensor;
}

size_t Fields::Integers(const char* key, size_t most, int64_t* integers) {
  Text value;
  size_t count = 0;
  if (Find(key, &value) && ReadIntegers(value, most, integers, &count)) return count;
  Fail(key, "no list of integers, or one that is too long", "integers separated by commas");
  return 0;
}

int64_t Fields::Integer(const char* key) {
  Text value;
  int64_t integer = 0;
  size_t count;
  if (Find(key, &value) && ReadIntegers(value, 1, &integer, &count)) return integer;
  Fail(key, "no integer", "one");
  return 0;
}

int64_t Fields::IntegerOr(const char* key, int64_t otherwise) { return Has(key) ? Integer(key) : otherwise; }

int Fields::TensorIndex(const char* key, TypeSet types) {
  Text name;
  const int index = Find(key, &name) ? FindTensor(*context_, name) : kNoTensor;
  if (index == kNoTensor) {
    Fail(key, "no tensor of this name in the model, or several", "exactly one");
    return kNoTensor;
  }
  ee_type type;
  if (FindType(context_->tensors[index].type, types, &type)) return index;
  FailType(key, context_->tensors[index], types);
  return kNoTensor;
}

int Fields::TensorIndexOr(const char* key, TypeSet types) {
  return Has(key) ? TensorIndex(key, types) : kNoTensor;
}

Constant Fields::ReadConstant(const char* key, TypeSet types) {
  const int index = TensorIndex(key, types);
  if (index == kNoTensor) return {};
  const Tensor& tensor = context_->tensors[index];
  Constant constant{tensor.data, tensor.bytes, {}};
  FindType(tensor.type, types, &constant.type);
  if (tensor.allocation_type == kConstant && (tensor.data != nullptr || tensor.bytes == 0)) return constant;
  Fail(key, "a computed tensor", "a constant of the file");
  return {};
}

Constant Fields::ReadConstantOr(const char* key, TypeSet types) {
  return Has(key) ? ReadConstant(key, types) : Constant{};
}

}  // namespace edge_embed::tflite
