// Named tensors, as the runner and the calling program exchange them:
//
//   file    "EETENS1\0", number of tensors u32, then one after the other:
//   tensor  length of the name u32, the name in UTF-8, element type u32 (as ONNX numbers them), rank u32,
//           dimensions u64 each, bytes of the data u64, data
//   data    little-endian, in C order; of strings: length u64 and bytes of each
//
// Both programs come from the same package, so there is only one version. A truncated or invalid file is
// refused.
#ifndef EDGE_EMBED_RUNNER_TENSORS_H_
#define EDGE_EMBED_RUNNER_TENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace edge_embed::runner {

struct NamedTensor {
  std::string name;
  uint32_t type = 0;  // ONNXTensorElementDataType
  std::vector<int64_t> dims;
  std::vector<uint8_t> data;
};

// Throws std::runtime_error with the path and the cause.
std::vector<NamedTensor> ReadTensors(const std::string& path);
void WriteTensors(const std::string& path, const std::vector<NamedTensor>& tensors);

}  // namespace edge_embed::runner

#endif  // EDGE_EMBED_RUNNER_TENSORS_H_
