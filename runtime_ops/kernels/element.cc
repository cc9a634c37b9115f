#include "kernels/element.h"

namespace edge_embed {
namespace {

template <typename T>
void WidenAs(const void* array, size_t first, size_t step, size_t count, double* out) {
  for (size_t k = 0; k < count; ++k) out[k] = ToDouble(Load<T>(array, first + k * step));
}

template <typename T>
void AddScaledAs(double weight, const void* array, size_t first, size_t count, double* sum) {
  for (size_t k = 0; k < count; ++k) sum[k] += weight * ToDouble(Load<T>(array, first + k));
}

}  // namespace

double LoadNumber(const void* array, ee_type type, size_t index) {
  switch (type) {
    case EE_FLOAT16:
      return ToDouble(Load<Half>(array, index));
    case EE_INT8:
      return ToDouble(Load<int8_t>(array, index));
    default:
      return ToDouble(Load<float>(array, index));
  }
}

void Widen(const void* array, ee_type type, size_t first, size_t step, size_t count, double* out) {
  if (type == EE_FLOAT16) {
    WidenAs<Half>(array, first, step, count, out);
  } else {
    WidenAs<float>(array, first, step, count, out);
  }
}

void WidenToFloat(const void* array, ee_type type, size_t count, void* out) {
  if (type == EE_FLOAT16) {
    for (size_t k = 0; k < count; ++k) Store(ToFloat(Load<Half>(array, k)), out, k);
  } else {
    __builtin_memcpy(out, array, count * sizeof(float));
  }
}

void AddScaled(double weight, const void* array, ee_type type, size_t first, size_t count, double* sum) {
  if (type == EE_FLOAT16) {
    AddScaledAs<Half>(weight, array, first, count, sum);
  } else {
    AddScaledAs<float>(weight, array, first, count, sum);
  }
}

void Narrow(const double* values, size_t count, void* array, ee_type type, size_t first) {
  if (type == EE_FLOAT16) {
    for (size_t k = 0; k < count; ++k) Store(ToHalf(values[k]), array, first + k);
  } else {
    for (size_t k = 0; k < count; ++k) Store(static_cast<float>(values[k]), array, first + k);
  }
}

}  // namespace edge_embed
