// The reference kernels: one anchor after another. All other kernels are tested against them.
#include "kernels/reference.h"

#include "kernels/ant/ant.h"

namespace edge_embed::ant {
namespace {

uint64_t AnchorIdAt(const Table& table, size_t index) {
  switch (table.anchor_id_type) {
    case EE_UINT8:
      return Load<uint8_t>(table.anchor_ids, index);
    case EE_UINT16:
      return Load<uint16_t>(table.anchor_ids, index);
    default:
      return Load<uint32_t>(table.anchor_ids, index);
  }
}

}  // namespace

Size RowScratch(const Table&) { return 0; }

ee_status ReadRow(const Table& table, size_t id, double* row, double*) {
  const size_t columns = Columns(table);
  const int64_t begin = Load<int32_t>(table.row_offsets, id), end = Load<int32_t>(table.row_offsets, id + 1);
  if (begin < 0 || end < begin || end > table.num_weights) return EE_BAD_ROW_OFFSETS;
  if (end - begin > table.num_anchors) return EE_LONG_ROW;
  Fill(0.0, columns, row);
  for (size_t t = static_cast<size_t>(begin); t < static_cast<size_t>(end); ++t) {
    const uint64_t anchor = AnchorIdAt(table, t);
    if (anchor >= static_cast<uint64_t>(table.num_anchors)) return EE_BAD_ANCHOR_ID;
    const double weight = LoadNumber(table.weights, table.weight_type, t);
    AddScaled(weight, table.anchors, table.anchor_type, static_cast<size_t>(anchor) * columns, columns, row);
  }
  for (size_t k = 0; k < columns; ++k) row[k] *= ToDouble(table.weight_scale);
  return EE_OK;
}

size_t Columns(const Table& table) { return static_cast<size_t>(table.embedding_dim); }

namespace {

uint64_t AverageWeights(const Table& table) {
  return static_cast<uint64_t>(table.num_weights / table.num_embeddings) + 1;
}

}  // namespace

uint64_t RowWork(const Table& table) { return (Size(AverageWeights(table)) * Columns(table)).saturated(); }

uint64_t LogitsWork(const Table& table) { return AverageWeights(table); }

}  // namespace edge_embed::ant

namespace edge_embed {

template ee_status GatherReference(const ant::Table&, const Ids&, size_t, size_t, const Output&, double*,
                                   size_t*);
template Size ScratchDoubles(const ant::Table&);
template ee_status BagReference(const ant::Table&, const Ids&, const Bags&, size_t, size_t, const Output&,
                                double*, size_t*);
template ee_status LogitsReference(const ant::Table&, const LogitsInput&, size_t, size_t, const LogitsOutput&,
                                   double*, size_t*);

}  // namespace edge_embed
