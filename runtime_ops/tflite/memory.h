// Memory of a kernel, which grows and is freed explicitly: the library has no C++ runtime.
#ifndef EDGE_EMBED_TFLITE_MEMORY_H_
#define EDGE_EMBED_TFLITE_MEMORY_H_

#include <stdlib.h>

namespace edge_embed::tflite {

// All zero: no memory.
struct Memory {
  void* data;
  size_t bytes;

  // Provides at least `needed` bytes, aligned for any type of number; earlier contents are lost. False if the
  // allocation fails.
  bool Reserve(size_t needed) {
    if (needed <= bytes) return true;
    Free();
    data = malloc(needed);
    bytes = data == nullptr ? 0 : needed;
    return data != nullptr;
  }
  void Free() {
    free(data);
    data = nullptr;
    bytes = 0;
  }
};

}  // namespace edge_embed::tflite

#endif  // EDGE_EMBED_TFLITE_MEMORY_H_
