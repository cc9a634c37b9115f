// Preparation with memory: blocks of codes for output layers of DPQ, prepacked cores of TT.
#include "c_api/call.h"
#include "kernels/dpq/blocks.h"
#include "kernels/tt/merge.h"

namespace edge_embed::c_api {
namespace {

// The best preparation of a table within a number of bytes. Most methods have none.
template <class Table>
struct Preparation {
  Preparation(const Table&, uint64_t) {}

  template <class CTable>
  void Make(const Table&, void*, double*, CTable*) const {}

  Size bytes = 0, scratch_doubles = 0;
};

template <>
struct Preparation<dpq::Table> {
  template <class Table>  // compiled only if the method is built in
  Preparation(const Table& table, uint64_t most_bytes) : bytes(ChosenKernels(table).logits.Blocks(table)) {
    if (bytes.fits() && bytes.saturated() > most_bytes) bytes = 0;
  }

  void Make(const dpq::Table& table, void* memory, double*, ee_dpq_table* prepared) const {
    dpq::MakeBlocks(table, static_cast<unsigned char*>(memory));
    prepared->blocks = memory;
    prepared->blocks_bytes = static_cast<size_t>(bytes.saturated());
  }

  Size bytes, scratch_doubles = 0;
};

template <>
struct Preparation<tt::Table> {
  Preparation(const tt::Table& table, uint64_t most_bytes)
      : merging(tt::BestMerging(table, most_bytes)),
        bytes(merging.bytes),
        scratch_doubles(merging.scratch_doubles) {}

  void Make(const tt::Table& table, void* memory, double* scratch, ee_tt_table* prepared) const {
    *prepared = ToC(Merge(table, merging, memory, scratch));
  }

  tt::Merging merging;
  Size bytes, scratch_doubles;
};

}  // namespace
}  // namespace edge_embed::c_api

ee_status ee_prepare_bytes(const ee_table* table, size_t most_bytes, size_t* bytes, size_t* scratch_bytes) {
  using namespace edge_embed::c_api;
  if (bytes == nullptr || scratch_bytes == nullptr) return EE_NULL_POINTER;
  return WithTable(table, [&](const auto& sound, const auto&) {
    const Preparation preparation(sound, most_bytes);
    uint64_t needed;
    if (!preparation.bytes.Get(&needed)) return EE_SIZE_OVERFLOW;
    const ee_status status = ScratchBytes(preparation.scratch_doubles, scratch_bytes);
    if (status == EE_OK) *bytes = static_cast<size_t>(needed);
    return status;
  });
}

ee_status ee_prepare(const ee_table* table, void* memory, size_t bytes, void* scratch, size_t scratch_bytes,
                     ee_table* prepared) {
  using namespace edge_embed::c_api;
  if (table == nullptr || prepared == nullptr) return EE_NULL_POINTER;
  ee_table made = *table;
  const ee_status status = WithTable(&made, [&](const auto& sound, auto& part) {
    const Preparation preparation(sound, bytes);
    if (preparation.bytes.saturated() == 0) return EE_OK;
    if (memory == nullptr) return EE_NULL_POINTER;
    const ee_status fits = CheckScratch(preparation.scratch_doubles, {scratch, scratch_bytes});
    if (fits == EE_OK) preparation.Make(sound, memory, static_cast<double*>(scratch), &part);
    return fits;
  });
  if (status == EE_OK) *prepared = made;
  return status;
}
