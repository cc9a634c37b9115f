// Memory of this process as Linux and Android report it, in bytes; 0 on other systems.
#ifndef EDGE_EMBED_RUNNER_MEMORY_H_
#define EDGE_EMBED_RUNNER_MEMORY_H_

#include <cstdint>
#include <fstream>
#include <string>

namespace edge_embed::runner {

// A line of /proc/self/status: "VmRSS" is the current resident memory, "VmHWM" the peak.
inline int64_t MemoryBytes(const std::string& line) {
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name;) {
    if (int64_t kilobytes = 0; name == line + ":" && status >> kilobytes) return 1024 * kilobytes;
  }
  return 0;
}

}  // namespace edge_embed::runner

#endif  // EDGE_EMBED_RUNNER_MEMORY_H_
