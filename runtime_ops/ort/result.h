// Common functions of the uses: sizes of results, and messages for invalid ids and damaged rows.
#ifndef EDGE_EMBED_ORT_RESULT_H_
#define EDGE_EMBED_ORT_RESULT_H_

#include "ort/node.h"
#include "ort/parallel.h"

namespace edge_embed::ort {

OrtStatus* FailResultSize(const Node& node, size_t rows, size_t columns);

// `where` describes the position, such as "of the flattened ids".
OrtStatus* FailId(const Node& node, int64_t id, size_t position, const char* where, int64_t num_embeddings);

// The error for a row that cannot be read because the table is damaged.
OrtStatus* FailTableRow(const Node& node, ee_status status, int64_t id);

template <class Table>
OrtStatus* FailRow(const Node& node, const FirstError& error, int64_t id, const char* where,
                   const Table& table) {
  return error.status() == EE_ID_OUT_OF_RANGE
             ? FailId(node, id, error.position(), where, table.num_embeddings)
             : FailTableRow(node, error.status(), id);
}

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_RESULT_H_
