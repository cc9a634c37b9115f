// The tables of C callers as those of the kernels, and one back.
#ifndef EDGE_EMBED_C_API_TABLES_H_
#define EDGE_EMBED_C_API_TABLES_H_

#include "c_api/edge_embed.h"
#include "kernels/ant/ant.h"
#include "kernels/dpq/dpq.h"
#include "kernels/tt/tt.h"

namespace edge_embed::c_api {

dpq::Table ToTable(const ee_dpq_table& c);
ant::Table ToTable(const ee_ant_table& c);
tt::Table ToTable(const ee_tt_table& c);
ee_tt_table ToC(const tt::Table& table);

}  // namespace edge_embed::c_api

#endif  // EDGE_EMBED_C_API_TABLES_H_
