// rows[i, :] = row(ids[i]). Slices of the next row are not asked for early: cores are small enough to stay in
// cache, and it was never faster.
#ifndef EDGE_EMBED_KERNELS_TT_FAST_GATHER_H_
#define EDGE_EMBED_KERNELS_TT_FAST_GATHER_H_

#include "kernels/tt/fast_chain.h"

namespace edge_embed::tt {
namespace {

inline Size GatherScratch(const Table& table) {
  return AlignedDoubles(Chain::ScratchFloats(table) + Size(Columns(table)) + kLineFloats);
}

inline ee_status GatherFast(const Table& table, const Ids& ids, size_t begin, size_t end, const Output& rows,
                            double* scratch, size_t* bad_position) {
  float* row = Aligned(scratch);
  const size_t columns = Columns(table);
  Chain chain(table, row + WholeLines(columns));
  unsigned char* out = static_cast<unsigned char*>(rows.data);
  for (size_t i = begin; i < end; ++i) {
    const int64_t id = ids.At(i);
    if (id < 0 || id >= table.num_embeddings) {
      *bad_position = i;
      return EE_ID_OUT_OF_RANGE;
    }
    if (rows.type == EE_FLOAT32) {
      ReadChecked(table, chain, id, out + i * columns * sizeof(float));
    } else {
      ReadChecked(table, chain, id, Bytes(row));
      NarrowNumbers(row, columns, rows, i * columns);
    }
  }
  return EE_OK;
}

}  // namespace
}  // namespace edge_embed::tt

#endif  // EDGE_EMBED_KERNELS_TT_FAST_GATHER_H_
