// From the attributes and inputs of a DPQEmbedding node to the table that the kernel reads.
#ifndef EDGE_EMBED_ORT_DPQ_TABLE_H_
#define EDGE_EMBED_ORT_DPQ_TABLE_H_

#include "kernels/dpq/dpq.h"
#include "ort/node.h"

namespace edge_embed::ort {

constexpr const char* kDpqEmbedding = "DPQEmbedding";

struct DpqAttributes {
  int64_t bits;
  int64_t num_codes;
  int64_t num_groups;
  int64_t padding_idx;  // -1: none
};

OrtStatus* ReadDpqAttributes(const OrtApi& api, const OrtKernelInfo* info, DpqAttributes* attributes);

// Checks the two tensors (codes uint8 [n, row_bytes]; values float32 [num_groups or 1, num_codes, width])
// against the attributes and each other. `table` points into them.
OrtStatus* MakeDpqTable(const OrtApi& api, const DpqAttributes& attributes, const Tensor& codes,
                        const Tensor& values, dpq::Table* table);

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_DPQ_TABLE_H_
