// Attributes and tensors of DPQ tables, for all operators that have them (ort/dpq.cc, ort/dpq_scaled.cc,
// ort/tiered.cc).
#ifndef EDGE_EMBED_ORT_DPQ_H_
#define EDGE_EMBED_ORT_DPQ_H_

#include "kernels/dpq_scaled/dpq_scaled.h"
#include "ort/node.h"

namespace edge_embed::ort {

struct DpqAttributes {
  int64_t bits;
  int64_t num_codes;
  int64_t num_groups;
  int64_t padding_idx;
};

OrtStatus* ReadDpqAttributes(const Node& node, const OrtKernelInfo* info, DpqAttributes* attributes);

// Checks everything. The tensors are codes, values, and value_scales if there are three.
OrtStatus* MakeDpqTable(const Node& node, const DpqAttributes& attributes, const Tensor* tensors,
                        size_t num_tensors, dpq::Table* table);

// Checks row_scale_codes and row_scales, and gives them to a plain table.
OrtStatus* AddRowScales(const Node& node, const Tensor& codes, const Tensor& scales,
                        dpq_scaled::Table* table);

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_DPQ_H_
