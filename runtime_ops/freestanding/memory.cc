// memcpy, memmove, memset and memcmp for the freestanding build. A compiler may emit calls of these four even
// under -ffreestanding (for a copy of unknown length, for a large struct), and that build links no libc. They
// are hidden, so that the library neither imports nor exports them. A compiler flag keeps the compiler from
// replacing these loops by calls of the same functions (see CMakeLists.txt).
#include <stddef.h>
#include <stdint.h>

namespace {

// Eight bytes at any address, for any type: the compiler selects the instructions of the target.
using Word __attribute__((may_alias, aligned(1))) = uint64_t;

void CopyUp(unsigned char* to, const unsigned char* from, size_t count) {
  for (; count >= sizeof(Word); count -= sizeof(Word), to += sizeof(Word), from += sizeof(Word)) {
    *reinterpret_cast<Word*>(to) = *reinterpret_cast<const Word*>(from);
  }
  for (; count > 0; --count) *to++ = *from++;
}

}  // namespace

#define EE_LIBC extern "C" __attribute__((visibility("hidden"), used))

EE_LIBC void* memcpy(void* __restrict to, const void* __restrict from, size_t count) {
  CopyUp(static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from), count);
  return to;
}

EE_LIBC void* memmove(void* to, const void* from, size_t count) {
  unsigned char* target = static_cast<unsigned char*>(to);
  const unsigned char* source = static_cast<const unsigned char*>(from);
  if (target <= source) {
    for (size_t i = 0; i < count; ++i) target[i] = source[i];
  } else {
    for (size_t i = count; i > 0; --i) target[i - 1] = source[i - 1];
  }
  return to;
}

EE_LIBC void* memset(void* to, int value, size_t count) {
  unsigned char* target = static_cast<unsigned char*>(to);
  for (size_t i = 0; i < count; ++i) target[i] = static_cast<unsigned char>(value);
  return to;
}

EE_LIBC int memcmp(const void* left, const void* right, size_t count) {
  const unsigned char* a = static_cast<const unsigned char*>(left);
  const unsigned char* b = static_cast<const unsigned char*>(right);
  for (size_t i = 0; i < count; ++i) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}
