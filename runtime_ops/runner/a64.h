// Selects the A64 instructions that read or write memory (Arm Architecture Reference Manual, "Loads and
// Stores"). QEMU's own callbacks for accesses are not used: version 7.2 calls them for unselected code, and
// counts an access of 16 bytes twice. SVE, which the operator library does not use, is not included.
#ifndef EDGE_EMBED_RUNNER_A64_H_
#define EDGE_EMBED_RUNNER_A64_H_

#include <cstdint>

namespace edge_embed::runner {

struct Access {
  bool loads = false, stores = false;
};

inline Access AccessOf(uint32_t instruction) {
  const auto bits = [instruction](int high, int low) {
    return instruction >> low & ((2u << (high - low)) - 1);
  };
  if (bits(27, 27) != 1 || bits(25, 25) != 0) return {};
  const bool vector = bits(26, 26) == 1;
  const bool load_bit = bits(22, 22) == 1;
  const bool atomic_bit = bits(21, 21) == 1;
  switch (bits(29, 28)) {
    case 0:  // several structures of vectors; exclusive and ordered accesses; compare and swap
      if (!vector && atomic_bit && (bits(23, 23) == 1 || bits(31, 31) == 0)) return {true, true};
      return {load_bit, !load_bit};
    case 1:  // relative to the program counter, where option 3 of numbers is a prefetch; ordered, unscaled
      if (bits(24, 24) == 0) return {vector || bits(31, 30) != 3, false};
      return {bits(23, 22) != 0, bits(23, 22) == 0};
    case 2:  // pairs
      return {load_bit, !load_bit};
    default:  // one register
      if (!vector && bits(24, 24) == 0 && atomic_bit && bits(11, 10) == 0) {
        const bool ordered_load = bits(15, 12) == 12;  // LDAPR, in the class of atomic additions and swaps
        return {true, !ordered_load};
      }
      if (!vector && bits(31, 30) == 3 && bits(23, 22) == 2) return {};  // prefetch
      if (!vector) return {bits(23, 22) != 0, bits(23, 22) == 0};
      return {load_bit, !load_bit};
  }
}

}  // namespace edge_embed::runner

#endif  // EDGE_EMBED_RUNNER_A64_H_
