// Fuzz target: hostile shapes, buffers and ids through the C ABI. Whatever the bytes say, the call must
// return, and must not touch anything outside the buffers, which are heap blocks of exactly the announced
// size.
#include <cstdint>
#include <cstring>
#include <memory>

#include "c_api/edge_embed.h"
#include "tests/check.h"

namespace {

// Takes fields off the front of the input; zeros when it runs out.
class Reader {
 public:
  Reader(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  template <typename T>
  T Take() {
    T value{};
    Bytes(reinterpret_cast<uint8_t*>(&value), sizeof(T));
    return value;
  }

  void Bytes(uint8_t* to, size_t count) {
    const size_t taken = count < size_ ? count : size_;
    if (taken > 0) std::memcpy(to, data_, taken);
    if (count > taken) std::memset(to + taken, 0, count - taken);
    data_ += taken;
    size_ -= taken;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

// Mostly small, so that many tables are valid; sometimes anything at all.
int64_t Number(Reader& in, int64_t small) {
  const uint8_t kind = in.Take<uint8_t>();
  return kind < 240 ? kind % small : in.Take<int64_t>();
}

int32_t SmallestBits(int64_t num_codes) {
  int32_t bits = 1;
  while (bits < 16 && (int64_t{1} << bits) < num_codes) ++bits;
  return bits;
}

// Half of the small tables get buffers that fit exactly, so that one byte too far is seen.
void FitBuffers(ee_dpq_table* table) {
  const auto small = [](int64_t number) { return number >= 0 && number < 64; };
  if (!small(table->num_embeddings) || !small(table->num_codes) || !small(table->num_groups) ||
      !small(table->group_width) || !small(table->bits)) {
    return;
  }
  const int64_t books = table->shared ? 1 : table->num_groups;
  const int64_t row_bytes = (table->num_groups * table->bits + 7) / 8;
  table->codes_bytes = static_cast<size_t>(table->num_embeddings * row_bytes);
  table->values_bytes = static_cast<size_t>(books * table->num_codes * table->group_width * 4);
}

template <typename Id, typename GatherFunction>
void Gather(Reader& in, const ee_dpq_table& table, GatherFunction gather) {
  const size_t num_ids = in.Take<uint8_t>() % 9;
  const size_t rows_floats = in.Take<uint8_t>() * size_t{8};
  const auto ids = std::make_unique<Id[]>(num_ids);
  for (size_t i = 0; i < num_ids; ++i) ids[i] = static_cast<Id>(Number(in, 12));
  const auto rows = std::make_unique<float[]>(rows_floats);
  int64_t bad = 0;
  const ee_status status =
      gather(&table, ids.get(), static_cast<int64_t>(num_ids), rows.get(), rows_floats * sizeof(float), &bad);
  CHECK((status == EE_ID_OUT_OF_RANGE) == (bad >= 0));
  if (bad >= 0) {
    CHECK(bad < static_cast<int64_t>(num_ids));
    const int64_t id = ids[static_cast<size_t>(bad)];
    CHECK(id < 0 || id >= table.num_embeddings);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader in(data, size);
  ee_dpq_table table{};
  table.num_embeddings = Number(in, 12);
  table.num_codes = Number(in, 40);
  table.num_groups = Number(in, 10);
  table.group_width = Number(in, 6);
  table.padding_idx = Number(in, 14) - 1;
  table.bits = in.Take<uint8_t>() < 230 ? SmallestBits(table.num_codes) : in.Take<int32_t>();
  table.shared = in.Take<uint8_t>() & 1;
  table.codes_bytes = in.Take<uint8_t>();
  table.values_bytes = in.Take<uint16_t>() % 16384;
  if (in.Take<uint8_t>() & 1) FitBuffers(&table);

  const auto codes = std::make_unique<uint8_t[]>(table.codes_bytes);
  const auto values = std::make_unique<uint8_t[]>(table.values_bytes);
  in.Bytes(codes.get(), table.codes_bytes);
  in.Bytes(values.get(), table.values_bytes);
  table.codes = codes.get();
  table.values = values.get();

  Gather<int64_t>(in, table, ee_dpq_gather_f32_i64);
  Gather<int32_t>(in, table, ee_dpq_gather_f32_i32);
  return 0;
}
