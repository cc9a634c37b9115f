#include "ort/bag.h"

namespace edge_embed::ort {
namespace {

OrtStatus* CheckList(const Node& node, const Tensor& tensor, const char* name, const char* expected) {
  if (tensor.rank == 1) return nullptr;
  Message message = Begin(node);
  message << "got " << name << " of shape " << tensor << ", expected " << expected << ": flatten it";
  return Fail(node, message);
}

OrtStatus* CheckOffsets(const Node& node, const Bags& bags, size_t num_ids) {
  size_t bad = 0;
  const ee_status status = CheckBags(bags, num_ids, &bad);
  if (status == EE_OK) return nullptr;
  Message message = Begin(node);
  message << StatusMessage(status);
  if (status == EE_BAD_OFFSETS) {
    message << "; got offset " << Load<int64_t>(bags.offsets, bad) << " at position "
            << static_cast<int64_t>(bad) << " of " << static_cast<int64_t>(bags.count + 1) << ", and "
            << static_cast<int64_t>(num_ids) << " ids: correct the offsets";
  }
  return Fail(node, message);
}

OrtStatus* ReadSampleWeights(const Node& node, const OrtKernelContext* context, ee_type type, size_t num_ids,
                             Bags* bags) {
  Tensor weights;
  if (OrtStatus* status = ReadInput(node, context, 2, "sample_weights", &weights)) return status;
  if (weights.rank != 1 || weights.count != num_ids || weights.type != type) {
    Message message = Begin(node);
    message << "got sample_weights of shape " << weights << (weights.type == type ? "" : " and another type")
            << ", expected [" << static_cast<int64_t>(num_ids)
            << "] (one for each id) in the type of the rows: give one weight for each id, cast to that type";
    return Fail(node, message);
  }
  // An empty tensor may have no address, and nothing is read then.
  bags->sample_weights = weights.count == 0 ? nullptr : weights.data;
  bags->sample_weight_type = type;
  return nullptr;
}

}  // namespace

OrtStatus* ReadBagAttributes(const Node& node, const OrtKernelInfo* info, BagAttributes* attributes) {
  int64_t mode = 0, weighted = 0;
  if (OrtStatus* status = ReadInt(node, info, "mode", &mode)) return status;
  if (OrtStatus* status = ReadInt(node, info, "weighted", &weighted)) return status;
  if (mode >= 0 && mode <= 2 && (weighted == 0 || (weighted == 1 && mode == 0))) {
    attributes->mode = static_cast<BagMode>(mode);
    attributes->weighted = weighted == 1;
    return nullptr;
  }
  Message message = Begin(node);
  message << "got mode=" << mode << " and weighted=" << weighted
          << ", expected mode 0 (sum), 1 (mean) or 2 (max), and weighted 0, or 1 with mode 0" << kDamaged;
  return Fail(node, message);
}

OrtStatus* ReadBagInputs(const Node& node, const BagAttributes& attributes, const OrtKernelContext* context,
                         ee_type type, BagInputs* inputs) {
  Tensor ids, offsets;
  if (OrtStatus* status = ReadInput(node, context, 0, "ids", &ids)) return status;
  if (OrtStatus* status = ReadInput(node, context, 1, "offsets", &offsets)) return status;
  if (OrtStatus* status = CheckList(node, ids, "ids", "[ids]")) return status;
  if (offsets.rank != 1 || offsets.count < 1) {
    Message message = Begin(node);
    message << "got offsets of shape " << offsets
            << ", expected [bags + 1], from 0 to the number of ids: correct the offsets";
    return Fail(node, message);
  }
  inputs->ids = {ids.data, ids.type, ids.count};
  inputs->bags = {offsets.data, offsets.count - 1, nullptr, type, attributes.mode};
  if (attributes.weighted) {
    if (OrtStatus* status = ReadSampleWeights(node, context, type, ids.count, &inputs->bags)) return status;
  }
  return CheckOffsets(node, inputs->bags, ids.count);
}

}  // namespace edge_embed::ort
