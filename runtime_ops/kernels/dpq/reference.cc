// The reference kernels: one group of one row at a time. All other kernels are tested against them.
#include "kernels/reference.h"

#include "kernels/dpq/dpq.h"

namespace edge_embed::dpq {
namespace {

// Code `group` of a row. It reads only the bytes that contain its bits (at most three, as bits <= 16), so it
// never reads past the end of the row.
size_t CodeAt(const unsigned char* row, size_t group, size_t bits) {
  const size_t first_bit = group * bits;
  const size_t first_byte = first_bit / 8;
  const size_t last_byte = (first_bit + bits - 1) / 8;
  uint32_t word = 0;
  for (size_t byte = first_byte; byte <= last_byte; ++byte) {
    word |= static_cast<uint32_t>(row[byte]) << (8 * (byte - first_byte));
  }
  const uint32_t mask = (uint32_t{1} << bits) - 1;
  return (word >> (first_bit % 8)) & mask;
}

// Calls use(group, values of its code) for every group of a row.
template <class Use>
void ForGroups(const Table& table, size_t id, const Use& use) {
  uint64_t row_bytes = 0;
  RowBytes(table.num_groups, table.bits, &row_bytes);  // true for every valid table
  const unsigned char* row = table.codes + id * static_cast<size_t>(row_bytes);
  const unsigned char* values = table.values;
  const size_t groups = static_cast<size_t>(table.num_groups), bits = static_cast<size_t>(table.bits);
  const size_t last_code = static_cast<size_t>(table.num_codes) - 1;
  const size_t vector_bytes = static_cast<size_t>(table.group_width) * SizeOf(table.value_type);
  const size_t codebook_bytes = table.shared ? 0 : static_cast<size_t>(table.num_codes) * vector_bytes;
  for (size_t group = 0; group < groups; ++group) {
    size_t code = CodeAt(row, group, bits);
    if (code > last_code) code = last_code;  // the code of a damaged table stays inside its own group
    use(group, values + group * codebook_bytes + code * vector_bytes);
  }
}

// Values of the type of the output are copied as bytes. They may have any address, and the copy is bit-exact
// even for NaN.
void CopyRow(const Table& table, size_t id, unsigned char* out) {
  const size_t vector_bytes = static_cast<size_t>(table.group_width) * SizeOf(table.value_type);
  ForGroups(table, id, [=](size_t group, const unsigned char* vector) {
    __builtin_memcpy(out + group * vector_bytes, vector, vector_bytes);
  });
}

// Other values as float32.
void WidenRow(const Table& table, size_t id, unsigned char* out) {
  const size_t width = static_cast<size_t>(table.group_width);
  ForGroups(table, id, [&](size_t group, const unsigned char* vector) {
    WidenValues(table, group, vector, width, out + group * width * sizeof(float));
  });
}

ee_status CopyRows(const Table& table, const Ids& ids, size_t begin, size_t end, const Output& rows,
                   size_t* bad_position) {
  const size_t row_bytes = Columns(table) * SizeOf(rows.type);
  unsigned char* out = static_cast<unsigned char*>(rows.data) + begin * row_bytes;
  for (size_t i = begin; i < end; ++i, out += row_bytes) {
    const int64_t id = ids.At(i);
    if (id < 0 || id >= table.num_embeddings) {
      *bad_position = i;
      return EE_ID_OUT_OF_RANGE;
    }
    if (id == table.padding_idx) {
      __builtin_memset(out, 0, row_bytes);  // all bits zero is +0.0
    } else if (rows.type == table.value_type) {
      CopyRow(table, static_cast<size_t>(id), out);
    } else {
      WidenRow(table, static_cast<size_t>(id), out);
    }
  }
  return EE_OK;
}

}  // namespace

Size RowScratch(const Table&) { return 0; }

void WidenValues(const Table& table, size_t group, const unsigned char* values, size_t count,
                 unsigned char* out) {
  if (table.value_type != EE_INT8) return WidenToFloat(values, table.value_type, count, out);
  const float scale = Load<float>(table.value_scales, table.shared ? 0 : group);
  for (size_t k = 0; k < count; ++k) Store(static_cast<float>(Load<int8_t>(values, k)) * scale, out, k);
}

ee_status ReadRow(const Table& table, size_t id, double* row, double*) {
  const size_t width = static_cast<size_t>(table.group_width);
  ForGroups(table, id, [&](size_t group, const unsigned char* vector) {
    double* const to = row + group * width;
    unsigned char* const floats = reinterpret_cast<unsigned char*>(to);
    WidenValues(table, group, vector, width, floats);
    for (size_t k = width; k-- > 0;) to[k] = ToDouble(Load<float>(floats, k));  // the sum is over floats
  });
  return EE_OK;
}

size_t Columns(const Table& table) { return static_cast<size_t>(table.num_groups * table.group_width); }

uint64_t RowWork(const Table& table) { return Columns(table); }

uint64_t LogitsWork(const Table& table) {
  const uint64_t groups = static_cast<uint64_t>(table.num_groups);
  const uint64_t bits = static_cast<uint64_t>(table.bits);
  // Bytes of codes of one, two or four bits are added several at a time.
  return bits == 1 || bits == 2 || bits == 4 ? groups * bits / 32 + 1 : groups;
}

}  // namespace edge_embed::dpq

namespace edge_embed {

template <>
ee_status GatherReference(const dpq::Table& table, const Ids& ids, size_t begin, size_t end,
                          const Output& rows, double*, size_t* bad_position) {
  if (rows.type != table.value_type && rows.type != EE_FLOAT32) return EE_BAD_TYPE;
  return dpq::CopyRows(table, ids, begin, end, rows, bad_position);
}
template Size ScratchDoubles(const dpq::Table&);
template ee_status BagReference(const dpq::Table&, const Ids&, const Bags&, size_t, size_t, const Output&,
                                double*, size_t*);
template ee_status LogitsReference(const dpq::Table&, const LogitsInput&, size_t, size_t, const LogitsOutput&,
                                   double*, size_t*);

}  // namespace edge_embed
