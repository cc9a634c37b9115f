// What the processor has. The compiler's own query needs its support library, which a freestanding build has
// not.
#include "kernels/isa/isa.h"

#if EDGE_EMBED_X86
#include <cpuid.h>

namespace edge_embed {
namespace {

// Intel's manual, volume 2, CPUID: leaf 1 ECX, leaf 7 EBX.
constexpr unsigned kFma = 1U << 12, kOsxsave = 1U << 27, kAvx = 1U << 28, kF16c = 1U << 29;
constexpr unsigned kAvx2Bit = 1U << 5, kBmi2 = 1U << 8;
constexpr unsigned kAvx512Bits = 1U << 16 | 1U << 17 | 1U << 30 | 1U << 31;  // F, DQ, BW, VL
// Volume 1, 13.3: the registers that the system saves: XMM and YMM; opmask and ZMM.
constexpr unsigned kYmm = 0x6, kZmm = 0xE6;

struct Features {
  unsigned leaf1_ecx, leaf7_ebx, saved;
};

Features Read() {
  Features features{};
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return features;
  features.leaf1_ecx = ecx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) features.leaf7_ebx = ebx;
  if ((features.leaf1_ecx & kOsxsave) != 0) {
    unsigned high;
    __asm__("xgetbv" : "=a"(features.saved), "=d"(high) : "c"(0));
  }
  return features;
}

bool Has(const Features& features, unsigned leaf1_ecx, unsigned leaf7_ebx, unsigned saved) {
  return (features.leaf1_ecx & leaf1_ecx) == leaf1_ecx && (features.leaf7_ebx & leaf7_ebx) == leaf7_ebx &&
         (features.saved & saved) == saved;
}

}  // namespace

bool HasAvx2() { return Has(Read(), kFma | kAvx | kF16c, kAvx2Bit | kBmi2, kYmm); }
bool HasAvx512() { return HasAvx2() && Has(Read(), 0, kAvx512Bits, kZmm); }

}  // namespace edge_embed
#endif
