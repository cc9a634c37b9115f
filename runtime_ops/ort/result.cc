#include "ort/result.h"

namespace edge_embed::ort {

OrtStatus* FailResultSize(const Node& node, size_t rows, size_t columns) {
  Message message = Begin(node);
  message << StatusMessage(EE_SIZE_OVERFLOW) << "; got " << static_cast<int64_t>(rows) << " rows of "
          << static_cast<int64_t>(columns) << " numbers to write: run a smaller batch";
  return Fail(node, message);
}

OrtStatus* FailId(const Node& node, int64_t id, size_t position, const char* where, int64_t num_embeddings) {
  Message message = Begin(node);
  message << "got id " << id << " at position " << static_cast<int64_t>(position) << " " << where
          << ", expected 0 <= id < " << num_embeddings << " (the rows of the table): correct the ids";
  return Fail(node, message);
}

OrtStatus* FailTableRow(const Node& node, ee_status status, int64_t id) {
  Message message = Begin(node);
  message << "row " << id << " of the table cannot be read, " << StatusMessage(status) << kDamaged;
  return Fail(node, message);
}

}  // namespace edge_embed::ort
