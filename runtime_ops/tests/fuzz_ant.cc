// Fuzz target: hostile row offsets, anchor ids, sizes and types through the C interface. For any input, the
// call must return and stay inside the buffers, which are heap blocks of exactly the stated size.
#include "tests/fuzz_input.h"

namespace {

using namespace edge_embed::testing;

int64_t SizeOfType(int32_t type) {
  if (type == EE_INT8 || type == EE_UINT8) return 1;
  return type == EE_FLOAT16 || type == EE_UINT16 ? 2 : 4;
}

// Row offsets that are mostly valid: rows of 0 to 3 weights, and sometimes any number.
void FillRowOffsets(Reader& in, Block* block) {
  int32_t offset = 0;
  for (size_t i = 0; (i + 1) * sizeof(offset) <= block->size; ++i) {
    const uint8_t kind = in.Take<uint8_t>();
    if (i > 0) offset += kind % 4;
    const int32_t stored = kind < 235 ? offset : in.Take<int32_t>();
    std::memcpy(block->data.get() + i * sizeof(offset), &stored, sizeof(stored));
  }
}

// Anchor ids that are mostly valid.
void FillAnchorIds(Reader& in, int64_t num_anchors, int64_t size, Block* block) {
  for (size_t i = 0; i < block->size; ++i) {
    const bool lowest = static_cast<int64_t>(i) % size == 0;
    const uint8_t byte = in.Take<uint8_t>();
    block->data[i] =
        byte >= 250 ? byte : static_cast<uint8_t>(lowest && num_anchors > 0 ? byte % num_anchors : 0);
  }
}

void SetBlocks(const Block& row_offsets, const Block& anchor_ids, const Block& weights, const Block& anchors,
               ee_ant_table* table) {
  table->row_offsets = row_offsets.data.get();
  table->row_offsets_bytes = row_offsets.size;
  table->anchor_ids = anchor_ids.data.get();
  table->anchor_ids_bytes = anchor_ids.size;
  table->weights = weights.data.get();
  table->weights_bytes = weights.size;
  table->anchors = anchors.data.get();
  table->anchors_bytes = anchors.size;
}

// Rows of all anchors, which are computed by a product. Some of them are damaged.
void FuzzDense(Reader& in) {
  constexpr int64_t kRows = 5, kColumns = 56;
  ee_table tagged = Tagged(EE_ANT);
  ee_ant_table& table = tagged.ant;
  table.num_embeddings = kRows;
  table.num_anchors = 33 + in.Take<uint8_t>() % 9;
  table.num_weights = kRows * table.num_anchors;
  table.embedding_dim = kColumns;
  table.padding_idx = in.Take<uint8_t>() % 8 - 1;
  table.weight_scale = 0.5F;
  table.anchor_id_type = EE_UINT8;
  table.weight_type = EE_INT8;
  table.anchor_type = EE_FLOAT16;
  Block row_offsets((kRows + 1) * sizeof(int32_t)), anchor_ids(static_cast<size_t>(table.num_weights));
  Block weights(anchor_ids.size), anchors(static_cast<size_t>(table.num_anchors * kColumns * 2));
  for (int32_t row = 0; row <= kRows; ++row) {
    const int32_t damage = in.Take<uint8_t>() < 250 ? 0 : in.Take<int8_t>();
    const int32_t offset = row * static_cast<int32_t>(table.num_anchors) + damage;
    std::memcpy(row_offsets.data.get() + static_cast<size_t>(row) * sizeof(offset), &offset, sizeof(offset));
  }
  for (size_t t = 0; t < anchor_ids.size; ++t) {
    anchor_ids.data[t] = static_cast<uint8_t>(static_cast<int64_t>(t) % table.num_anchors);
  }
  for (int damages = in.Take<uint8_t>() % 4; damages > 0; --damages) {
    const size_t t = in.Take<uint8_t>() % anchor_ids.size;
    anchor_ids.data[t] = in.Take<uint8_t>() % 48;
  }
  in.Bytes(weights.data.get(), weights.size / 4);
  in.Bytes(anchors.data.get(), anchors.size / 64);
  SetBlocks(row_offsets, anchor_ids, weights, anchors, &table);
  FuzzGather<int64_t>(in, tagged, kRows);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader in(data, size);
  if (in.Take<uint8_t>() % 16 == 0) {
    FuzzDense(in);
    return 0;
  }
  ee_table tagged = Tagged(EE_ANT);
  ee_ant_table& table = tagged.ant;
  table.num_embeddings = Number(in, 12);
  table.num_weights = Number(in, 30);
  table.num_anchors = Number(in, 9);
  table.embedding_dim = Number(in, 12);
  table.padding_idx = Number(in, 14) - 1;
  table.weight_scale = 0.5F;
  const bool known = in.Take<uint8_t>() < 250;
  table.anchor_id_type = known ? EE_UINT8 + in.Take<uint8_t>() % 3 : in.Take<int32_t>();
  table.weight_type = known ? EE_FLOAT32 + in.Take<uint8_t>() % 3 : in.Take<int32_t>();
  table.anchor_type = known ? EE_FLOAT32 + in.Take<uint8_t>() % 2 : in.Take<int32_t>();

  const bool small = Small(table.num_embeddings) && Small(table.num_weights) && Small(table.num_anchors) &&
                     Small(table.embedding_dim);
  const int64_t id_size = SizeOfType(table.anchor_id_type);
  const auto needed = [small](int64_t count, int64_t item) { return small ? count * item : -1; };
  Block row_offsets = TakeBlock(in, needed(table.num_embeddings + 1, 4));
  Block anchor_ids = TakeBlock(in, needed(table.num_weights, id_size));
  const Block weights = TakeBlock(in, needed(table.num_weights, SizeOfType(table.weight_type)));
  const Block anchors =
      TakeBlock(in, small ? table.num_anchors * table.embedding_dim * SizeOfType(table.anchor_type) : -1);
  if ((in.Take<uint8_t>() & 7) != 0) FillRowOffsets(in, &row_offsets);
  if ((in.Take<uint8_t>() & 7) != 0) FillAnchorIds(in, table.num_anchors, id_size, &anchor_ids);
  SetBlocks(row_offsets, anchor_ids, weights, anchors, &table);

  FuzzUses(in, tagged, table.num_embeddings, table.embedding_dim);
  return 0;
}
