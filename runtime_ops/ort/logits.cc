#include "ort/logits.h"

namespace edge_embed::ort {

OrtStatus* ReadHidden(const Node& node, const OrtKernelContext* context, size_t columns, Buffer* buffer,
                      Hidden* hidden) {
  Tensor& tensor = hidden->tensor;
  if (OrtStatus* status = ReadInput(node, context, 0, "hidden", &tensor)) return status;
  if (tensor.rank < 1 || static_cast<uint64_t>(tensor.dims[tensor.rank - 1]) != columns) {
    Message message = Begin(node);
    message << "got hidden of shape " << tensor << ", expected [..., " << static_cast<int64_t>(columns)
            << "] (the columns of the table): give vectors of that size";
    return Fail(node, message);
  }
  hidden->batch = tensor.count / columns;
  if (tensor.type == EE_FLOAT32 || tensor.count == 0) {
    hidden->data = static_cast<const float*>(tensor.data);
    return nullptr;
  }
  if (OrtStatus* status = buffer->Allocate(node, tensor.count, sizeof(float))) return status;
  float* widened = static_cast<float*>(buffer->data());
  WidenToFloat(tensor.data, tensor.type, tensor.count, widened);
  hidden->data = widened;
  return nullptr;
}

}  // namespace edge_embed::ort
