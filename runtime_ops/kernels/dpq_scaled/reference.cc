// The reference kernels: the row of the plain table, then one product for each number.
#include "kernels/reference.h"

#include "kernels/dpq_scaled/dpq_scaled.h"

namespace edge_embed::dpq_scaled {

uint64_t RowWork(const Table& table) { return Columns(table); }

uint64_t LogitsWork(const Table& table) { return dpq::LogitsWork(table.plain()); }

Size RowScratch(const Table& table) {
  return Size(dpq::Columns(table.plain())) + dpq::RowScratch(table.plain());
}

ee_status ReadRow(const Table& table, size_t id, double* row, double* scratch) {
  float scale;
  if (!ReadScale(table, id, &scale)) return EE_BAD_ROW_SCALE_CODE;
  const size_t plain_columns = dpq::Columns(table.plain()), columns = Columns(table);
  const ee_status status = dpq::ReadRow(table.plain(), id, scratch, scratch + plain_columns);
  if (status != EE_OK) return status;
  for (size_t k = 0; k < columns; ++k) {
    const float number = static_cast<float>(scratch[k]);
    row[k] = static_cast<double>(table.has_scales() ? number * scale : number);
  }
  return EE_OK;
}

}  // namespace edge_embed::dpq_scaled

namespace edge_embed {

template Size ScratchDoubles(const dpq_scaled::Table&);
template ee_status GatherReference(const dpq_scaled::Table&, const Ids&, size_t, size_t, const Output&,
                                   double*, size_t*);
template ee_status BagReference(const dpq_scaled::Table&, const Ids&, const Bags&, size_t, size_t,
                                const Output&, double*, size_t*);
template ee_status LogitsReference(const dpq_scaled::Table&, const LogitsInput&, size_t, size_t,
                                   const LogitsOutput&, double*, size_t*);

}  // namespace edge_embed
