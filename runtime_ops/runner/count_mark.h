// Marks from a program to the emulator that counts it (count_plugin.cc). A mark closes a file descriptor that
// does not exist, so it has no effect without the emulator.
#ifndef EDGE_EMBED_RUNNER_COUNT_MARK_H_
#define EDGE_EMBED_RUNNER_COUNT_MARK_H_

#include <cstdint>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace edge_embed::runner {

constexpr int kMark = 0x6D61726B;
constexpr int kRange = 0x72616E67;

inline void Tell([[maybe_unused]] int what, [[maybe_unused]] uint64_t first,
                 [[maybe_unused]] uint64_t second) {
#if defined(__linux__)
  syscall(SYS_close, what, first, second);
#endif
}

// Writes the counts so far.
inline void Mark() { Tell(kMark, 0, 0); }

// Counts the instructions at addresses from `begin` to `end` from now on; this code must not have run yet.
inline void CountRange(uint64_t begin, uint64_t end) { Tell(kRange, begin, end); }

}  // namespace edge_embed::runner

#endif  // EDGE_EMBED_RUNNER_COUNT_MARK_H_
