// The table of a use: a struct of the C ABI, filled from the manifest and the constants of the model, and
// what the C ABI does with each of the methods.
#ifndef EDGE_EMBED_TFLITE_TABLE_H_
#define EDGE_EMBED_TFLITE_TABLE_H_

#include "c_api/edge_embed.h"
#include "tflite/fields.h"
#include "tflite/memory.h"

namespace edge_embed::tflite {

enum class Method { kDpq, kAnt, kTt };

struct Table {
  Method method;
  int64_t num_embeddings;
  int64_t columns;
  union {
    ee_dpq_table dpq;
    ee_ant_table ant;
    ee_tt_table tt;
  };
};

// False, with a report, where the method is not known, or the table is damaged. `memory` keeps what is made
// of the table, and must live as long.
bool ReadTable(Fields* fields, Text method, Memory* memory, Table* table);

template <class T>
struct Api;

template <>
struct Api<ee_dpq_table> {
  static ee_status GatherI32(const ee_dpq_table* table, const int32_t* ids, int64_t num_ids, float* rows,
                             size_t rows_bytes, void*, size_t, int64_t* bad_position) {
    return ee_dpq_gather_f32_i32(table, ids, num_ids, rows, rows_bytes, bad_position);
  }
  static ee_status GatherI64(const ee_dpq_table* table, const int64_t* ids, int64_t num_ids, float* rows,
                             size_t rows_bytes, void*, size_t, int64_t* bad_position) {
    return ee_dpq_gather_f32_i64(table, ids, num_ids, rows, rows_bytes, bad_position);
  }
  static constexpr auto kScratchBytes = ee_dpq_scratch_bytes;
  static constexpr auto kGatherI32 = GatherI32;
  static constexpr auto kGatherI64 = GatherI64;
  static constexpr auto kBagI32 = ee_dpq_bag_f32_i32;
  static constexpr auto kBagI64 = ee_dpq_bag_f32_i64;
  static constexpr auto kLogits = ee_dpq_logits_f32;
  static constexpr auto kTopKScratchBytes = ee_dpq_topk_scratch_bytes;
  static constexpr auto kTopK = ee_dpq_topk_f32;
};

template <>
struct Api<ee_ant_table> {
  static constexpr auto kScratchBytes = ee_ant_scratch_bytes;
  static constexpr auto kGatherI32 = ee_ant_gather_f32_i32;
  static constexpr auto kGatherI64 = ee_ant_gather_f32_i64;
  static constexpr auto kBagI32 = ee_ant_bag_f32_i32;
  static constexpr auto kBagI64 = ee_ant_bag_f32_i64;
  static constexpr auto kLogits = ee_ant_logits_f32;
  static constexpr auto kTopKScratchBytes = ee_ant_topk_scratch_bytes;
  static constexpr auto kTopK = ee_ant_topk_f32;
};

template <>
struct Api<ee_tt_table> {
  static constexpr auto kScratchBytes = ee_tt_scratch_bytes;
  static constexpr auto kGatherI32 = ee_tt_gather_f32_i32;
  static constexpr auto kGatherI64 = ee_tt_gather_f32_i64;
  static constexpr auto kBagI32 = ee_tt_bag_f32_i32;
  static constexpr auto kBagI64 = ee_tt_bag_f32_i64;
  static constexpr auto kLogits = ee_tt_logits_f32;
  static constexpr auto kTopKScratchBytes = ee_tt_topk_scratch_bytes;
  static constexpr auto kTopK = ee_tt_topk_f32;
};

// call(table of the C ABI, its Api).
template <class Call>
ee_status WithTable(const Table& table, const Call& call) {
  switch (table.method) {
    case Method::kDpq:
      return call(&table.dpq, Api<ee_dpq_table>());
    case Method::kAnt:
      return call(&table.ant, Api<ee_ant_table>());
    default:
      return call(&table.tt, Api<ee_tt_table>());
  }
}

}  // namespace edge_embed::tflite

#endif  // EDGE_EMBED_TFLITE_TABLE_H_
