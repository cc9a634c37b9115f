// Marks the code that an emulator counts (count_plugin.cc).
#ifndef EDGE_EMBED_RUNNER_COUNT_H_
#define EDGE_EMBED_RUNNER_COUNT_H_

#include <string>

namespace edge_embed::runner {

// Counts the code of a shared library from now on. Its code must not have run yet. A library that cannot be
// loaded is ignored; its next loader reports the error.
void CountLibrary(const std::string& path);

}  // namespace edge_embed::runner

#endif  // EDGE_EMBED_RUNNER_COUNT_H_
