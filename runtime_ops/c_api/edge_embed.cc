#include "c_api/edge_embed.h"

#include "kernels/dpq/blocks.h"
#include "kernels/topk.h"
#include "kernels/tt/merge.h"

namespace {

using edge_embed::Bags;
using edge_embed::ChosenKernels;
using edge_embed::HeadInput;
using edge_embed::Ids;
using edge_embed::LogitsOutput;
using edge_embed::Output;
using edge_embed::Size;
using edge_embed::TopK;
using edge_embed::TopKInput;

namespace ant = edge_embed::ant;
namespace dpq = edge_embed::dpq;
namespace tt = edge_embed::tt;

// A number that is no ee_type stays one: Validate refuses it.
ee_type ToType(int32_t type) {
  return type >= EE_FLOAT32 && type <= EE_INT64 ? static_cast<ee_type>(type) : EE_INT64;
}

const unsigned char* ToBytes(const void* data) { return static_cast<const unsigned char*>(data); }

dpq::Table ToTable(const ee_dpq_table& c) {
  dpq::Table table{};
  table.codes = c.codes;
  table.codes_bytes = c.codes_bytes;
  table.values = ToBytes(c.values);
  table.values_bytes = c.values_bytes;
  table.value_scales = ToBytes(c.value_scales);
  table.value_scales_bytes = c.value_scales_bytes;
  table.blocks =
      c.blocks_bytes == 0 ? nullptr : ToBytes(c.blocks);  // some allocators give nothing an address
  table.blocks_bytes = c.blocks_bytes;
  table.num_embeddings = c.num_embeddings;
  table.num_codes = c.num_codes;
  table.num_groups = c.num_groups;
  table.group_width = c.group_width;
  table.padding_idx = c.padding_idx;
  table.value_type = ToType(c.value_type);
  table.bits = c.bits;
  table.shared = c.shared != 0;
  return table;
}

ant::Table ToTable(const ee_ant_table& c) {
  ant::Table table{};
  table.row_offsets = ToBytes(c.row_offsets);
  table.row_offsets_bytes = c.row_offsets_bytes;
  table.anchor_ids = ToBytes(c.anchor_ids);
  table.anchor_ids_bytes = c.anchor_ids_bytes;
  table.weights = ToBytes(c.weights);
  table.weights_bytes = c.weights_bytes;
  table.anchors = ToBytes(c.anchors);
  table.anchors_bytes = c.anchors_bytes;
  table.num_embeddings = c.num_embeddings;
  table.num_weights = c.num_weights;
  table.num_anchors = c.num_anchors;
  table.embedding_dim = c.embedding_dim;
  table.padding_idx = c.padding_idx;
  table.anchor_id_type = ToType(c.anchor_id_type);
  table.weight_type = ToType(c.weight_type);
  table.anchor_type = ToType(c.anchor_type);
  table.weight_scale = c.weight_scale;
  return table;
}

tt::Table ToTable(const ee_tt_table& c) {
  static_assert(EE_MAX_CORES == tt::kMaxCores, "one number, in C and in C++");
  tt::Table table{};
  for (size_t k = 0; k < EE_MAX_CORES; ++k) {
    const ee_tt_core& core = c.cores[k];
    table.cores[k] = {ToBytes(core.data), core.bytes, core.rows, core.rank_in, core.columns, core.rank_out};
  }
  table.num_cores = c.num_cores;
  table.num_embeddings = c.num_embeddings;
  table.padding_idx = c.padding_idx;
  table.core_type = ToType(c.core_type);
  return table;
}

ee_tt_table ToC(const tt::Table& table) {
  ee_tt_table c{};
  for (int64_t k = 0; k < table.num_cores; ++k) {
    const tt::Core& core = table.cores[k];
    c.cores[k] = {core.data, core.bytes, core.rows, core.rank_in, core.columns, core.rank_out};
  }
  c.num_cores = table.num_cores;
  c.num_embeddings = table.num_embeddings;
  c.padding_idx = table.padding_idx;
  c.core_type = table.core_type;
  return c;
}

bool HasVariant(int32_t index) { return index >= 0 && static_cast<size_t>(index) < edge_embed::kNumVariants; }

ee_type IdType(const int32_t*) { return EE_INT32; }
ee_type IdType(const int64_t*) { return EE_INT64; }

// A buffer of the caller's.
struct Buffer {
  void* data;
  size_t bytes;
};

// Heads take so many states at a time, which bounds the memory they need.
constexpr size_t kStatesAtOnce = 16;

// What any use of the table needs: one number for the caller.
template <class Table>
ee_status ScratchOf(const Table& table, size_t* bytes) {
  const auto& kernels = ChosenKernels(table);
  const Size head = kernels.logits.scratch(table) + kernels.logits.Prepared(table, kStatesAtOnce);
  const Size doubles = Max(Max(kernels.gather.scratch(table), kernels.bag.scratch(table)), head);
  uint64_t all;
  if (!(doubles * sizeof(double)).Get(&all)) return EE_SIZE_OVERFLOW;
  *bytes = static_cast<size_t>(all);
  return EE_OK;
}

template <class CTable>
ee_status ScratchBytes(const CTable* c_table, size_t* bytes) {
  if (c_table == nullptr || bytes == nullptr) return EE_NULL_POINTER;
  const auto table = ToTable(*c_table);
  const ee_status valid = Validate(table);
  return valid == EE_OK ? ScratchOf(table, bytes) : valid;
}

ee_status BlocksBytes(const ee_dpq_table* c_table, size_t* bytes) {
  if (c_table == nullptr || bytes == nullptr) return EE_NULL_POINTER;
  const dpq::Table table = ToTable(*c_table);
  const ee_status valid = Validate(table);
  if (valid != EE_OK) return valid;
  uint64_t all;
  if (!ChosenKernels(table).logits.Blocks(table).Get(&all)) return EE_SIZE_OVERFLOW;
  *bytes = static_cast<size_t>(all);
  return EE_OK;
}

// EE_OK where rows of the output and the scratch fit; null: none is needed.
template <class Table>
ee_status CheckBuffers(const Table& table, Size rows, Size columns, const Buffer& output,
                       const Buffer* scratch) {
  size_t needed, scratch_bytes;
  if (!edge_embed::OutputBytes(rows, columns, EE_FLOAT32, &needed)) return EE_SIZE_OVERFLOW;
  if (output.bytes < needed) return EE_SHORT_OUTPUT;
  if (scratch == nullptr) return EE_OK;
  const ee_status sized = ScratchOf(table, &scratch_bytes);
  if (sized != EE_OK) return sized;
  if (scratch->bytes < scratch_bytes) return EE_SHORT_SCRATCH;
  return scratch->data == nullptr ? EE_NULL_POINTER : EE_OK;
}

bool ReportsPosition(ee_status status) {
  return status == EE_ID_OUT_OF_RANGE || status == EE_BAD_ROW_OFFSETS || status == EE_LONG_ROW ||
         status == EE_BAD_ANCHOR_ID || status == EE_BAD_OFFSETS;
}

ee_status Report(ee_status status, size_t bad, int64_t* bad_position) {
  if (ReportsPosition(status) && bad_position != nullptr) *bad_position = static_cast<int64_t>(bad);
  return status;
}

template <class CTable, typename Id>
ee_status Gather(const CTable* c_table, const Id* ids, int64_t num_ids, const Buffer& rows,
                 const Buffer* scratch, int64_t* bad_position) {
  if (bad_position != nullptr) *bad_position = -1;
  if (c_table == nullptr) return EE_NULL_POINTER;
  const auto table = ToTable(*c_table);
  const ee_status valid = Validate(table);
  if (valid != EE_OK) return valid;
  if (num_ids < 0) return EE_BAD_SHAPE;
  if (num_ids == 0) return EE_OK;
  if (ids == nullptr || rows.data == nullptr) return EE_NULL_POINTER;
  const size_t count = static_cast<size_t>(num_ids);
  const ee_status fits = CheckBuffers(table, count, Columns(table), rows, scratch);
  if (fits != EE_OK) return fits;

  double* const memory = scratch == nullptr ? nullptr : static_cast<double*>(scratch->data);
  size_t bad = 0;
  const ee_status status = ChosenKernels(table).gather.run(table, Ids{ids, IdType(ids), count}, 0, count,
                                                           Output{rows.data, EE_FLOAT32}, memory, &bad);
  return Report(status, bad, bad_position);
}

template <class CTable, typename Id>
ee_status Bag(const CTable* c_table, const Id* ids, int64_t num_ids, const ee_bags* c_bags, const Buffer& out,
              const Buffer& scratch, int64_t* bad_position) {
  if (bad_position != nullptr) *bad_position = -1;
  if (c_table == nullptr || c_bags == nullptr) return EE_NULL_POINTER;
  const auto table = ToTable(*c_table);
  const ee_status valid = Validate(table);
  if (valid != EE_OK) return valid;
  if (num_ids < 0 || c_bags->num_bags < 0) return EE_BAD_SHAPE;
  const size_t count = static_cast<size_t>(num_ids), bag_count = static_cast<size_t>(c_bags->num_bags);
  const bool nothing_to_write = bag_count == 0;
  if (c_bags->offsets == nullptr || (ids == nullptr && count > 0) ||
      (out.data == nullptr && !nothing_to_write)) {
    return EE_NULL_POINTER;
  }

  const Bags bags{c_bags->offsets, bag_count, c_bags->sample_weights, EE_FLOAT32,
                  static_cast<edge_embed::BagMode>(c_bags->mode)};
  size_t bad = 0;
  const ee_status sound = edge_embed::CheckBags(bags, count, &bad);
  if (sound != EE_OK) return Report(sound, bad, bad_position);
  if (nothing_to_write) return EE_OK;
  const ee_status fits = CheckBuffers(table, bag_count, Columns(table), out, &scratch);
  if (fits != EE_OK) return fits;

  const ee_status status =
      ChosenKernels(table).bag.run(table, Ids{ids, IdType(ids), count}, bags, 0, bag_count,
                                   Output{out.data, EE_FLOAT32}, static_cast<double*>(scratch.data), &bad);
  return Report(status, bad, bad_position);
}

template <class CTable>
ee_status Logits(const CTable* c_table, const float* hidden, int64_t batch, const Buffer& logits,
                 const Buffer& scratch, int64_t* bad_row) {
  if (bad_row != nullptr) *bad_row = -1;
  if (c_table == nullptr) return EE_NULL_POINTER;
  const auto table = ToTable(*c_table);
  const ee_status valid = Validate(table);
  if (valid != EE_OK) return valid;
  if (batch < 0) return EE_BAD_SHAPE;
  if (batch == 0) return EE_OK;
  if (hidden == nullptr || logits.data == nullptr) return EE_NULL_POINTER;
  const size_t count = static_cast<size_t>(batch), rows = static_cast<size_t>(table.num_embeddings);
  const ee_status fits = CheckBuffers(table, count, rows, logits, &scratch);
  if (fits != EE_OK) return fits;

  const auto& head = ChosenKernels(table).logits;
  double* const memory = static_cast<double*>(scratch.data);
  double* const prepared = memory + head.scratch(table).saturated();
  const size_t columns = Columns(table);
  size_t bad = 0;
  ee_status status = EE_OK;
  for (size_t state = 0; state < count; state += kStatesAtOnce) {
    const size_t states = count - state < kStatesAtOnce ? count - state : kStatesAtOnce;
    const HeadInput input = head.Prepare(table, hidden + state * columns, states, prepared);
    const Output out{static_cast<float*>(logits.data) + state * rows, EE_FLOAT32};
    status = head.run(table, input, 0, rows, LogitsOutput{out, rows, 0}, memory, &bad);
  }
  return Report(status, bad, bad_row);
}

// The scratch of a head that gives the k best: what it prepares, its own, and the best of some states.
template <class Table>
struct TopKScratch {
  TopKScratch(const TopK<Table>& kernel, const Table& table, size_t k)
      : own(kernel.Prepared(table, kStatesAtOnce)),
        best(own + kernel.scratch(table)),
        all(best + Size(kStatesAtOnce) * (k + 1)) {}

  ee_status Bytes(size_t* bytes) const {
    uint64_t fitting;
    if (!(all * sizeof(double)).Get(&fitting)) return EE_SIZE_OVERFLOW;
    *bytes = static_cast<size_t>(fitting);
    return EE_OK;
  }

  Size own, best, all;  // doubles before them, and in all
};

template <class CTable>
ee_status TopKScratchBytes(const CTable* c_table, int64_t k, size_t* bytes) {
  if (c_table == nullptr || bytes == nullptr) return EE_NULL_POINTER;
  const auto table = ToTable(*c_table);
  ee_status status = Validate(table);
  if (status == EE_OK) status = edge_embed::CheckK(k, table.num_embeddings);
  if (status != EE_OK) return status;
  const TopK kernel(edge_embed::ChosenVariant(), table);
  return TopKScratch(kernel, table, static_cast<size_t>(k)).Bytes(bytes);
}

ee_status CheckBest(const ee_topk& topk, Size batch, const Buffer& scratch, size_t scratch_bytes) {
  uint64_t values, ids;
  const Size count = batch * static_cast<uint64_t>(topk.k);
  if (!(count * sizeof(float)).Get(&values) || !(count * sizeof(int64_t)).Get(&ids)) return EE_SIZE_OVERFLOW;
  if (topk.values_bytes < values || topk.ids_bytes < ids) return EE_SHORT_OUTPUT;
  if (scratch.bytes < scratch_bytes) return EE_SHORT_SCRATCH;
  return topk.values == nullptr || topk.ids == nullptr || scratch.data == nullptr ? EE_NULL_POINTER : EE_OK;
}

// The best of the states from `state` on.
void WriteBest(const TopKInput& input, size_t state, const ee_topk& topk) {
  for (size_t b = 0; b < input.head.batch; ++b) {
    const edge_embed::Best best = input.BestOf(b);
    edge_embed::Sort(best.heap, best.k);
    for (size_t i = 0; i < best.k; ++i) {
      topk.values[(state + b) * best.k + i] = edge_embed::LogitOf(best.heap[i]);
      topk.ids[(state + b) * best.k + i] = edge_embed::RowOf(best.heap[i]);
    }
  }
}

template <class CTable>
ee_status FindBest(const CTable* c_table, const float* hidden, int64_t batch, const ee_topk* topk,
                   const Buffer& scratch, int64_t* bad_row) {
  if (bad_row != nullptr) *bad_row = -1;
  if (c_table == nullptr || topk == nullptr) return EE_NULL_POINTER;
  const auto table = ToTable(*c_table);
  ee_status status = Validate(table);
  if (status == EE_OK) status = edge_embed::CheckK(topk->k, table.num_embeddings);
  if (status != EE_OK) return status;
  if (batch < 0) return EE_BAD_SHAPE;
  if (batch == 0) return EE_OK;
  if (hidden == nullptr) return EE_NULL_POINTER;
  const TopK kernel(edge_embed::ChosenVariant(), table);
  const size_t count = static_cast<size_t>(batch), k = static_cast<size_t>(topk->k);
  const TopKScratch parts(kernel, table, k);
  size_t needed;
  status = parts.Bytes(&needed);
  if (status == EE_OK) status = CheckBest(*topk, count, scratch, needed);
  if (status != EE_OK) return status;

  double* const memory = static_cast<double*>(scratch.data);
  TopKInput input{{}, k, topk->bias, EE_FLOAT32, nullptr};
  input.best = static_cast<edge_embed::Candidate*>(scratch.data) + parts.best.saturated();
  size_t bad = 0;
  for (size_t state = 0; state < count && status == EE_OK; state += kStatesAtOnce) {
    const size_t states = count - state < kStatesAtOnce ? count - state : kStatesAtOnce;
    input.head = kernel.Prepare(table, hidden + state * Columns(table), states, memory);
    for (size_t i = 0; i < states * (k + 1); ++i) input.best[i] = edge_embed::kNone;
    status = kernel.Run(table, input, 0, static_cast<size_t>(table.num_embeddings),
                        memory + parts.own.saturated(), &bad);
    if (status == EE_OK) WriteBest(input, state, *topk);
  }
  return Report(status, bad, bad_row);
}

ee_status FindMerging(const ee_tt_table* c_table, uint64_t most_bytes, tt::Merging* merging) {
  if (c_table == nullptr) return EE_NULL_POINTER;
  const tt::Table table = ToTable(*c_table);
  const ee_status valid = Validate(table);
  if (valid == EE_OK) *merging = tt::BestMerging(table, most_bytes);
  return valid;
}

}  // namespace

const char* ee_version(void) { return EDGE_EMBED_VERSION; }

const char* ee_isa(void) { return edge_embed::ChosenVariant().name; }

const char* ee_isa_name(int32_t index) {
  return HasVariant(index) ? edge_embed::kVariants[index]->name : nullptr;
}

int32_t ee_isa_runs(int32_t index) {
  return HasVariant(index) && edge_embed::kVariants[index]->runs_here() ? 1 : 0;
}

const char* ee_status_message(int32_t status) { return edge_embed::StatusMessage(status); }

ee_status ee_dpq_gather_f32_i64(const ee_dpq_table* table, const int64_t* ids, int64_t num_ids, float* rows,
                                size_t rows_bytes, int64_t* bad_position) {
  return Gather(table, ids, num_ids, {rows, rows_bytes}, nullptr, bad_position);
}

ee_status ee_dpq_gather_f32_i32(const ee_dpq_table* table, const int32_t* ids, int64_t num_ids, float* rows,
                                size_t rows_bytes, int64_t* bad_position) {
  return Gather(table, ids, num_ids, {rows, rows_bytes}, nullptr, bad_position);
}

ee_status ee_ant_gather_f32_i64(const ee_ant_table* table, const int64_t* ids, int64_t num_ids, float* rows,
                                size_t rows_bytes, void* scratch, size_t scratch_bytes,
                                int64_t* bad_position) {
  const Buffer memory{scratch, scratch_bytes};
  return Gather(table, ids, num_ids, {rows, rows_bytes}, &memory, bad_position);
}

ee_status ee_ant_gather_f32_i32(const ee_ant_table* table, const int32_t* ids, int64_t num_ids, float* rows,
                                size_t rows_bytes, void* scratch, size_t scratch_bytes,
                                int64_t* bad_position) {
  const Buffer memory{scratch, scratch_bytes};
  return Gather(table, ids, num_ids, {rows, rows_bytes}, &memory, bad_position);
}

ee_status ee_tt_gather_f32_i64(const ee_tt_table* table, const int64_t* ids, int64_t num_ids, float* rows,
                               size_t rows_bytes, void* scratch, size_t scratch_bytes,
                               int64_t* bad_position) {
  const Buffer memory{scratch, scratch_bytes};
  return Gather(table, ids, num_ids, {rows, rows_bytes}, &memory, bad_position);
}

ee_status ee_tt_gather_f32_i32(const ee_tt_table* table, const int32_t* ids, int64_t num_ids, float* rows,
                               size_t rows_bytes, void* scratch, size_t scratch_bytes,
                               int64_t* bad_position) {
  const Buffer memory{scratch, scratch_bytes};
  return Gather(table, ids, num_ids, {rows, rows_bytes}, &memory, bad_position);
}

ee_status ee_dpq_bag_f32_i64(const ee_dpq_table* table, const int64_t* ids, int64_t num_ids,
                             const ee_bags* bags, float* out, size_t out_bytes, void* scratch,
                             size_t scratch_bytes, int64_t* bad_position) {
  return Bag(table, ids, num_ids, bags, {out, out_bytes}, {scratch, scratch_bytes}, bad_position);
}

ee_status ee_dpq_bag_f32_i32(const ee_dpq_table* table, const int32_t* ids, int64_t num_ids,
                             const ee_bags* bags, float* out, size_t out_bytes, void* scratch,
                             size_t scratch_bytes, int64_t* bad_position) {
  return Bag(table, ids, num_ids, bags, {out, out_bytes}, {scratch, scratch_bytes}, bad_position);
}

ee_status ee_ant_bag_f32_i64(const ee_ant_table* table, const int64_t* ids, int64_t num_ids,
                             const ee_bags* bags, float* out, size_t out_bytes, void* scratch,
                             size_t scratch_bytes, int64_t* bad_position) {
  return Bag(table, ids, num_ids, bags, {out, out_bytes}, {scratch, scratch_bytes}, bad_position);
}

ee_status ee_ant_bag_f32_i32(const ee_ant_table* table, const int32_t* ids, int64_t num_ids,
                             const ee_bags* bags, float* out, size_t out_bytes, void* scratch,
                             size_t scratch_bytes, int64_t* bad_position) {
  return Bag(table, ids, num_ids, bags, {out, out_bytes}, {scratch, scratch_bytes}, bad_position);
}

ee_status ee_tt_bag_f32_i64(const ee_tt_table* table, const int64_t* ids, int64_t num_ids,
                            const ee_bags* bags, float* out, size_t out_bytes, void* scratch,
                            size_t scratch_bytes, int64_t* bad_position) {
  return Bag(table, ids, num_ids, bags, {out, out_bytes}, {scratch, scratch_bytes}, bad_position);
}

ee_status ee_tt_bag_f32_i32(const ee_tt_table* table, const int32_t* ids, int64_t num_ids,
                            const ee_bags* bags, float* out, size_t out_bytes, void* scratch,
                            size_t scratch_bytes, int64_t* bad_position) {
  return Bag(table, ids, num_ids, bags, {out, out_bytes}, {scratch, scratch_bytes}, bad_position);
}

ee_status ee_dpq_logits_f32(const ee_dpq_table* table, const float* hidden, int64_t batch, float* logits,
                            size_t logits_bytes, void* scratch, size_t scratch_bytes, int64_t* bad_row) {
  return Logits(table, hidden, batch, {logits, logits_bytes}, {scratch, scratch_bytes}, bad_row);
}

ee_status ee_ant_logits_f32(const ee_ant_table* table, const float* hidden, int64_t batch, float* logits,
                            size_t logits_bytes, void* scratch, size_t scratch_bytes, int64_t* bad_row) {
  return Logits(table, hidden, batch, {logits, logits_bytes}, {scratch, scratch_bytes}, bad_row);
}

ee_status ee_tt_logits_f32(const ee_tt_table* table, const float* hidden, int64_t batch, float* logits,
                           size_t logits_bytes, void* scratch, size_t scratch_bytes, int64_t* bad_row) {
  return Logits(table, hidden, batch, {logits, logits_bytes}, {scratch, scratch_bytes}, bad_row);
}

ee_status ee_dpq_blocks_bytes(const ee_dpq_table* table, size_t* bytes) { return BlocksBytes(table, bytes); }

ee_status ee_dpq_make_blocks(const ee_dpq_table* table, void* blocks, size_t blocks_bytes) {
  size_t needed = 0;
  const ee_status sized = BlocksBytes(table, &needed);
  if (sized != EE_OK || needed == 0) return sized;
  if (blocks == nullptr) return EE_NULL_POINTER;
  if (blocks_bytes < needed) return EE_SHORT_BLOCKS;
  dpq::MakeBlocks(ToTable(*table), static_cast<unsigned char*>(blocks));
  return EE_OK;
}

ee_status ee_dpq_scratch_bytes(const ee_dpq_table* table, size_t* bytes) {
  return ScratchBytes(table, bytes);
}

ee_status ee_ant_scratch_bytes(const ee_ant_table* table, size_t* bytes) {
  return ScratchBytes(table, bytes);
}

ee_status ee_tt_scratch_bytes(const ee_tt_table* table, size_t* bytes) { return ScratchBytes(table, bytes); }

ee_status ee_dpq_topk_scratch_bytes(const ee_dpq_table* table, int64_t k, size_t* bytes) {
  return TopKScratchBytes(table, k, bytes);
}

ee_status ee_dpq_topk_f32(const ee_dpq_table* table, const float* hidden, int64_t batch, const ee_topk* topk,
                          void* scratch, size_t scratch_bytes, int64_t* bad_row) {
  return FindBest(table, hidden, batch, topk, {scratch, scratch_bytes}, bad_row);
}

ee_status ee_ant_topk_scratch_bytes(const ee_ant_table* table, int64_t k, size_t* bytes) {
  return TopKScratchBytes(table, k, bytes);
}

ee_status ee_ant_topk_f32(const ee_ant_table* table, const float* hidden, int64_t batch, const ee_topk* topk,
                          void* scratch, size_t scratch_bytes, int64_t* bad_row) {
  return FindBest(table, hidden, batch, topk, {scratch, scratch_bytes}, bad_row);
}

ee_status ee_tt_topk_scratch_bytes(const ee_tt_table* table, int64_t k, size_t* bytes) {
  return TopKScratchBytes(table, k, bytes);
}

ee_status ee_tt_topk_f32(const ee_tt_table* table, const float* hidden, int64_t batch, const ee_topk* topk,
                         void* scratch, size_t scratch_bytes, int64_t* bad_row) {
  return FindBest(table, hidden, batch, topk, {scratch, scratch_bytes}, bad_row);
}

ee_status ee_tt_merge_bytes(const ee_tt_table* table, size_t most_bytes, size_t* bytes,
                            size_t* scratch_bytes) {
  if (bytes == nullptr || scratch_bytes == nullptr) return EE_NULL_POINTER;
  tt::Merging merging;
  const ee_status status = FindMerging(table, most_bytes, &merging);
  if (status != EE_OK) return status;
  *bytes = merging.bytes;
  *scratch_bytes = merging.scratch_doubles * sizeof(double);
  return EE_OK;
}

ee_status ee_tt_merge(const ee_tt_table* table, void* memory, size_t bytes, void* scratch,
                      size_t scratch_bytes, ee_tt_table* merged) {
  tt::Merging merging;
  const ee_status status = FindMerging(table, bytes, &merging);
  if (status != EE_OK) return status;
  if (merging.bytes == 0) return EE_SHORT_OUTPUT;
  if (scratch_bytes < merging.scratch_doubles * sizeof(double)) return EE_SHORT_SCRATCH;
  if (memory == nullptr || scratch == nullptr || merged == nullptr) return EE_NULL_POINTER;
  *merged = ToC(Merge(ToTable(*table), merging, memory, static_cast<double*>(scratch)));
  return EE_OK;
}
