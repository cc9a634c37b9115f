#include "bench/bench.h"

#include <string.h>

// The constraint of a vector register in inline assembly.
#if defined(__x86_64__)
#define EB_REGISTER "v"
#else
#define EB_REGISTER "w"
#endif

namespace {

constexpr size_t kAhead =
    8;  // rows: enough to hide memory latency behind the copies, few enough to stay in L1
constexpr size_t kLine = 64;

void Prefetch(const float* row, size_t dim) {
  const char* line = reinterpret_cast<const char*>(row);
  for (size_t at = 0; at < dim * sizeof(float); at += kLine) {
    __builtin_prefetch(line + at);
  }
}

// Vectors of `kWidth` bytes, as wide as the registers of the function that inlines them.
template <size_t kWidth>
struct Vector {
  typedef float Type __attribute__((vector_size(kWidth)));
};

template <size_t kWidth>
inline __attribute__((always_inline)) float Read(const void* buffer, size_t bytes, size_t times) {
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
inline __attribute__((always_inline)) double MultiplyAdd(size_t rounds) {
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

#if defined(__x86_64__)
__attribute__((target("avx512f,fma"))) float ReadAvx512(const void* b, size_t n, size_t t) {
  return Read<64>(b, n, t);
}
__attribute__((target("avx2,fma"))) float ReadAvx2(const void* b, size_t n, size_t t) {
  return Read<32>(b, n, t);
}
__attribute__((target("avx512f,fma"))) double MultiplyAddAvx512(size_t rounds) {
  return MultiplyAdd<64>(rounds);
}
__attribute__((target("avx2,fma"))) double MultiplyAddAvx2(size_t rounds) { return MultiplyAdd<32>(rounds); }
#endif

}  // namespace

void eb_copy_rows(const float* table, size_t dim, const int64_t* ids, size_t ids_a_call, size_t calls,
                  float* rows) {
  for (size_t call = 0; call < calls; ++call, ids += ids_a_call) {
    for (size_t i = 0; i < kAhead && i < ids_a_call; ++i) {
      Prefetch(table + static_cast<size_t>(ids[i]) * dim, dim);
    }
    for (size_t i = 0; i < ids_a_call; ++i) {
      if (i + kAhead < ids_a_call) {
        Prefetch(table + static_cast<size_t>(ids[i + kAhead]) * dim, dim);
      }
      memcpy(rows + i * dim, table + static_cast<size_t>(ids[i]) * dim, dim * sizeof(float));
    }
  }
}

int32_t eb_gather(void* gather, const ee_table* table, const int64_t* ids, size_t ids_a_call, size_t calls,
                  float* rows, size_t rows_bytes, void* scratch, size_t scratch_bytes) {
  const auto function = reinterpret_cast<decltype(&ee_gather)>(gather);
  int32_t status = EE_OK;
  for (size_t call = 0; call < calls && status == EE_OK; ++call, ids += ids_a_call) {
    const ee_ids some{ids, static_cast<int64_t>(ids_a_call), EE_INT64};
    status = function(table, &some, rows, rows_bytes, scratch, scratch_bytes, nullptr);
  }
  return status;
}

float eb_read(const void* buffer, size_t bytes, size_t times) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    return ReadAvx512(buffer, bytes, times);
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return ReadAvx2(buffer, bytes, times);
  }
#endif
  return Read<16>(buffer, bytes, times);
}

double eb_multiply_add(size_t rounds) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    return MultiplyAddAvx512(rounds);
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return MultiplyAddAvx2(rounds);
  }
#endif
  return MultiplyAdd<16>(rounds);
}
