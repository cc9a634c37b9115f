// Tells an emulator that counts (count_plugin.cc) what to count.
#ifndef EDGE_EMBED_RUNNER_COUNT_H_
#define EDGE_EMBED_RUNNER_COUNT_H_

#include <string>

namespace edge_embed::runner {

// Counts the code of a shared library from now on; it must not have run yet. One that cannot be loaded is
// left to whoever loads it next.
void CountLibrary(const std::string& path);

}  // namespace edge_embed::runner

#endif  // EDGE_EMBED_RUNNER_COUNT_H_
