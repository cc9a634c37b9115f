// Common parts of the fuzz targets: fields from the input, and the uses of a table through the C interface.
#ifndef EDGE_EMBED_TESTS_FUZZ_INPUT_H_
#define EDGE_EMBED_TESTS_FUZZ_INPUT_H_

#include <cstdint>
#include <cstring>
#include <memory>

#include "tests/c_structs.h"
#include "tests/check.h"

namespace edge_embed::testing {

// Reads fields from the front of the input, and zeros at its end.
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

// Mostly small numbers, so that many tables are valid; sometimes any number.
inline int64_t Number(Reader& in, int64_t small) {
  const uint8_t kind = in.Take<uint8_t>();
  return kind < 240 ? kind % small : in.Take<int64_t>();
}

// A heap block of exactly `size` bytes, so that AddressSanitizer detects any access outside it.
struct Block {
  explicit Block(size_t bytes) : data(std::make_unique<uint8_t[]>(bytes)), size(bytes) {}
  std::unique_ptr<uint8_t[]> data;
  size_t size;
};

// Half of the blocks fit exactly, if `needed` is small; the others have any size.
inline Block TakeBlock(Reader& in, int64_t needed) {
  const uint8_t kind = in.Take<uint8_t>();
  const size_t size = needed >= 0 && needed < 4096 && kind < 200 ? static_cast<size_t>(needed) : kind;
  Block block(size);
  in.Bytes(block.data.get(), size);
  return block;
}

// Numbers small enough for products of them.
inline bool Small(int64_t number) { return number >= 0 && number < 96; }

inline int32_t SmallestBits(int64_t num_codes) {
  int32_t bits = 1;
  while (bits < 16 && (int64_t{1} << bits) < num_codes) ++bits;
  return bits;
}

inline int64_t BytesOf(int32_t value_type) {
  return value_type == EE_INT8 ? 1 : value_type == EE_FLOAT16 ? 2 : 4;
}

// Checks that the position is set exactly for statuses of an id or a row.
inline bool NamesAPosition(ee_status status) {
  return status == EE_ID_OUT_OF_RANGE || status == EE_BAD_ROW_OFFSETS || status == EE_LONG_ROW ||
         status == EE_BAD_ANCHOR_ID || status == EE_BAD_OFFSETS || status == EE_BAD_ROW_SCALE_CODE ||
         status == EE_BAD_TIER_PLACE;
}

inline void CheckPosition(ee_status status, int64_t bad, int64_t count) {
  CHECK(NamesAPosition(status) == (bad >= 0));
  CHECK(bad < count);
}

constexpr size_t kMaxScratch = size_t{1} << 20;

// The scratch of a use; false if the table is invalid, or the scratch exceeds that of a test.
inline bool ScratchOf(const ee_table& table, ee_use use, int64_t k, size_t* bytes) {
  return ee_scratch_bytes(&table, use, k, bytes) == EE_OK && *bytes <= kMaxScratch;
}

// Gather, also of invalid tables, with a scratch of exactly the required size.
template <typename Id>
void FuzzGather(Reader& in, const ee_table& table, int64_t num_embeddings) {
  size_t scratch_size = 0;
  if (!ScratchOf(table, EE_GATHER, 0, &scratch_size)) scratch_size = 64;
  const Block scratch(scratch_size);
  const size_t num_ids = in.Take<uint8_t>() % 40, rows_floats = in.Take<uint8_t>() * size_t{8};
  const auto numbers = std::make_unique<Id[]>(num_ids);
  for (size_t i = 0; i < num_ids; ++i) numbers[i] = static_cast<Id>(Number(in, 12));
  const auto rows = std::make_unique<float[]>(rows_floats);
  const ee_ids ids{numbers.get(), static_cast<int64_t>(num_ids), sizeof(Id) == 4 ? EE_INT32 : EE_INT64};
  int64_t bad = 0;
  const ee_status status = ee_gather(&table, &ids, rows.get(), rows_floats * sizeof(float),
                                     scratch.data.get(), scratch_size, &bad);
  CheckPosition(status, bad, static_cast<int64_t>(num_ids));
  if (status != EE_ID_OUT_OF_RANGE) return;
  const int64_t id = numbers[static_cast<size_t>(bad)];
  CHECK(id < 0 || id >= num_embeddings);
}

inline void FuzzBag(Reader& in, const ee_table& table) {
  size_t scratch_size = 0;
  if (!ScratchOf(table, EE_BAG, 0, &scratch_size)) return;
  const Block scratch(scratch_size);
  const size_t num_ids = in.Take<uint8_t>() % 9, num_bags = in.Take<uint8_t>() % 5;
  const auto numbers = std::make_unique<int64_t[]>(num_ids);
  for (size_t i = 0; i < num_ids; ++i) numbers[i] = Number(in, 12);
  const auto offsets = std::make_unique<int64_t[]>(num_bags + 1);
  const bool sound = (in.Take<uint8_t>() & 3) != 0;
  for (size_t i = 0; i <= num_bags; ++i) {
    offsets[i] = sound ? static_cast<int64_t>(i * num_ids / (num_bags == 0 ? 1 : num_bags)) : Number(in, 9);
  }
  const auto weights = std::make_unique<float[]>(num_ids);
  ee_bags bags{};
  bags.offsets = offsets.get();
  bags.num_bags = static_cast<int64_t>(num_bags);
  bags.mode = in.Take<uint8_t>() % 4;
  bags.sample_weights = (in.Take<uint8_t>() & 1) != 0 ? weights.get() : nullptr;

  const size_t out_floats = in.Take<uint8_t>() * size_t{8};
  const auto out = std::make_unique<float[]>(out_floats);
  const ee_ids ids{numbers.get(), static_cast<int64_t>(num_ids), EE_INT64};
  int64_t bad = 0;
  const ee_status status = ee_bag(&table, &ids, &bags, out.get(), out_floats * sizeof(float),
                                  scratch.data.get(), scratch_size, &bad);
  CheckPosition(status, bad, static_cast<int64_t>(num_ids > num_bags ? num_ids : num_bags + 1));
}

// Logits and top-k.
inline void FuzzOutputLayer(Reader& in, const ee_table& table, int64_t num_embeddings, int64_t columns) {
  const int64_t k = in.Take<uint8_t>() % 8, batch = in.Take<uint8_t>() % 3;
  size_t logits_size = 0, topk_size = 0;
  if (!ScratchOf(table, EE_LOGITS, 0, &logits_size)) return;
  const Block scratch(logits_size);
  const auto hidden = std::make_unique<float[]>(static_cast<size_t>(batch * columns));
  if (batch > 0) hidden[0] = in.Take<float>();
  const size_t out_floats = in.Take<uint8_t>() * size_t{8};
  const auto out = std::make_unique<float[]>(out_floats);
  int64_t bad = 0;
  const ee_status of_logits = ee_logits(&table, hidden.get(), batch, out.get(), out_floats * sizeof(float),
                                        scratch.data.get(), logits_size, &bad);
  CheckPosition(of_logits, bad, num_embeddings);

  if (!ScratchOf(table, EE_TOPK, k, &topk_size)) return;
  const Block topk_scratch(topk_size);
  const size_t count = static_cast<size_t>(k * batch);
  const auto bias = std::make_unique<float[]>(static_cast<size_t>(num_embeddings));
  const auto values = std::make_unique<float[]>(count);
  const auto ids = std::make_unique<int64_t[]>(count);
  const float* const added = (in.Take<uint8_t>() & 1) != 0 ? bias.get() : nullptr;
  const ee_best best{k, added, values.get(), count * sizeof(float), ids.get(), count * sizeof(int64_t)};
  const ee_status status =
      ee_topk(&table, hidden.get(), batch, &best, topk_scratch.data.get(), topk_size, &bad);
  CheckPosition(status, bad, num_embeddings);
  for (size_t i = 0; status == EE_OK && i < count; ++i) CHECK(ids[i] >= 0 && ids[i] < num_embeddings);
}

// All uses of a table, whose sizes are those of its struct. `columns` is used only for a valid table.
inline void FuzzUses(Reader& in, const ee_table& table, int64_t num_embeddings, int64_t columns) {
  FuzzGather<int64_t>(in, table, num_embeddings);
  FuzzGather<int32_t>(in, table, num_embeddings);
  FuzzBag(in, table);
  FuzzOutputLayer(in, table, num_embeddings, columns);
}

}  // namespace edge_embed::testing

#endif  // EDGE_EMBED_TESTS_FUZZ_INPUT_H_
