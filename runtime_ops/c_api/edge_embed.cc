// What the library is, and the scratch that its calls need.
#include "c_api/edge_embed.h"
#include "c_api/call.h"

namespace {

bool HasVariant(int32_t index) { return index >= 0 && static_cast<size_t>(index) < edge_embed::kNumVariants; }

template <class CTable>
ee_status ScratchBytes(const CTable* c_table, size_t* bytes) {
  if (bytes == nullptr) return EE_NULL_POINTER;
  return edge_embed::c_api::WithTable(
      c_table, [&](const auto& table) { return edge_embed::c_api::ScratchOf(table, bytes); });
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

ee_status ee_dpq_scratch_bytes(const ee_dpq_table* table, size_t* bytes) {
  return ScratchBytes(table, bytes);
}

ee_status ee_ant_scratch_bytes(const ee_ant_table* table, size_t* bytes) {
  return ScratchBytes(table, bytes);
}

ee_status ee_tt_scratch_bytes(const ee_tt_table* table, size_t* bytes) { return ScratchBytes(table, bytes); }
