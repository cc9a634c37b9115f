// Memory whose last byte is followed by a page that no one may touch: one byte read or written past the end
// ends the process.
#ifndef EDGE_EMBED_TESTS_GUARDED_BUFFER_H_
#define EDGE_EMBED_TESTS_GUARDED_BUFFER_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "tests/check.h"

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
  }

  explicit GuardedBuffer(const std::vector<unsigned char>& content) : GuardedBuffer(content.size()) {
    if (!content.empty()) std::memcpy(data_, content.data(), content.size());
  }

  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer() { munmap(base_, mapped_); }

  unsigned char* data() const { return data_; }

 private:
  unsigned char* base_ = nullptr;
  unsigned char* data_ = nullptr;
  size_t mapped_ = 0;
};

}  // namespace edge_embed::testing

#endif  // EDGE_EMBED_TESTS_GUARDED_BUFFER_H_
