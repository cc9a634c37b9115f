#include "kernels/tt/merge.h"

namespace edge_embed::tt {
namespace {

size_t At(int64_t size) { return static_cast<size_t>(size); }

Size Numbers(const Core& core) {
  return Size(At(core.rows)) * At(core.rank_in) * At(core.columns) * At(core.rank_out);
}

// The table with the product of its cores `first` .. N-1 in their place. Its size is not checked yet.
Table Joined(const Table& table, size_t first) {
  Table joined = table;
  joined.num_cores = static_cast<int64_t>(first) + 1;
  joined.core_type = EE_FLOAT32;
  Core& last = joined.cores[first];
  for (size_t k = first + 1; k < At(table.num_cores); ++k) {
    last.rows *= table.cores[k].rows;
    last.columns *= table.cores[k].columns;
    last.rank_out = table.cores[k].rank_out;
  }
  if (last.rows > table.num_embeddings) last.rows = table.num_embeddings;  // ids are below it too
  return joined;
}

// The table whose rows are the slices of that product. The ranks at its ends count as columns.
Table SlicesOf(const Table& table, size_t first, int64_t rows) {
  Table slices = table;
  slices.num_cores = table.num_cores - static_cast<int64_t>(first);
  for (size_t k = first; k < At(table.num_cores); ++k) slices.cores[k - first] = table.cores[k];
  Core& begin = slices.cores[0];
  Core& end = slices.cores[slices.num_cores - 1];
  begin.columns *= begin.rank_in;
  end.columns *= end.rank_out;
  begin.rank_in = end.rank_out = 1;
  slices.num_embeddings = rows;
  return slices;
}

// False if the sizes exceed those of any object.
bool FindSizes(const Table& table, size_t first, Merging* merging) {
  merging->table = Joined(table, first);
  const Core& last = merging->table.cores[first];
  Size bytes = 0;
  for (size_t k = 0; k <= first; ++k) {
    Core& core = merging->table.cores[k];
    uint64_t all;
    if (!(Numbers(core) * sizeof(float)).Get(&all)) return false;
    core.bytes = static_cast<size_t>(all);
    if (k == first || table.core_type != EE_FLOAT32) bytes = bytes + all;
  }
  const Table slices = SlicesOf(table, first, last.rows);
  const Size scratch = RowScratch(slices) + At(last.rank_in) * At(last.columns) * At(last.rank_out);
  uint64_t made, scratch_bytes;
  if (!bytes.Get(&made) || !(scratch * sizeof(double)).Get(&scratch_bytes)) return false;
  merging->bytes = static_cast<size_t>(made);
  merging->scratch_doubles = static_cast<size_t>(scratch_bytes / sizeof(double));
  return Validate(merging->table) == EE_OK;
}

}  // namespace

Merging BestMerging(const Table& table, uint64_t most_bytes) {
  Merging best{table, 0, 0};
  for (size_t first = At(table.num_cores) - 2; first >= 1; --first) {
    Merging found{};
    if (!FindSizes(table, first, &found) || found.bytes > most_bytes) continue;
    if (RowWork(found.table) < RowWork(best.table)) best = found;
  }
  return best;
}

Table Merge(const Table& table, const Merging& merging, void* memory, double* scratch) {
  Table merged = merging.table;
  const size_t last = At(merged.num_cores) - 1;
  unsigned char* to = static_cast<unsigned char*>(memory);
  const Table slices = SlicesOf(table, last, merged.cores[last].rows);
  const size_t numbers = Columns(slices);
  for (size_t i = 0; i < At(slices.num_embeddings); ++i) {
    ReadRow(slices, i, scratch, scratch + numbers);
    Narrow(scratch, numbers, to, EE_FLOAT32, i * numbers);
  }
  merged.cores[last].data = to;
  to += merged.cores[last].bytes;
  for (size_t k = 0; k < last && table.core_type != EE_FLOAT32; ++k) {
    Core& core = merged.cores[k];
    WidenToFloat(core.data, table.core_type, core.bytes / sizeof(float), to);
    core.data = to;
    to += core.bytes;
  }
  return merged;
}

}  // namespace edge_embed::tt
