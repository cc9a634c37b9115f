// The functions of the C ABI that all methods have, each use of a table by one test of all.
#include <limits>

#include "tests/c_tables.h"

namespace edge_embed::testing {
namespace {

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

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  TestUses(DpqCase({5, 10, 3, 2, false, 1}), kDpq);
  TestUses(DpqCase({5, 10, 3, 2, true, 1, 1, false, EE_FLOAT16}), kDpq);
  TestUses(DpqCase({5, 10, 3, 2, false, 1, 1, false, EE_INT8}), kDpq);
  TestUses(AntCase({5, 4, 3, EE_UINT8, EE_INT8, EE_FLOAT32, 1}), kAnt);
  TestUses(TtCase({{2, 3}, {3, 2}, {1, 4, 1}, 5, EE_FLOAT32, 1}), kTt);
  TestUses(MergedCase({{2, 2, 2}, {3, 2, 1}, {1, 4, 2, 1}, 5, EE_FLOAT32, 1}), kTt);
  return 0;
}
