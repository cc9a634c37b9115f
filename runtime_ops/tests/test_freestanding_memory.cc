// The four functions of the freestanding build return the same as those of libc. They are included under
// other names, so that both can be compared.
#define memcpy ee_test_memcpy
#define memmove ee_test_memmove
#define memset ee_test_memset
#define memcmp ee_test_memcmp
#include "freestanding/memory.cc"
#undef memcpy
#undef memmove
#undef memset
#undef memcmp

#include <cstring>

#include "tests/guarded_buffer.h"

namespace edge_embed::testing {
namespace {

std::vector<unsigned char> Pattern(size_t size) {
  std::vector<unsigned char> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(i * 37 + 11);
  return bytes;
}

void TestCopyAndFill() {
  for (size_t size = 0; size < 100; ++size) {
    const GuardedBuffer from(Pattern(size)), to(size);
    CHECK(ee_test_memcpy(to.data(), from.data(), size) == to.data());
    CHECK(std::memcmp(to.data(), from.data(), size) == 0);
    CHECK(ee_test_memset(to.data(), 0x1A5, size) == to.data());
    CHECK(std::vector<unsigned char>(size, 0xA5) == std::vector<unsigned char>(to.data(), to.data() + size));
  }
}

void TestOverlappingMove() {
  for (size_t from = 0; from < 12; ++from) {
    for (size_t to = 0; to < 12; ++to) {
      std::vector<unsigned char> got = Pattern(40), expected = got;
      ee_test_memmove(got.data() + to, got.data() + from, 25);
      std::memmove(expected.data() + to, expected.data() + from, 25);
      CHECK(got == expected);
    }
  }
}

void TestCompare() {
  const unsigned char low[] = {1, 2, 3}, high[] = {1, 2, 200};
  CHECK(ee_test_memcmp(low, high, 3) < 0);
  CHECK(ee_test_memcmp(high, low, 3) > 0);
  CHECK(ee_test_memcmp(low, high, 2) == 0);
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  TestCopyAndFill();
  TestOverlappingMove();
  TestCompare();
  return 0;
}
