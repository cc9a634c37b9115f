// edge_embed.<X>EmbeddingBag: ids (int32 | int64) [N], offsets int64 [B+1], sample_weights, the table -> [B,
// d].
//
// Bag b contains the ids at positions offsets[b] .. offsets[b+1]-1. `mode` is 0 (sum), 1 (mean) or 2 (max).
// sample_weights [N] have the type of the rows. They are read only if `weighted` is 1, which requires mode 0.
#ifndef EDGE_EMBED_ORT_BAG_H_
#define EDGE_EMBED_ORT_BAG_H_

#include "ort/op.h"
#include "ort/result.h"

namespace edge_embed::ort {

struct BagAttributes {
  BagMode mode;
  bool weighted;
};

// The checked inputs of one call, without the table.
struct BagInputs {
  Ids ids;
  Bags bags;
};

OrtStatus* ReadBagAttributes(const Node& node, const OrtKernelInfo* info, BagAttributes* attributes);

// `type` is the type of the rows and of the sample weights.
OrtStatus* ReadBagInputs(const Node& node, const BagAttributes& attributes, const OrtKernelContext* context,
                         ee_type type, BagInputs* inputs);

struct Bag {
  template <class Method>
  static constexpr const char* Name() {
    return Method::kBag;
  }
  static constexpr InputSpec kInputs[] = {
      {"ids", kIdTypes}, {"offsets", Only(EE_INT64)}, {"sample_weights", kFloats}};
  static constexpr size_t kFloatInput = kNoFloatInput;
  static constexpr size_t kOutputs = 1;
  static constexpr bool kMakesRows = true;

  using Attributes = BagAttributes;
  static constexpr auto ReadAttributes = ReadBagAttributes;

  template <class Table>
  static OrtStatus* Compute(const Node& node, const Attributes& attributes, OrtKernelContext* context,
                            const Table& table, ee_type type) {
    BagInputs inputs{};
    if (OrtStatus* status = ReadBagInputs(node, attributes, context, type, &inputs)) return status;
    const Ids& ids = inputs.ids;
    const Bags& bags = inputs.bags;
    const size_t columns = Columns(table);
    size_t bytes;
    if (!OutputBytes(bags.count, columns, type, &bytes)) return FailResultSize(node, bags.count, columns);
    const int64_t dims[] = {static_cast<int64_t>(bags.count), static_cast<int64_t>(columns)};
    Output out{};
    if (OrtStatus* status = MakeOutput(node, context, 0, dims, 2, type, &out)) return status;
    if (bags.count == 0) return nullptr;

    const auto& kernel = ChosenKernels(table).bag;
    FirstError error;
    const auto work = [&](size_t begin, size_t end, double* scratch) {
      size_t bad = 0;
      const ee_status status = kernel.run(table, ids, bags, begin, end, out, scratch, &bad);
      if (status != EE_OK) error.Note(status, bad);
    };
    const Size bag_work = Size(RowWork(table)) * (ids.count / bags.count + 1);
    if (OrtStatus* status =
            ForRows(node, context, bags.count, bag_work.saturated(), kernel.scratch(table), work)) {
      return status;
    }
    return error.none() ? nullptr : FailRow(node, error, ids.At(error.position()), "of ids", table);
  }
};

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_BAG_H_
