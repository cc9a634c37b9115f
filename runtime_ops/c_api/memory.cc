// Memory that makes uses faster: blocks of codes for heads of DPQ, cores of TT multiplied in advance.
#include "c_api/call.h"
#include "kernels/dpq/blocks.h"
#include "kernels/tt/merge.h"

namespace {

using edge_embed::ChosenKernels;
using edge_embed::c_api::ToC;
using edge_embed::c_api::ToTable;
using edge_embed::c_api::WithTable;

namespace dpq = edge_embed::dpq;
namespace tt = edge_embed::tt;

ee_status BlocksBytes(const ee_dpq_table* c_table, size_t* bytes) {
  if (bytes == nullptr) return EE_NULL_POINTER;
  return WithTable(c_table, [&](const dpq::Table& table) {
    uint64_t all;
    if (!ChosenKernels(table).logits.Blocks(table).Get(&all)) return EE_SIZE_OVERFLOW;
    *bytes = static_cast<size_t>(all);
    return EE_OK;
  });
}

ee_status FindMerging(const ee_tt_table* c_table, uint64_t most_bytes, tt::Merging* merging) {
  return WithTable(c_table, [&](const tt::Table& table) {
    *merging = tt::BestMerging(table, most_bytes);
    return EE_OK;
  });
}

}  // namespace

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
