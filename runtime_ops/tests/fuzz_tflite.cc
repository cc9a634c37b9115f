// Fuzz target: hostile manifests, tables and inputs through the TFLite delegate. For any input, it must
// return, report what it refuses, and stay inside the tensors.
#include "tests/fake_tflite.h"

extern "C" edge_embed::tflite::Delegate* tflite_plugin_create_delegate(const char* const*, const char* const*,
                                                                       size_t, void (*)(const char*));
extern "C" void tflite_plugin_destroy_delegate(edge_embed::tflite::Delegate*);

namespace {

using namespace edge_embed::testing;
using edge_embed::tflite::Allocation;
using edge_embed::tflite::TensorType;

// Mostly the correct field; sometimes no field, or another value.
void AddField(Reader& in, const std::string& key, const std::string& value, std::string* line) {
  static constexpr const char* kOthers[] = {"codes", "ids", "output", "", "-1", "1,2", "9223372036854775807",
                                            "x",     "=,"};
  const uint8_t kind = in.Take<uint8_t>();
  if (kind < 3) return;
  *line += std::string(" ") + key + "=" + (kind < 6 ? kOthers[in.Take<uint8_t>() % 9] : value);
}

void AddInteger(Reader& in, const std::string& key, int64_t value, std::string* line) {
  AddField(in, key, std::to_string(value), line);
}

// A tensor whose field has the same name. Its bytes are mostly right, and always if `exact` and small.
void AddConstant(Reader& in, const std::string& name, TensorType type, int64_t bytes, FakeTflite* model,
                 std::string* line, bool exact = false) {
  const bool other = in.Take<uint8_t>() < 4;
  Block content(exact && bytes >= 0 && bytes < 4096 ? static_cast<size_t>(bytes) : 0);
  if (content.size > 0)
    in.Bytes(content.data.get(), content.size);
  else
    content = TakeBlock(in, bytes);
  model->AddConstant(name, other ? static_cast<TensorType>(in.Take<uint8_t>() % 19) : type, content);
  AddField(in, name, name, line);
}

TensorType TakeFloats(Reader& in, int64_t* bytes) {
  const uint8_t kind = in.Take<uint8_t>() % 3;
  *bytes = kind == 0 ? 4 : 2;
  return kind == 0   ? edge_embed::tflite::kFloat32
         : kind == 1 ? edge_embed::tflite::kFloat16
                     : edge_embed::tflite::kInt16;
}

struct DpqSizes {
  int64_t groups, width, value_bytes;
  TensorType type;
  bool small, exact;
};

DpqSizes TakeDpqSizes(Reader& in) {
  DpqSizes sizes{1 + Number(in, 5), 1 + Number(in, 4), 0, {}, false, (in.Take<uint8_t>() & 1) != 0};
  sizes.small = Small(sizes.groups) && Small(sizes.width);
  sizes.type = TakeFloats(in, &sizes.value_bytes);
  return sizes;
}

void AddDpq(Reader& in, int64_t rows, const DpqSizes& sizes, const std::string& prefix, FakeTflite* model,
            std::string* line) {
  const int64_t shared = in.Take<uint8_t>() & 1, codebooks = shared ? 1 : sizes.groups;
  AddConstant(in, prefix + "codes", edge_embed::tflite::kUInt8,
              sizes.small ? rows * ((sizes.groups * 3 + 7) / 8) : -1, model, line, sizes.exact);
  AddConstant(in, prefix + "values", sizes.type,
              sizes.small ? codebooks * 5 * sizes.width * sizes.value_bytes : -1, model, line, sizes.exact);
  AddInteger(in, prefix + "num_codes", 5, line);
  AddInteger(in, prefix + "num_groups", sizes.groups, line);
  AddInteger(in, prefix + "group_width", sizes.width, line);
  AddInteger(in, prefix + "bits", 3, line);
  AddInteger(in, prefix + "shared", shared, line);
}

void AddRowScales(Reader& in, int64_t rows, bool exact, const std::string& prefix, FakeTflite* model,
                  std::string* line) {
  const int64_t scales = 1 + Number(in, 4);
  AddConstant(in, prefix + "row_scale_codes", edge_embed::tflite::kUInt8, rows, model, line, exact);
  AddConstant(in, prefix + "row_scales", edge_embed::tflite::kFloat32, Small(scales) ? 4 * scales : -1, model,
              line, exact);
}

int64_t AddFlatDpq(Reader& in, int64_t rows, bool scaled, FakeTflite* model, std::string* line) {
  const DpqSizes sizes = TakeDpqSizes(in);
  const int64_t unused = scaled ? in.Take<uint8_t>() % 2 : 0;
  AddDpq(in, rows, sizes, "", model, line);
  if (scaled) AddRowScales(in, rows, sizes.exact, "", model, line);
  if (scaled) AddInteger(in, "unused_columns", unused, line);
  return sizes.small ? sizes.groups * sizes.width - unused : 1;
}

// Tiers of equal columns. A map has the tiers in the order of the rows, as tables without a map have.
int64_t AddTiered(Reader& in, int64_t rows, FakeTflite* model, std::string* line) {
  const int64_t tiers[] = {rows / 3, rows / 3, rows - rows / 3 * 2};
  const DpqSizes sizes = TakeDpqSizes(in);
  std::string numbers;
  for (int t = 0; t < 3; ++t) {
    const std::string prefix = "tier_" + std::to_string(t) + "_";
    numbers += (t == 0 ? "" : ",") + std::to_string(tiers[t]);
    AddDpq(in, tiers[t], sizes, prefix, model, line);
    if ((in.Take<uint8_t>() & 1) != 0) AddRowScales(in, tiers[t], sizes.exact, prefix, model, line);
  }
  AddField(in, "tiers", numbers, line);
  if ((in.Take<uint8_t>() & 1) != 0) {
    Block map(64);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t tier = row < tiers[0] ? 0 : row < tiers[0] + tiers[1] ? 1 : 2;
      map.data[static_cast<size_t>(row / 4)] |= static_cast<uint8_t>(tier << row % 4 * 2);
    }
    if (in.Take<uint8_t>() < 32) map = TakeBlock(in, 64);
    model->AddConstant("tier_map", edge_embed::tflite::kUInt8, map);
    model->AddConstant("tier_ranks", edge_embed::tflite::kInt32,
                       in.Take<uint8_t>() < 32 ? TakeBlock(in, 12) : Block(12));
    AddField(in, "tier_map", "tier_map", line);
    AddField(in, "tier_ranks", "tier_ranks", line);
  }
  return sizes.small ? sizes.groups * sizes.width : 1;
}

int64_t AddAnt(Reader& in, int64_t rows, FakeTflite* model, std::string* line) {
  const int64_t anchors = 1 + Number(in, 6), dim = 1 + Number(in, 6), weights = Number(in, 24);
  const bool small = Small(anchors) && Small(dim) && Small(weights), offsets = (in.Take<uint8_t>() & 1) != 0;
  int64_t size, weight_size;
  const TensorType type = TakeFloats(in, &size), weight_type = TakeFloats(in, &weight_size);
  if (offsets) AddConstant(in, "row_offsets", edge_embed::tflite::kInt32, 4 * (rows + 1), model, line);
  AddConstant(in, "anchor_ids", edge_embed::tflite::kUInt8, small ? weights : -1, model, line);
  AddConstant(in, "weights", weight_type, small ? weights * weight_size : -1, model, line);
  AddConstant(in, "weight_scale", edge_embed::tflite::kFloat32, 4, model, line);
  AddConstant(in, "anchors", type, small ? anchors * dim * size : -1, model, line);
  AddInteger(in, "num_weights", weights, line);
  AddInteger(in, "num_anchors", anchors, line);
  AddInteger(in, "embedding_dim", dim, line);
  AddInteger(in, "row_width", small ? weights / rows : weights, line);
  return small ? dim : 1;
}

int64_t AddTt(Reader& in, FakeTflite* model, std::string* line) {
  static constexpr const char* kNames[] = {"core_0", "core_1", "core_2"};
  int64_t size, dim = 1, rank = 1;
  const TensorType type = TakeFloats(in, &size);
  std::string rows, columns, ranks = "1";
  for (int k = 0; k < 3; ++k) {
    const int64_t row = 2 + in.Take<uint8_t>() % 2, column = 1 + in.Take<uint8_t>() % 3;
    const int64_t next = k == 2 ? 1 : 1 + in.Take<uint8_t>() % 3;
    AddConstant(in, kNames[k], type, row * rank * column * next * size, model, line);
    rows += (k == 0 ? "" : ",") + std::to_string(row);
    columns += (k == 0 ? "" : ",") + std::to_string(column);
    ranks += "," + std::to_string(next);
    rank = next;
    dim *= column;
  }
  AddField(in, "row_shape", rows, line);
  AddField(in, "col_shape", columns, line);
  AddField(in, "ranks", ranks, line);
  return dim;
}

// Inputs and outputs of the four uses. A use ignores tensors that it does not need.
void AddUse(Reader& in, int64_t dim, FakeTflite* model, std::string* line) {
  const int rows = in.Take<uint8_t>() % 4, columns = 1 + in.Take<uint8_t>() % 4;
  const Allocation allocation =
      static_cast<Allocation>(in.Take<uint8_t>() < 200 ? 2 : in.Take<uint8_t>() % 6);
  const TensorType integers =
      (in.Take<uint8_t>() & 1) != 0 ? edge_embed::tflite::kInt32 : edge_embed::tflite::kInt64;
  const Ints shape = (in.Take<uint8_t>() & 1) != 0 ? Ints{rows, columns} : Ints{rows * columns};
  const int width = in.Take<uint8_t>() < 230 ? static_cast<int>(dim) : in.Take<uint8_t>() % 16;
  const int ids = model->AddTensor("ids", integers, shape, allocation);
  const int offsets = model->AddTensor("offsets", integers, {rows + 1}, allocation);
  const int weights =
      model->AddTensor("sample_weights", edge_embed::tflite::kFloat32, {rows * columns}, allocation);
  const int hidden = model->AddTensor("hidden", edge_embed::tflite::kFloat32, {rows, width}, allocation);
  const int output = model->AddTensor("output", edge_embed::tflite::kFloat32, {}, allocation);
  const int output_ids = model->AddTensor("output_ids", integers, {}, allocation);
  for (const int filled : {ids, offsets}) {
    edge_embed::tflite::Tensor& tensor = model->tensor(filled);
    for (size_t i = 0; i < tensor.bytes / (integers == edge_embed::tflite::kInt32 ? 4 : 8); ++i) {
      const int64_t value = filled == offsets ? static_cast<int64_t>(i) * columns : Number(in, 10);
      if (integers == edge_embed::tflite::kInt32)
        static_cast<int32_t*>(tensor.data)[i] = static_cast<int32_t>(value);
      if (integers == edge_embed::tflite::kInt64) static_cast<int64_t*>(tensor.data)[i] = value;
    }
  }
  const bool given = (in.Take<uint8_t>() & 1) != 0, weighted = (in.Take<uint8_t>() & 1) != 0;
  AddField(in, "ids", "ids", line);
  AddField(in, "output", "output", line);
  AddField(in, "hidden", "hidden", line);
  AddField(in, "output_ids", "output_ids", line);
  if (given) AddField(in, "offsets", "offsets", line);
  if (weighted) AddField(in, "sample_weights", "sample_weights", line);
  AddInteger(in, "mode", weighted ? 0 : in.Take<uint8_t>() % 3, line);
  AddInteger(in, "k", 1 + in.Take<uint8_t>() % 5, line);
  Ints outputs = {output};
  if (in.Take<uint8_t>() & 1) outputs.push_back(output_ids);
  model->AddNode({ids, offsets, weights, hidden, -1}, outputs);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static constexpr const char* kUses[] = {"rows", "bag", "logits", "topk"};
  static constexpr const char* kMethods[] = {" dpq", " dpq_scaled", " tiered", " ant", " tt"};
  Reader in(data, size);
  FakeTflite model;
  const uint8_t method = in.Take<uint8_t>() % 5, use = in.Take<uint8_t>() % 4;
  const int64_t rows = 1 + in.Take<uint8_t>() % 8;
  std::string line = kUses[use];
  line += kMethods[method];
  AddInteger(in, "num_embeddings", rows, &line);
  AddInteger(in, "padding_idx", in.Take<uint8_t>() % 10 - 1, &line);
  const int64_t dim = method < 2    ? AddFlatDpq(in, rows, method == 1, &model, &line)
                      : method == 2 ? AddTiered(in, rows, &model, &line)
                      : method == 3 ? AddAnt(in, rows, &model, &line)
                                    : AddTt(in, &model, &line);
  AddUse(in, dim, &model, &line);
  std::string manifest = "edge_embed 1\n" + line + "\n";
  if (in.Take<uint8_t>() < 16)
    manifest[in.Take<uint8_t>() % manifest.size()] = static_cast<char>(in.Take<uint8_t>());

  edge_embed::tflite::Delegate* const delegate = tflite_plugin_create_delegate(nullptr, nullptr, 0, nullptr);
  const edge_embed::tflite::Status applied = model.Apply(delegate, manifest);
  CHECK((applied == edge_embed::tflite::kOk) == (model.reports == 0));
  CHECK(delegate->data == nullptr);
  for (int run = 0; run < 2 && applied == edge_embed::tflite::kOk; ++run) {
    const int before = model.reports;
    CHECK((model.Run() == edge_embed::tflite::kOk) == (model.reports == before) || model.num_kernels() == 0);
  }
  tflite_plugin_destroy_delegate(delegate);
  return 0;
}
