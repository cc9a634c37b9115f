// Reads and writes arrays whose element type is known at run time only. Arrays may have any alignment.
#ifndef EDGE_EMBED_KERNELS_ELEMENT_H_
#define EDGE_EMBED_KERNELS_ELEMENT_H_

#include <stddef.h>
#include <stdint.h>

#include "kernels/half.h"
#include "kernels/type.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tables are stored little-endian and used in place");

namespace edge_embed {

inline bool IsFloat(ee_type type) { return type == EE_FLOAT32 || type == EE_FLOAT16; }

// Bytes of an element; 0 for a value that is not in the enum.
inline size_t SizeOf(ee_type type) {
  switch (type) {
    case EE_INT8:
    case EE_UINT8:
      return 1;
    case EE_FLOAT16:
    case EE_UINT16:
      return 2;
    case EE_FLOAT32:
    case EE_UINT32:
    case EE_INT32:
      return 4;
    case EE_INT64:
      return 8;
  }
  return 0;
}

// Always inlined, like all header code that files of one instruction set call (kernels/isa/).
template <typename T>
__attribute__((always_inline)) inline T Load(const void* array, size_t index) {
  T value;
  __builtin_memcpy(&value, static_cast<const unsigned char*>(array) + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
__attribute__((always_inline)) inline void Store(T value, void* array, size_t index) {
  __builtin_memcpy(static_cast<unsigned char*>(array) + index * sizeof(T), &value, sizeof(T));
}

inline double ToDouble(float value) { return value; }
inline double ToDouble(int8_t value) { return value; }
inline double ToDouble(Half value) { return ToFloat(value); }

// A float32, float16 or int8 element.
double LoadNumber(const void* array, ee_type type, size_t index);

// The functions below support float32 and float16 only.

// out[k] = array[first + k*step]
void Widen(const void* array, ee_type type, size_t first, size_t step, size_t count, double* out);

// out[k] = array[k] as float32, at any alignment.
void WidenToFloat(const void* array, ee_type type, size_t count, void* out);

// sum[k] += weight * array[first + k]
void AddScaled(double weight, const void* array, ee_type type, size_t first, size_t count, double* sum);

// array[first + k] = values[k], rounded once.
void Narrow(const double* values, size_t count, void* array, ee_type type, size_t first);

}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_ELEMENT_H_
