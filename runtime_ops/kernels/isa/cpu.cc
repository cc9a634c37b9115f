// Features of the processor. The compiler's own query needs its support library, which a freestanding build
// lacks.
#include "kernels/isa/isa.h"

#if EDGE_EMBED_X86
#include <cpuid.h>

namespace edge_embed {
namespace {

// Intel's manual, volume 2, CPUID: leaf 1 ECX, leaf 7 EBX.
constexpr unsigned kFma = 1U << 12, kOsxsave = 1U << 27, kAvx = 1U << 28, kF16c = 1U << 29;
constexpr unsigned kAvx2Bit = 1U << 5, kBmi2 = 1U << 8;
constexpr unsigned kAvx512Bits = 1U << 16 | 1U << 17 | 1U << 30 | 1U << 31;  // F, DQ, BW, VL
constexpr unsigned kVbmi = 1U << 1, kVnni = 1U << 11;                        // leaf 7 ECX
// Volume 1, 13.3: registers that the system saves: XMM and YMM; opmask and ZMM.
constexpr unsigned kYmm = 0x6, kZmm = 0xE6;

struct Features {
  unsigned leaf1_ecx, leaf7_ebx, leaf7_ecx, saved;
};

Features Read() {
  Features features{};
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return features;
  features.leaf1_ecx = ecx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0)
    features.leaf7_ebx = ebx, features.leaf7_ecx = ecx;
  if ((features.leaf1_ecx & kOsxsave) != 0) {
    unsigned high;
    __asm__("xgetbv" : "=a"(features.saved), "=d"(high) : "c"(0));
  }
  return features;
}

bool Has(const Features& wanted) {
  const Features features = Read();
  return (features.leaf1_ecx & wanted.leaf1_ecx) == wanted.leaf1_ecx &&
         (features.leaf7_ebx & wanted.leaf7_ebx) == wanted.leaf7_ebx &&
         (features.leaf7_ecx & wanted.leaf7_ecx) == wanted.leaf7_ecx &&
         (features.saved & wanted.saved) == wanted.saved;
}

}  // namespace

bool HasAvx2() { return Has({kFma | kAvx | kF16c, kAvx2Bit | kBmi2, 0, kYmm}); }
bool HasAvx512() { return HasAvx2() && Has({0, kAvx512Bits, kVbmi | kVnni, kZmm}); }

}  // namespace edge_embed
#endif
