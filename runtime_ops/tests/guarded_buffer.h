// Memory that ends at a page without access: reading or writing one byte past the end ends the process.
// AddressSanitizer also detects accesses before the beginning.
#ifndef EDGE_EMBED_TESTS_GUARDED_BUFFER_H_
#define EDGE_EMBED_TESTS_GUARDED_BUFFER_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "tests/check.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(address, size) static_cast<void>(0)
#endif

namespace edge_embed::testing {

class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t size) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t pages = (size + page - 1) / page;
    mapped_ = (pages + 1) * page;
    void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    base_ = static_cast<unsigned char*>(memory);
    CHECK(mprotect(base_ + pages * page, page, PROT_NONE) == 0);
    data_ = base_ + pages * page - size;
    ASAN_POISON_MEMORY_REGION(base_, static_cast<size_t>(data_ - base_));
  }

  explicit GuardedBuffer(const std::vector<unsigned char>& content) : GuardedBuffer(content.size()) {
    if (!content.empty()) std::memcpy(data_, content.data(), content.size());
  }

  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer() {
    ASAN_UNPOISON_MEMORY_REGION(base_, mapped_);
    munmap(base_, mapped_);
  }

  unsigned char* data() const { return data_; }

 private:
  unsigned char* base_ = nullptr;
  unsigned char* data_ = nullptr;
  size_t mapped_ = 0;
};

}  // namespace edge_embed::testing

#endif  // EDGE_EMBED_TESTS_GUARDED_BUFFER_H_
