// Loops that reach the limits of an instruction set, as templates of the width of its vectors in bytes. Each
// file of bench/isa/ compiles them with its own flags.
#ifndef EDGE_EMBED_BENCH_PEAKS_H_
#define EDGE_EMBED_BENCH_PEAKS_H_

#include "bench/isa/isa.h"

// The constraint of a vector register in inline assembly.
#if defined(__x86_64__)
#define EB_REGISTER "v"
#else
#define EB_REGISTER "w"
#endif

namespace edge_embed::bench {
namespace {

// Vectors of `kWidth` bytes, as wide as the registers of the function that inlines them.
template <size_t kWidth>
struct Vector {
  typedef float Type __attribute__((vector_size(kWidth)));
};

template <size_t kWidth>
float Read(const void* buffer, size_t bytes, size_t times) {
  using V = typename Vector<kWidth>::Type;
  constexpr size_t kSums = 8;
  V sums[kSums] = {};
  for (size_t time = 0; time < times; ++time) {
    const V* data = static_cast<const V*>(buffer);
    asm volatile("" : "+r"(data));  // otherwise, a compiler could replace the loop by one pass
    for (size_t at = 0; at < bytes / kWidth; at += kSums) {
      for (size_t k = 0; k < kSums; ++k) {
        sums[k] += data[at + k];
      }
    }
  }
  V all = {};
  for (const V& sum : sums) {
    all += sum;
  }
  return all[0];
}

template <size_t kWidth>
double MultiplyAdd(size_t rounds) {
  using V = typename Vector<kWidth>::Type;
  constexpr size_t kChains = 10;  // more than latency times units; with the factors fewer than 16 registers
  V chains[kChains] = {};
  V factor = {}, term = {};
  // Hides the values from the compiler. Otherwise, one chain would serve for all.
  asm volatile("" : "+" EB_REGISTER(factor), "+" EB_REGISTER(term));
  for (V& chain : chains) {
    asm volatile("" : "+" EB_REGISTER(chain));
  }
  for (size_t round = 0; round < rounds; ++round) {
    for (V& chain : chains) {
      chain = chain * factor + term;
    }
  }
  for (V& chain : chains) {
    asm volatile("" ::EB_REGISTER(chain));
  }
  return static_cast<double>(rounds) * kChains * 2 * (kWidth / sizeof(float));
}

}  // namespace
}  // namespace edge_embed::bench

#endif  // EDGE_EMBED_BENCH_PEAKS_H_
