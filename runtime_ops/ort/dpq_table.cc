#include "ort/dpq_table.h"

namespace edge_embed::ort {
namespace {

constexpr const char* kRemedy = ": the file is damaged or was not made by edge-embed, export the model again";

OrtStatus* CheckAttributes(const OrtApi& api, const DpqAttributes& attributes, uint64_t* row_bytes) {
  const bool bits_fit = attributes.bits >= 1 && attributes.bits <= 16;
  if (bits_fit && dpq::RowBytes(attributes.num_groups, static_cast<int>(attributes.bits), row_bytes)) {
    return nullptr;
  }
  Message message;
  message << kDomain << "." << kDpqEmbedding << ": got bits=" << attributes.bits
          << " and num_groups=" << attributes.num_groups
          << ", expected bits from 1 to 16 and num_groups of at least 1" << kRemedy;
  return Fail(api, message);
}

OrtStatus* CheckCodes(const OrtApi& api, const DpqAttributes& attributes, const Tensor& codes,
                      uint64_t row_bytes) {
  if (codes.rank == 2 && codes.dims[0] >= 1 && static_cast<uint64_t>(codes.dims[1]) == row_bytes) {
    return nullptr;
  }
  Message message;
  message << kDomain << "." << kDpqEmbedding << ": got codes of shape " << codes << ", expected [rows, "
          << static_cast<int64_t>(row_bytes) << "] with at least one row (" << attributes.num_groups
          << " groups of " << attributes.bits << " bits)" << kRemedy;
  return Fail(api, message);
}

OrtStatus* CheckValues(const OrtApi& api, const DpqAttributes& attributes, const Tensor& values) {
  if (values.rank == 3 && (values.dims[0] == attributes.num_groups || values.dims[0] == 1) &&
      values.dims[1] == attributes.num_codes && values.dims[2] >= 1) {
    return nullptr;
  }
  Message message;
  message << kDomain << "." << kDpqEmbedding << ": got values of shape " << values << ", expected ["
          << attributes.num_groups << " or 1, " << attributes.num_codes << ", group width]" << kRemedy;
  return Fail(api, message);
}

OrtStatus* CheckTable(const OrtApi& api, const dpq::Table& table) {
  const ee_status status = dpq::Validate(table);
  if (status == EE_OK) return nullptr;
  Message message;
  message << kDomain << "." << kDpqEmbedding << ": " << StatusMessage(status)
          << "; got num_embeddings=" << table.num_embeddings << ", num_codes=" << table.num_codes
          << ", num_groups=" << table.num_groups << ", group_width=" << table.group_width
          << ", bits=" << int64_t{table.bits} << ", padding_idx=" << table.padding_idx << kRemedy;
  return Fail(api, message);
}

}  // namespace

OrtStatus* ReadDpqAttributes(const OrtApi& api, const OrtKernelInfo* info, DpqAttributes* attributes) {
  if (OrtStatus* status = ReadInt(api, info, kDpqEmbedding, "bits", &attributes->bits)) return status;
  if (OrtStatus* status = ReadInt(api, info, kDpqEmbedding, "num_codes", &attributes->num_codes)) {
    return status;
  }
  if (OrtStatus* status = ReadInt(api, info, kDpqEmbedding, "num_groups", &attributes->num_groups)) {
    return status;
  }
  return ReadInt(api, info, kDpqEmbedding, "padding_idx", &attributes->padding_idx);
}

OrtStatus* MakeDpqTable(const OrtApi& api, const DpqAttributes& attributes, const Tensor& codes,
                        const Tensor& values, dpq::Table* table) {
  uint64_t row_bytes = 0;
  if (OrtStatus* status = CheckAttributes(api, attributes, &row_bytes)) return status;
  if (OrtStatus* status = CheckCodes(api, attributes, codes, row_bytes)) return status;
  if (OrtStatus* status = CheckValues(api, attributes, values)) return status;

  table->codes = static_cast<const unsigned char*>(codes.data);
  table->codes_bytes = codes.count;
  table->values = static_cast<const unsigned char*>(values.data);
  table->values_bytes = values.count * sizeof(float);
  table->num_embeddings = codes.dims[0];
  table->num_codes = attributes.num_codes;
  table->num_groups = attributes.num_groups;
  table->group_width = values.dims[2];
  table->padding_idx = attributes.padding_idx;
  table->bits = static_cast<int>(attributes.bits);
  table->shared = values.dims[0] == 1;
  return CheckTable(api, *table);
}

}  // namespace edge_embed::ort
