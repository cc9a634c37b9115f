// Structs of the C interface with the fields that all tests need.
#ifndef EDGE_EMBED_TESTS_C_STRUCTS_H_
#define EDGE_EMBED_TESTS_C_STRUCTS_H_

#include <vector>

#include "c_api/edge_embed.h"

namespace edge_embed::testing {

// A table of this method; all further fields are zero.
inline ee_table Tagged(ee_method method) {
  ee_table c{};
  c.version = EE_TABLE_VERSION;
  c.method = method;
  return c;
}

// The ids of a call.
inline ee_ids ToC(const std::vector<int64_t>& ids) {
  return {ids.data(), static_cast<int64_t>(ids.size()), EE_INT64};
}
inline ee_ids ToC(const std::vector<int32_t>& ids) {
  return {ids.data(), static_cast<int64_t>(ids.size()), EE_INT32};
}

}  // namespace edge_embed::testing

#endif  // EDGE_EMBED_TESTS_C_STRUCTS_H_
