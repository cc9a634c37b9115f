// Data that is prepared for a scan of a table by bytes (bound.h): the products of logits, then the bytes and
// a bound of every state.
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_BOUND_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_BOUND_H_

#include "kernels/dpq/bound.h"
#include "kernels/dpq/fast_permute.h"

namespace edge_embed::dpq {
namespace {

#if defined(__AVX512VBMI__)
constexpr ByteOrder kOrder = ByteOrder::kNibbles;
#else
constexpr ByteOrder kOrder = ByteOrder::kGroups;
#endif

// For every state its bytes, as many as its products, and then for every state its bound.
inline size_t BytesOfState(const Table& table) { return static_cast<size_t>(Products(table).saturated()); }

inline Size ScanPrepared(const Table& table, size_t batch) {
  const Size bytes = (Products(table) + sizeof(Bound)) * batch;
  return bytes.fits() ? PartsDoubles(table, batch) + bytes.saturated() / sizeof(double) + kAlignment : bytes;
}

// Place of the bytes: after the prepared data of logits.
template <class Double>
auto* ScanMemory(const Table& table, size_t batch, Double* prepared) {
  return AlignedFloats(prepared + PartsDoubles(table, batch).saturated());
}

#if defined(__AVX2__) || defined(__aarch64__)

inline void PrepareScan(const Table& table, const float* hidden, size_t batch, double* prepared) {
  PreparePermuted(table, hidden, batch, prepared);
  const Parts parts(table, batch);
  float* const products = AlignedFloats(prepared);
  auto* const bytes = reinterpret_cast<unsigned char*>(ScanMemory(table, batch, prepared));
  const size_t of_state = BytesOfState(table);
  for (size_t b = 0; b < batch; ++b) {
    unsigned char* const to = bytes + b * of_state;
    __builtin_memset(to, 0, of_state);
    float* const of_table = products + b * parts.of_table;
    MakeFloats16(of_table, parts.of_table);
    const Bound bound = MakeBytes(of_table, static_cast<size_t>(NumNibbles(table)), kOrder, to);
    MakeTables16(of_table, parts.of_table);
    Store(bound, bytes + batch * of_state, b);
  }
}

#endif

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_BOUND_H_
