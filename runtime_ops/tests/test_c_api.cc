// The C ABI: checks first, then the kernel.
#include "c_api/edge_embed.h"

#include <limits>

#include "tests/ant_case.h"
#include "tests/dpq_case.h"
#include "tests/tt_case.h"

namespace edge_embed::testing {
namespace {

const DpqShape kShape{5, 10, 3, 2, false, 1};

ee_dpq_table ToC(const dpq::Table& t) {
  ee_dpq_table c{};
  c.codes = t.codes;
  c.codes_bytes = t.codes_bytes;
  c.values = t.values;
  c.values_bytes = t.values_bytes;
  c.value_scales = t.value_scales;
  c.value_scales_bytes = t.value_scales_bytes;
  c.blocks = t.blocks;
  c.blocks_bytes = t.blocks_bytes;
  c.num_embeddings = t.num_embeddings;
  c.num_codes = t.num_codes;
  c.num_groups = t.num_groups;
  c.group_width = t.group_width;
  c.padding_idx = t.padding_idx;
  c.bits = t.bits;
  c.shared = t.shared ? 1 : 0;
  c.value_type = t.value_type;
  return c;
}

ee_ant_table ToC(const ant::Table& t) {
  ee_ant_table c{};
  c.row_offsets = t.row_offsets;
  c.row_offsets_bytes = t.row_offsets_bytes;
  c.anchor_ids = t.anchor_ids;
  c.anchor_ids_bytes = t.anchor_ids_bytes;
  c.weights = t.weights;
  c.weights_bytes = t.weights_bytes;
  c.anchors = t.anchors;
  c.anchors_bytes = t.anchors_bytes;
  c.num_embeddings = t.num_embeddings;
  c.num_weights = t.num_weights;
  c.num_anchors = t.num_anchors;
  c.embedding_dim = t.embedding_dim;
  c.padding_idx = t.padding_idx;
  c.weight_scale = t.weight_scale;
  c.anchor_id_type = t.anchor_id_type;
  c.weight_type = t.weight_type;
  c.anchor_type = t.anchor_type;
  return c;
}

ee_tt_table ToC(const tt::Table& t) {
  ee_tt_table c{};
  for (size_t k = 0; k < EE_MAX_CORES; ++k) {
    const tt::Core& core = t.cores[k];
    c.cores[k] = {core.data, core.bytes, core.rows, core.rank_in, core.columns, core.rank_out};
  }
  c.num_cores = t.num_cores;
  c.num_embeddings = t.num_embeddings;
  c.padding_idx = t.padding_idx;
  c.core_type = t.core_type;
  return c;
}

void TestRows(ee_type type) {
  DpqShape shape = kShape;
  shape.type = type;
  const DpqCase dpq_case(shape);
  const ee_dpq_table table = ToC(dpq_case.table());
  const int64_t ids64[] = {4, 1, 0};
  const int32_t ids32[] = {4, 1, 0};
  float rows64[18], rows32[18];
  int64_t bad = 99;
  CHECK(ee_dpq_gather_f32_i64(&table, ids64, 3, rows64, sizeof(rows64), &bad) == EE_OK);
  CHECK(bad == -1);
  CHECK(ee_dpq_gather_f32_i32(&table, ids32, 3, rows32, sizeof(rows32), nullptr) == EE_OK);
  CHECK(std::memcmp(rows64, rows32, sizeof(rows64)) == 0);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(std::memcmp(rows64 + i * 6, dpq_case.ExpectedRow(ids64[i]).data(), 6 * sizeof(float)) == 0);
  }
}

void TestNothingToDo() {
  const DpqCase dpq_case(kShape);
  const ee_dpq_table table = ToC(dpq_case.table());
  CHECK(ee_dpq_gather_f32_i64(&table, nullptr, 0, nullptr, 0, nullptr) == EE_OK);
}

void TestBadArguments() {
  const DpqCase dpq_case(kShape);
  const ee_dpq_table table = ToC(dpq_case.table());
  const int64_t ids[] = {0, 2, 5};
  float rows[18] = {};
  int64_t bad = 99;
  CHECK(ee_dpq_gather_f32_i64(nullptr, ids, 2, rows, sizeof(rows), &bad) == EE_NULL_POINTER);
  CHECK(bad == -1);
  CHECK(ee_dpq_gather_f32_i64(&table, nullptr, 2, rows, sizeof(rows), &bad) == EE_NULL_POINTER);
  CHECK(ee_dpq_gather_f32_i64(&table, ids, 2, nullptr, sizeof(rows), &bad) == EE_NULL_POINTER);
  CHECK(ee_dpq_gather_f32_i64(&table, ids, -1, rows, sizeof(rows), &bad) == EE_BAD_SHAPE);
  CHECK(ee_dpq_gather_f32_i64(&table, ids, 2, rows, 12 * sizeof(float) - 1, &bad) == EE_SHORT_OUTPUT);
  CHECK(ee_dpq_gather_f32_i64(&table, ids, std::numeric_limits<int64_t>::max(), rows, sizeof(rows), &bad) ==
        EE_SIZE_OVERFLOW);
  CHECK(ee_dpq_gather_f32_i64(&table, ids, 3, rows, sizeof(rows), &bad) == EE_ID_OUT_OF_RANGE);
  CHECK(bad == 2);
  CHECK(ee_dpq_gather_f32_i64(&table, ids, 3, rows, sizeof(rows), nullptr) == EE_ID_OUT_OF_RANGE);
  ee_dpq_table short_table = table;
  --short_table.codes_bytes;
  CHECK(ee_dpq_gather_f32_i64(&short_table, ids, 2, rows, sizeof(rows), &bad) == EE_SHORT_CODES);
}

// The functions of one method; DPQ's gather, which has no scratch, is tested above.
template <class Table>
struct Functions {
  ee_status (*scratch_bytes)(const Table*, size_t*);
  ee_status (*gather64)(const Table*, const int64_t*, int64_t, float*, size_t, void*, size_t, int64_t*);
  ee_status (*gather32)(const Table*, const int32_t*, int64_t, float*, size_t, void*, size_t, int64_t*);
  ee_status (*bag64)(const Table*, const int64_t*, int64_t, const ee_bags*, float*, size_t, void*, size_t,
                     int64_t*);
  ee_status (*bag32)(const Table*, const int32_t*, int64_t, const ee_bags*, float*, size_t, void*, size_t,
                     int64_t*);
  ee_status (*logits)(const Table*, const float*, int64_t, float*, size_t, void*, size_t, int64_t*);
  ee_status (*topk_scratch)(const Table*, int64_t, size_t*);
  ee_status (*topk)(const Table*, const float*, int64_t, const ee_topk*, void*, size_t, int64_t*);
};

constexpr Functions<ee_dpq_table> kDpq{ee_dpq_scratch_bytes,
                                       nullptr,
                                       nullptr,
                                       ee_dpq_bag_f32_i64,
                                       ee_dpq_bag_f32_i32,
                                       ee_dpq_logits_f32,
                                       ee_dpq_topk_scratch_bytes,
                                       ee_dpq_topk_f32};
constexpr Functions<ee_ant_table> kAnt{
    ee_ant_scratch_bytes, ee_ant_gather_f32_i64, ee_ant_gather_f32_i32,     ee_ant_bag_f32_i64,
    ee_ant_bag_f32_i32,   ee_ant_logits_f32,     ee_ant_topk_scratch_bytes, ee_ant_topk_f32};
constexpr Functions<ee_tt_table> kTt{ee_tt_scratch_bytes,      ee_tt_gather_f32_i64, ee_tt_gather_f32_i32,
                                     ee_tt_bag_f32_i64,        ee_tt_bag_f32_i32,    ee_tt_logits_f32,
                                     ee_tt_topk_scratch_bytes, ee_tt_topk_f32};

// Rows 4, 1 (padding), 0, 4 as two bags, by every function.
template <class Case, class Table>
class Uses {
 public:
  Uses(const Case& made, const Functions<Table>& functions)
      : made_(made), f_(functions), table_(ToC(made.table())), scratch_(ScratchSize()), size_(ScratchSize()) {
    bags_.offsets = offsets_.data();
    bags_.num_bags = 2;
    bags_.sample_weights = weights_.data();
  }

  void TestResults() {
    const size_t columns = made_.columns();
    std::vector<float> out(4 * columns), same(4 * columns);
    int64_t bad = 99;
    if (f_.gather64 != nullptr) {
      CHECK(f_.gather64(&table_, ids64_.data(), 4, out.data(), Bytes(out), scratch_.data(), size_, &bad) ==
            EE_OK);
      CHECK(bad == -1);
      CHECK(f_.gather32(&table_, ids32_.data(), 4, same.data(), Bytes(same), scratch_.data(), size_, &bad) ==
            EE_OK);
      CHECK(out == same);
      for (size_t i = 0; i < out.size(); ++i) CHECK(Near(out[i], Row(ids64_[i / columns])[i % columns]));
    }
    CHECK(f_.bag64(&table_, ids64_.data(), 4, &bags_, out.data(), Bytes(out), scratch_.data(), size_, &bad) ==
          EE_OK);
    CHECK(f_.bag32(&table_, ids32_.data(), 4, &bags_, same.data(), Bytes(same), scratch_.data(), size_,
                   &bad) == EE_OK);
    for (size_t c = 0; c < columns; ++c) {
      CHECK(Near(out[c], 2 * Row(4)[c]));
      CHECK(Near(out[columns + c], Row(0)[c] - Row(4)[c]));
      CHECK(out[c] == same[c] && out[columns + c] == same[columns + c]);
    }
    std::vector<float> logits(10);
    const std::vector<float> hidden(2 * columns, 1.0F);
    CHECK(f_.logits(&table_, hidden.data(), 2, logits.data(), Bytes(logits), scratch_.data(), size_, &bad) ==
          EE_OK);
    CHECK(bad == -1);
    for (size_t i = 0; i < 10; ++i) {
      double sum = 0;
      for (const double value : Row(static_cast<int64_t>(i % 5))) sum += value;
      CHECK(Near(logits[i], sum));
    }
  }

  // More states than are done at a time, with a bias that decides.
  void TestTopK() {
    constexpr size_t kStates = 35, kBest = 3;
    const std::vector<float> hidden(kStates * made_.columns(), 0.0F), bias = {0.5F, 2, -1, 2, 1};
    std::vector<float> values(kStates * kBest);
    std::vector<int64_t> ids(kStates * kBest);
    ee_topk topk{kBest, bias.data(), values.data(), Bytes(values), ids.data(), ids.size() * sizeof(int64_t)};
    size_t bytes = 0;
    CHECK(f_.topk_scratch(&table_, kBest, &bytes) == EE_OK);
    const GuardedBuffer scratch(bytes);
    const auto run = [&](const ee_topk& wanted, size_t scratch_bytes, int64_t* bad) {
      return f_.topk(&table_, hidden.data(), kStates, &wanted, scratch.data(), scratch_bytes, bad);
    };
    int64_t bad = 99;
    CHECK(run(topk, bytes, &bad) == EE_OK);
    CHECK(bad == -1);
    for (size_t b = 0; b < kStates; ++b) {
      CHECK(ids[b * kBest] == 1 && ids[b * kBest + 1] == 3 && ids[b * kBest + 2] == 4);
      CHECK(values[b * kBest] == 2 && values[b * kBest + 1] == 2 && values[b * kBest + 2] == 1);
    }
    CHECK(run(topk, bytes - 1, nullptr) == EE_SHORT_SCRATCH);
    const auto after = [&](const auto& change) {
      ee_topk changed = topk;
      change(changed);
      return run(changed, bytes, nullptr);
    };
    CHECK(after([](ee_topk& t) { t.k = 0; }) == EE_BAD_K);
    CHECK(after([](ee_topk& t) { t.k = 6; }) == EE_BAD_K);
    CHECK(after([](ee_topk& t) { t.values_bytes -= 1; }) == EE_SHORT_OUTPUT);
    CHECK(after([](ee_topk& t) { t.ids_bytes -= 1; }) == EE_SHORT_OUTPUT);
    CHECK(after([](ee_topk& t) { t.ids = nullptr; }) == EE_NULL_POINTER);
    CHECK(f_.topk_scratch(&table_, 6, &bytes) == EE_BAD_K);
    CHECK(f_.topk(&table_, hidden.data(), -1, &topk, scratch.data(), bytes, nullptr) == EE_BAD_SHAPE);
    CHECK(f_.topk(&table_, hidden.data(), std::numeric_limits<int64_t>::max(), &topk, scratch.data(), bytes,
                  nullptr) == EE_SIZE_OVERFLOW);
    CHECK(f_.topk(&table_, nullptr, 0, &topk, nullptr, 0, nullptr) == EE_OK);
    CHECK(f_.topk(&table_, nullptr, 1, &topk, scratch.data(), bytes, nullptr) == EE_NULL_POINTER);
    CHECK(f_.topk(&table_, hidden.data(), 1, nullptr, scratch.data(), bytes, nullptr) == EE_NULL_POINTER);
  }

  void TestNothingToDo() {
    CHECK(f_.logits(&table_, nullptr, 0, nullptr, 0, nullptr, 0, nullptr) == EE_OK);
    const int64_t zero = 0;
    ee_bags none{};
    none.offsets = &zero;
    CHECK(f_.bag64(&table_, nullptr, 0, &none, nullptr, 0, nullptr, 0, nullptr) == EE_OK);
    if (f_.gather64 != nullptr) {
      CHECK(f_.gather64(&table_, nullptr, 0, nullptr, 0, nullptr, 0, nullptr) == EE_OK);
    }
  }

  void TestBadBags() {
    CHECK(BagAfter([](ee_bags& b) { b.offsets = nullptr; }) == EE_NULL_POINTER);
    CHECK(BagAfter([](ee_bags& b) { b.num_bags = -1; }) == EE_BAD_SHAPE);
    CHECK(BagAfter([](ee_bags& b) { b.num_bags = 1; }) == EE_BAD_OFFSETS);
    CHECK(bad_ == 1);
    for (const std::vector<int64_t>& wrong :
         {std::vector<int64_t>{1, 2, 4}, {-1, 2, 4}, {0, 5, 4}, {0, -1, 4}}) {
      CHECK(BagAfter([&](ee_bags& b) { b.offsets = wrong.data(); }) == EE_BAD_OFFSETS);
      CHECK(bad_ == (wrong[0] == 0 ? 1 : 0));
    }
    for (const int32_t mode : {-1, 3, 1, 2}) {  // weights need mode 0
      CHECK(BagAfter([=](ee_bags& b) { b.mode = mode; }) == EE_BAD_MODE);
    }
    CHECK(f_.bag64(&table_, ids64_.data(), 4, nullptr, nullptr, 0, nullptr, 0, nullptr) == EE_NULL_POINTER);
    ids64_[2] = 5;
    CHECK(BagAfter([](ee_bags&) {}) == EE_ID_OUT_OF_RANGE);
    CHECK(bad_ == 2);
    ids64_[2] = 0;
  }

  void TestShortBuffers() {
    const size_t columns = made_.columns();
    std::vector<float> out(4 * columns + 10);
    const size_t bags = 2 * columns * sizeof(float), rows = 2 * bags, logits = 10 * sizeof(float);
    void* scratch = scratch_.data();
    const auto bag = [&](size_t bytes, void* memory, size_t memory_bytes) {
      return f_.bag64(&table_, ids64_.data(), 4, &bags_, out.data(), bytes, memory, memory_bytes, nullptr);
    };
    const auto head = [&](size_t bytes, void* memory, size_t memory_bytes) {
      return f_.logits(&table_, out.data(), 2, out.data() + 2 * columns, bytes, memory, memory_bytes,
                       nullptr);
    };
    CHECK(bag(bags, scratch, size_) == EE_OK);
    CHECK(bag(bags - 1, scratch, size_) == EE_SHORT_OUTPUT);
    CHECK(bag(bags, scratch, size_ - 1) == EE_SHORT_SCRATCH);
    CHECK(bag(bags, nullptr, size_) == EE_NULL_POINTER);
    CHECK(head(logits, scratch, size_) == EE_OK);
    CHECK(head(logits - 1, scratch, size_) == EE_SHORT_OUTPUT);
    CHECK(head(logits, scratch, size_ - 1) == EE_SHORT_SCRATCH);
    CHECK(f_.logits(&table_, out.data(), std::numeric_limits<int64_t>::max(), out.data(), logits, scratch,
                    size_, nullptr) == EE_SIZE_OVERFLOW);
    CHECK(f_.logits(&table_, out.data(), -1, out.data(), logits, scratch, size_, nullptr) == EE_BAD_SHAPE);
    if (f_.gather64 == nullptr) return;
    const auto gather = [&](size_t bytes, size_t memory_bytes) {
      return f_.gather64(&table_, ids64_.data(), 4, out.data(), bytes, scratch, memory_bytes, nullptr);
    };
    CHECK(gather(rows, size_) == EE_OK);
    CHECK(gather(rows - 1, size_) == EE_SHORT_OUTPUT);
    CHECK(gather(rows, size_ - 1) == EE_SHORT_SCRATCH);
  }

  void TestBadTables() {
    size_t bytes = 0;
    CHECK(f_.scratch_bytes(nullptr, &bytes) == EE_NULL_POINTER);
    CHECK(f_.scratch_bytes(&table_, nullptr) == EE_NULL_POINTER);
    Table broken = table_;
    broken.padding_idx = 5;
    CHECK(f_.scratch_bytes(&broken, &bytes) == EE_BAD_PADDING);
    CHECK(f_.logits(&broken, nullptr, 0, nullptr, 0, nullptr, 0, nullptr) == EE_BAD_PADDING);
    CHECK(f_.bag64(&broken, nullptr, 0, &bags_, nullptr, 0, nullptr, 0, nullptr) == EE_BAD_PADDING);
    CHECK(f_.logits(nullptr, nullptr, 0, nullptr, 0, nullptr, 0, nullptr) == EE_NULL_POINTER);
  }

 private:
  size_t ScratchSize() const {
    size_t bytes = 0;
    CHECK(f_.scratch_bytes(&table_, &bytes) == EE_OK);
    return bytes;
  }

  template <typename Change>
  ee_status BagAfter(Change change) {
    ee_bags changed = bags_;
    change(changed);
    std::vector<float> out(4 * made_.columns());
    return f_.bag64(&table_, ids64_.data(), 4, &changed, out.data(), Bytes(out), scratch_.data(), size_,
                    &bad_);
  }

  std::vector<double> Row(int64_t id) const { return made_.Row(id); }
  static size_t Bytes(const std::vector<float>& out) { return out.size() * sizeof(float); }
  static bool Near(float got, double exact) {
    return std::fabs(static_cast<double>(got) - exact) <= 1e-5 * (1 + std::fabs(exact));
  }

  const Case& made_;
  const Functions<Table>& f_;
  Table table_;
  GuardedBuffer scratch_;
  size_t size_;
  int64_t bad_ = 0;
  std::vector<int64_t> ids64_ = {4, 1, 0, 4};
  std::vector<int32_t> ids32_ = {4, 1, 0, 4};
  std::vector<int64_t> offsets_ = {0, 2, 4};
  std::vector<float> weights_ = {2, 7, 1, -1};
  ee_bags bags_{};
};

template <class Case, class Table>
void TestUses(const Case& made, const Functions<Table>& functions) {
  Uses<Case, Table> uses(made, functions);
  uses.TestResults();
  uses.TestTopK();
  uses.TestNothingToDo();
  uses.TestBadBags();
  uses.TestShortBuffers();
  uses.TestBadTables();
}

std::vector<float> AllRows(const ee_tt_table& table, size_t columns) {
  size_t bytes = 0;
  CHECK(ee_tt_scratch_bytes(&table, &bytes) == EE_OK);
  const GuardedBuffer scratch(bytes);
  std::vector<int64_t> ids;
  for (int64_t id = 0; id < table.num_embeddings; ++id) ids.push_back(id);
  std::vector<float> rows(ids.size() * columns);
  CHECK(ee_tt_gather_f32_i64(&table, ids.data(), table.num_embeddings, rows.data(),
                             rows.size() * sizeof(float), scratch.data(), bytes, nullptr) == EE_OK);
  return rows;
}

void TestMergedCores() {
  const TtCase made({{2, 3, 2}, {3, 2, 4}, {1, 4, 5, 1}, 11, EE_FLOAT16, 3});
  const ee_tt_table table = ToC(made.table());
  size_t bytes = 99, scratch_bytes = 99;
  CHECK(ee_tt_merge_bytes(&table, 0, &bytes, &scratch_bytes) == EE_OK && bytes == 0 && scratch_bytes == 0);
  CHECK(ee_tt_merge_bytes(&table, SIZE_MAX, &bytes, &scratch_bytes) == EE_OK);
  CHECK(bytes == (6 * 4 * 8 + 2 * 3 * 4) * sizeof(float));
  const GuardedBuffer memory(bytes), scratch(scratch_bytes);
  ee_tt_table merged{};
  CHECK(ee_tt_merge(&table, memory.data(), bytes, scratch.data(), scratch_bytes, &merged) == EE_OK);
  CHECK(merged.num_cores == 2 && merged.core_type == EE_FLOAT32);
  CHECK(merged.num_embeddings == 11 && merged.padding_idx == 3 && merged.cores[2].data == nullptr);
  const std::vector<float> rows = AllRows(table, 24), same = AllRows(merged, 24);
  for (size_t i = 0; i < rows.size(); ++i) {
    const double magnitude = made.Row(static_cast<int64_t>(i / 24), true)[i % 24];
    CHECK(std::fabs(static_cast<double>(rows[i]) - static_cast<double>(same[i])) <=
          std::ldexp(magnitude, -20));
  }

  const auto merge = [&](const ee_tt_table* from, void* to, size_t size, void* work, size_t work_size,
                         ee_tt_table* into) { return ee_tt_merge(from, to, size, work, work_size, into); };
  ee_tt_table untouched{};
  CHECK(merge(&table, memory.data(), bytes - 1, scratch.data(), scratch_bytes, &untouched) ==
        EE_SHORT_OUTPUT);
  CHECK(merge(&table, memory.data(), bytes, scratch.data(), scratch_bytes - 1, &untouched) ==
        EE_SHORT_SCRATCH);
  CHECK(merge(&table, nullptr, bytes, scratch.data(), scratch_bytes, &untouched) == EE_NULL_POINTER);
  CHECK(merge(&table, memory.data(), bytes, nullptr, scratch_bytes, &untouched) == EE_NULL_POINTER);
  CHECK(merge(&table, memory.data(), bytes, scratch.data(), scratch_bytes, nullptr) == EE_NULL_POINTER);
  CHECK(merge(nullptr, memory.data(), bytes, scratch.data(), scratch_bytes, &untouched) == EE_NULL_POINTER);
  CHECK(untouched.num_cores == 0);
  CHECK(ee_tt_merge_bytes(nullptr, 1, &bytes, &scratch_bytes) == EE_NULL_POINTER);
  CHECK(ee_tt_merge_bytes(&table, 1, nullptr, &scratch_bytes) == EE_NULL_POINTER);
  CHECK(ee_tt_merge_bytes(&table, 1, &bytes, nullptr) == EE_NULL_POINTER);
  ee_tt_table broken = table;
  broken.cores[1].rank_in = 3;
  CHECK(ee_tt_merge_bytes(&broken, 1, &bytes, &scratch_bytes) == EE_BAD_RANKS);
  CHECK(merge(&broken, memory.data(), bytes, scratch.data(), scratch_bytes, &untouched) == EE_BAD_RANKS);
}

// Logits and the largest of them are the same with blocks.
void TestBlocks() {
  const DpqCase made({90, 16, 9, 2, false, 70});
  ee_dpq_table table = ToC(made.table());
  size_t bytes = 1;
  CHECK(ee_dpq_blocks_bytes(nullptr, &bytes) == EE_NULL_POINTER);
  CHECK(ee_dpq_blocks_bytes(&table, nullptr) == EE_NULL_POINTER);
  CHECK(ee_dpq_blocks_bytes(&table, &bytes) == EE_OK);
  CHECK(bytes == (ee_isa() == std::string("avx512") ? 6 * 2 * 64 : 0));
  std::vector<unsigned char> blocks(bytes + 1);
  CHECK(ee_dpq_make_blocks(nullptr, blocks.data(), bytes) == EE_NULL_POINTER);
  CHECK(ee_dpq_make_blocks(&table, nullptr, bytes) == (bytes == 0 ? EE_OK : EE_NULL_POINTER));
  if (bytes > 0) CHECK(ee_dpq_make_blocks(&table, blocks.data(), bytes - 1) == EE_SHORT_BLOCKS);
  CHECK(ee_dpq_make_blocks(&table, blocks.data() + 1, bytes) == EE_OK);

  size_t scratch_bytes = 0;
  CHECK(ee_dpq_scratch_bytes(&table, &scratch_bytes) == EE_OK);
  const GuardedBuffer scratch(scratch_bytes);
  const std::vector<float> hidden(2 * made.dim(), 0.5F);
  const auto logits = [&](std::vector<float>* out) {
    return ee_dpq_logits_f32(&table, hidden.data(), 2, out->data(), out->size() * sizeof(float),
                             scratch.data(), scratch_bytes, nullptr);
  };
  std::vector<float> without(2 * 90), with(2 * 90);
  CHECK(logits(&without) == EE_OK);
  table.blocks = blocks.data() + 1;
  CHECK(logits(&with) == EE_OK && with == without);  // of no bytes
  table.blocks_bytes = 6 * 2 * 64 - 1;
  CHECK(logits(&with) == EE_SHORT_BLOCKS);
  table.blocks_bytes = 6 * 2 * 64;
  CHECK(logits(&with) == EE_OK && with == without);
}

void TestTypesThatAreNone() {
  const AntCase ant_case({5, 4, 3});
  const TtCase tt_case({{2, 3}, {3, 2}, {1, 4, 1}, 5});
  const DpqCase dpq_case(kShape);
  for (const int32_t type : {-1, 8, 1000, std::numeric_limits<int32_t>::min()}) {
    size_t bytes = 0;
    ee_ant_table ant_table = ToC(ant_case.table());
    ee_tt_table tt_table = ToC(tt_case.table());
    ee_dpq_table dpq_table = ToC(dpq_case.table());
    ant_table.anchor_type = tt_table.core_type = dpq_table.value_type = type;
    CHECK(ee_ant_scratch_bytes(&ant_table, &bytes) == EE_BAD_TYPE);
    CHECK(ee_tt_scratch_bytes(&tt_table, &bytes) == EE_BAD_TYPE);
    CHECK(ee_dpq_scratch_bytes(&dpq_table, &bytes) == EE_BAD_TYPE);
  }
}

void TestADamagedRowIsNamed() {
  AntCase made({5, 4, 3, EE_UINT8, EE_FLOAT32, EE_FLOAT32, kNoPadding, 1.0});
  made.anchor_id_buffer().mutable_data()[9] = 4;  // of row 3, as row 1 is empty
  const ee_ant_table table = ToC(made.table());
  size_t bytes = 0;
  CHECK(ee_ant_scratch_bytes(&table, &bytes) == EE_OK);
  std::vector<unsigned char> scratch(bytes);
  std::vector<float> logits(5), hidden(3);
  int64_t bad = 99;
  CHECK(ee_ant_logits_f32(&table, hidden.data(), 1, logits.data(), 20, scratch.data(), bytes, &bad) ==
        EE_BAD_ANCHOR_ID);
  CHECK(bad == 3);
}

void TestTexts() {
  CHECK(ee_version() == std::string(EDGE_EMBED_VERSION));
  CHECK(ee_status_message(EE_SHORT_CODES) != std::string(ee_status_message(EE_OK)));
  CHECK(ee_status_message(-5) != nullptr);
  CHECK(ee_isa_name(-1) == nullptr && ee_isa_runs(-1) == 0);
  int32_t count = 0, chosen = -1;
  for (; ee_isa_name(count) != nullptr; ++count) {
    if (ee_isa() == std::string(ee_isa_name(count))) chosen = count;
  }
  CHECK(ee_isa_name(count - 1) == std::string("reference") && ee_isa_runs(count - 1) == 1);
  CHECK(ee_isa_runs(chosen) == 1 && ee_isa_runs(count) == 0);
}

// ctypes callers declare this layout by hand.
static_assert(sizeof(void*) != 8 || sizeof(ee_dpq_table) == 120, "the layout is part of the ABI");
static_assert(sizeof(void*) != 8 || sizeof(ee_ant_table) == 120, "the layout is part of the ABI");
static_assert(sizeof(void*) != 8 || sizeof(ee_tt_table) == 320, "the layout is part of the ABI");
static_assert(sizeof(void*) != 8 || sizeof(ee_bags) == 32, "the layout is part of the ABI");

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  for (const ee_type type : {EE_FLOAT32, EE_FLOAT16, EE_INT8}) TestRows(type);
  TestNothingToDo();
  TestBadArguments();
  TestUses(DpqCase({5, 10, 3, 2, false, 1}), kDpq);
  TestUses(DpqCase({5, 10, 3, 2, true, 1, 1, false, EE_FLOAT16}), kDpq);
  TestUses(DpqCase({5, 10, 3, 2, false, 1, 1, false, EE_INT8}), kDpq);
  TestUses(AntCase({5, 4, 3, EE_UINT8, EE_INT8, EE_FLOAT32, 1}), kAnt);
  TestUses(TtCase({{2, 3}, {3, 2}, {1, 4, 1}, 5, EE_FLOAT32, 1}), kTt);
  TestUses(MergedCase({{2, 2, 2}, {3, 2, 1}, {1, 4, 2, 1}, 5, EE_FLOAT32, 1}), kTt);
  TestMergedCores();
  TestBlocks();
  TestTypesThatAreNone();
  TestADamagedRowIsNamed();
  TestTexts();
  return 0;
}
