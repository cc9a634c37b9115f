// Conversion of tables between the structs of the C interface and those of the kernels.
#ifndef EDGE_EMBED_C_API_TABLES_H_
#define EDGE_EMBED_C_API_TABLES_H_

#include "c_api/edge_embed.h"
#include "kernels/methods.h"
#include "kernels/variant.h"

namespace edge_embed::c_api {

dpq::Table ToTable(const ee_dpq_table& c);
dpq_scaled::Table ToTable(const ee_dpq_scaled_table& c);
tiered::Table ToTable(const ee_tiered_table& c);
ant::Table ToTable(const ee_ant_table& c);
tt::Table ToTable(const ee_tt_table& c);
ee_tt_table ToC(const tt::Table& table);

// Calls use(table of the kernels, its part of *c) if the table is valid.
template <class CTable, class Use>
ee_status WithSound(CTable& c, const Use& use) {
  const auto table = ToTable(c);
  const ee_status status = Validate(table);
  return status == EE_OK ? use(table, c) : status;
}

// The same for a table of any method.
template <class CTable, class Use>
ee_status WithTable(CTable* c, const Use& use) {
  if (c == nullptr) return EE_NULL_POINTER;
  if (c->version != EE_TABLE_VERSION) return EE_BAD_VERSION;
  if (IsVariantRefused()) return EE_BAD_ISA;
  switch (c->method) {
#define EDGE_EMBED_CASE(method, NAME) \
  case EE_##NAME:                     \
    return WithSound(c->method, use);
    EDGE_EMBED_METHODS(EDGE_EMBED_CASE)
#undef EDGE_EMBED_CASE
  }
  return EE_BAD_METHOD;
}

}  // namespace edge_embed::c_api

#endif  // EDGE_EMBED_C_API_TABLES_H_
