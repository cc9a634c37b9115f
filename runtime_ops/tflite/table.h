// The table of a use: a struct of the C interface, filled from the manifest and the constants of the model.
#ifndef EDGE_EMBED_TFLITE_TABLE_H_
#define EDGE_EMBED_TFLITE_TABLE_H_

#include "c_api/edge_embed.h"
#include "tflite/fields.h"
#include "tflite/memory.h"

namespace edge_embed::tflite {

constexpr int64_t kNoPadding = -1;

struct Table {
  ee_table c;
  int64_t num_embeddings;
  int64_t columns;
};

// False, with a report, if the method is unknown or the table is damaged. `memory` holds data made for the
// table, and must live as long.
bool ReadTable(Fields* fields, Text method, Memory* memory, Table* table);

// One function for each method, in the file of its name. It fills its struct and the columns of the table.
// The number of rows is already set.
void ReadMethod(Fields* fields, Memory* memory, ee_dpq_table* dpq, Table* table);
void ReadMethod(Fields* fields, Memory* memory, ee_dpq_scaled_table* scaled, Table* table);
void ReadMethod(Fields* fields, Memory* memory, ee_tiered_table* tiered, Table* table);
void ReadMethod(Fields* fields, Memory* memory, ee_ant_table* ant, Table* table);
void ReadMethod(Fields* fields, Memory* memory, ee_tt_table* tt, Table* table);

// False on overflow.
bool Product(const int64_t* factors, size_t count, int64_t* product);

}  // namespace edge_embed::tflite

#endif  // EDGE_EMBED_TFLITE_TABLE_H_
