// Runs the fuzz target without libFuzzer: on the given files, else on random inputs, the same in every run.
// Usage: fuzz_x [FILE...]        or: fuzz_x --iterations N
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "kernels/variant.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kSkipped = 77;  // for CTest

#if defined(__SANITIZE_ADDRESS__) || defined(EDGE_EMBED_EMULATED)
constexpr long kIterations = 20000;  // these are several times slower
#else
constexpr long kIterations = 200000;
#endif

int RunRandom(long iterations) {
  std::mt19937 random(20261120);
  for (long i = 0; i < iterations; ++i) {
    std::vector<uint8_t> input(random() % 512);
    for (size_t at = 0; at < input.size(); at += sizeof(uint32_t)) {
      const uint32_t bytes = static_cast<uint32_t>(random());
      std::memcpy(input.data() + at, &bytes, std::min(sizeof(bytes), input.size() - at));
    }
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%ld inputs\n", iterations);
  return 0;
}

int RunFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "%s: cannot be read\n", path);
    return 1;
  }
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  return LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int count, char** arguments) {
  if (const char* refused = edge_embed::RefusedVariant()) {
    std::printf("this processor or library has no %s\n", refused);
    return kSkipped;
  }
  if (count == 3 && std::strcmp(arguments[1], "--iterations") == 0) {
    return RunRandom(std::atol(arguments[2]));
  }
  if (count == 1) return RunRandom(kIterations);
  int failed = 0;
  for (int i = 1; i < count; ++i) failed |= RunFile(arguments[i]);
  return failed;
}
