// The test framework: a failed check prints its place and ends the program.
#ifndef EDGE_EMBED_TESTS_CHECK_H_
#define EDGE_EMBED_TESTS_CHECK_H_

#include <cstdio>
#include <cstdlib>
#include <string>

namespace edge_embed::testing {

// The current test case, printed if a check fails.
inline std::string& Context() {
  static std::string context;
  return context;
}

[[noreturn]] inline void Fail(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: failed: %s\n  %s\n", file, line, condition, Context().c_str());
  std::exit(1);
}

}  // namespace edge_embed::testing

#define CHECK(condition) ((condition) ? void() : ::edge_embed::testing::Fail(__FILE__, __LINE__, #condition))

namespace edge_embed::testing {

// The status of Validate for the table of a valid case after `change`.
template <typename Case, typename Change>
auto ValidateAfter(const Case& made, const Change& change) {
  auto table = made.table();
  const auto sound = Validate(table);
  CHECK(sound == decltype(sound){});
  change(table);
  return Validate(table);
}

}  // namespace edge_embed::testing

#endif  // EDGE_EMBED_TESTS_CHECK_H_
