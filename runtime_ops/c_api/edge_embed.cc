// Version, variants, methods, table checks and scratch sizes.
#include "c_api/edge_embed.h"
#include "c_api/call.h"

namespace edge_embed::c_api {
namespace {

#define EDGE_EMBED_NAME(method, NAME) #method,
constexpr const char* kMethodNames[] = {
    EDGE_EMBED_METHODS(EDGE_EMBED_NAME)
#ifdef EDGE_EMBED_ENTMAX
        "entmax",
#endif
};
#undef EDGE_EMBED_NAME
constexpr int32_t kNumMethods = sizeof(kMethodNames) / sizeof(kMethodNames[0]);

bool HasVariant(int32_t index) { return index >= 0 && static_cast<size_t>(index) < kNumVariants; }

template <class Table>
ee_status Scratch(const Table& table, int32_t use, int64_t k, size_t* bytes) {
  switch (use) {
    case EE_GATHER:
      return ScratchBytes(ChosenKernels(table).gather.scratch(table), bytes);
    case EE_BAG:
      return ScratchBytes(ChosenKernels(table).bag.scratch(table), bytes);
    case EE_LOGITS:
      return ScratchBytes(LogitsDoubles(table), bytes);
    case EE_TOPK: {
      const ee_status status = CheckK(k, table.num_embeddings);
      if (status != EE_OK) return status;
      const TopK kernel(ChosenVariant(), table);
      return ScratchBytes(TopKDoubles(kernel, table, static_cast<size_t>(k)).all, bytes);
    }
  }
  return EE_BAD_USE;
}

}  // namespace
}  // namespace edge_embed::c_api

using namespace edge_embed;

// The words before the version let a reader of the file find it.
const char* ee_version(void) {
  static const char text[] = "edge-embed version " EDGE_EMBED_VERSION;
  return text + sizeof("edge-embed version ") - 1;
}

const char* ee_isa(void) { return ChosenVariant().name; }

const char* ee_isa_name(int32_t index) { return c_api::HasVariant(index) ? kVariants[index]->name : nullptr; }

int32_t ee_isa_runs(int32_t index) {
  return c_api::HasVariant(index) && kVariants[index]->runs_here() ? 1 : 0;
}

const char* ee_method_name(int32_t index) {
  return index >= 0 && index < c_api::kNumMethods ? c_api::kMethodNames[index] : nullptr;
}

const char* ee_status_message(int32_t status) { return StatusMessage(status); }

ee_status ee_check(const ee_table* table) {
  return c_api::WithTable(table, [](const auto&, const auto&) { return EE_OK; });
}

ee_status ee_scratch_bytes(const ee_table* table, int32_t use, int64_t k, size_t* bytes) {
  if (bytes == nullptr) return EE_NULL_POINTER;
  return c_api::WithTable(
      table, [&](const auto& sound, const auto&) { return c_api::Scratch(sound, use, k, bytes); });
}
