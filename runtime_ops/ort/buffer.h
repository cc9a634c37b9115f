// Memory for the duration of one call, from the allocator of the runtime.
#ifndef EDGE_EMBED_ORT_BUFFER_H_
#define EDGE_EMBED_ORT_BUFFER_H_

#include "ort/node.h"

namespace edge_embed::ort {

class Buffer {
 public:
  explicit Buffer(const OrtApi& api) : api_(api) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  ~Buffer() { Free(api_, allocator_, memory_); }

  // Call it only once. It allocates `size` times `item` bytes, aligned for any type of number.
  OrtStatus* Allocate(const Node& node, Size size, size_t item) {
    uint64_t bytes;
    if ((size * item).Get(&bytes)) {
      if (OrtStatus* status = api_.GetAllocatorWithDefaultOptions(&allocator_)) return status;
      if (OrtStatus* status = api_.AllocatorAlloc(allocator_, static_cast<size_t>(bytes), &memory_)) {
        return status;
      }
      if (memory_ != nullptr) return nullptr;
    }
    Message message = Begin(node);
    message
        << "not enough memory for intermediate results: use a smaller batch, or a table with smaller rows";
    return Fail(node, message);
  }

  void* data() const { return memory_; }

 private:
  const OrtApi& api_;
  OrtAllocator* allocator_ = nullptr;
  void* memory_ = nullptr;
};

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_BUFFER_H_
