// The uses of a table through the C interface, for all methods.
#include <limits>

#include "tests/c_tables.h"

namespace edge_embed::testing {
namespace {

// Rows 4, 1 (padding), 0, 4 as two bags, by every function.
template <class Case>
class Uses {
 public:
  explicit Uses(const Case& made)
      : made_(made),
        table_(ToC(made.table())),
        gather_scratch_(table_, EE_GATHER),
        bag_scratch_(table_, EE_BAG),
        logits_scratch_(table_, EE_LOGITS) {
    bags_.offsets = offsets_.data();
    bags_.num_bags = 2;
    bags_.sample_weights = weights_.data();
  }

  void TestResults() {
    const size_t columns = made_.columns();
    std::vector<float> out(4 * columns), same(4 * columns);
    CHECK(Gather(ToC(ids64_), &out) == EE_OK && bad_ == -1);
    CHECK(Gather(ToC(ids32_), &same) == EE_OK && out == same);
    for (size_t i = 0; i < out.size(); ++i) CHECK(Near(out[i], Row(ids64_[i / columns])[i % columns]));

    out.resize(2 * columns), same.resize(2 * columns);
    CHECK(Bag(ToC(ids64_), bags_, &out) == EE_OK && bad_ == -1);
    CHECK(Bag(ToC(ids32_), bags_, &same) == EE_OK && out == same);
    for (size_t c = 0; c < columns; ++c) {
      CHECK(Near(out[c], 2 * Row(4)[c]));
      CHECK(Near(out[columns + c], Row(0)[c] - Row(4)[c]));
    }

    std::vector<float> logits(10);
    const std::vector<float> hidden(2 * columns, 1.0F);
    CHECK(Logits(hidden.data(), 2, &logits) == EE_OK && bad_ == -1);
    for (size_t i = 0; i < 10; ++i) {
      double sum = 0;
      for (const double value : Row(static_cast<int64_t>(i % 5))) sum += value;
      CHECK(Near(logits[i], sum));
    }
  }

  // More states than are processed at a time, with a bias that decides the order.
  void TestTopK() {
    constexpr size_t kStates = 35, kBest = 3;
    const std::vector<float> hidden(kStates * made_.columns(), 0.0F), bias = {0.5F, 2, -1, 2, 1};
    std::vector<float> values(kStates * kBest);
    std::vector<int64_t> ids(kStates * kBest);
    const ee_best best{kBest,         bias.data(), values.data(),
                       Bytes(values), ids.data(),  ids.size() * sizeof(int64_t)};
    const UseScratch scratch(table_, EE_TOPK, kBest);
    const auto run = [&](const float* states, int64_t batch, const ee_best* wanted, size_t scratch_bytes) {
      return ee_topk(&table_, states, batch, wanted, scratch.data(), scratch_bytes, &bad_);
    };
    CHECK(run(hidden.data(), kStates, &best, scratch.size()) == EE_OK && bad_ == -1);
    for (size_t b = 0; b < kStates; ++b) {
      CHECK(ids[b * kBest] == 1 && ids[b * kBest + 1] == 3 && ids[b * kBest + 2] == 4);
      CHECK(values[b * kBest] == 2 && values[b * kBest + 1] == 2 && values[b * kBest + 2] == 1);
    }
    CHECK(run(hidden.data(), kStates, &best, scratch.size() - 1) == EE_SHORT_SCRATCH);
    const auto after = [&](const auto& change) {
      ee_best changed = best;
      change(changed);
      return run(hidden.data(), kStates, &changed, scratch.size());
    };
    CHECK(after([](ee_best& b) { b.k = 0; }) == EE_BAD_K);
    CHECK(after([](ee_best& b) { b.k = 6; }) == EE_BAD_K);
    CHECK(after([](ee_best& b) { b.values_bytes -= 1; }) == EE_SHORT_OUTPUT);
    CHECK(after([](ee_best& b) { b.ids_bytes -= 1; }) == EE_SHORT_OUTPUT);
    CHECK(after([](ee_best& b) { b.ids = nullptr; }) == EE_NULL_POINTER);
    CHECK(run(hidden.data(), -1, &best, scratch.size()) == EE_BAD_SHAPE);
    CHECK(run(hidden.data(), std::numeric_limits<int64_t>::max(), &best, scratch.size()) == EE_SIZE_OVERFLOW);
    CHECK(run(nullptr, 1, &best, scratch.size()) == EE_NULL_POINTER);
    CHECK(run(hidden.data(), 1, nullptr, scratch.size()) == EE_NULL_POINTER);
    CHECK(ee_topk(&table_, nullptr, 0, &best, nullptr, 0, nullptr) == EE_OK);
  }

  void TestScratch() {
    size_t bytes = 99;
    CHECK(ee_scratch_bytes(&table_, EE_GATHER, 0, nullptr) == EE_NULL_POINTER);
    for (const int32_t use : {-1, 4, 1000}) CHECK(ee_scratch_bytes(&table_, use, 1, &bytes) == EE_BAD_USE);
    for (const int64_t k : {0, -1, 6}) CHECK(ee_scratch_bytes(&table_, EE_TOPK, k, &bytes) == EE_BAD_K);
    CHECK(bytes == 99);
  }

  void TestNothingToDo() {
    const int64_t zero = 0;
    ee_bags none{};
    none.offsets = &zero;
    const ee_ids no_ids{nullptr, 0, EE_INT64};
    CHECK(ee_gather(&table_, &no_ids, nullptr, 0, nullptr, 0, nullptr) == EE_OK);
    CHECK(ee_bag(&table_, &no_ids, &none, nullptr, 0, nullptr, 0, nullptr) == EE_OK);
    CHECK(ee_logits(&table_, nullptr, 0, nullptr, 0, nullptr, 0, nullptr) == EE_OK);
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
    for (const int32_t mode : {-1, 3, 1, 2}) {  // weights require mode 0
      CHECK(BagAfter([=](ee_bags& b) { b.mode = mode; }) == EE_BAD_MODE);
    }
    const ee_ids ids = ToC(ids64_);
    CHECK(ee_bag(&table_, &ids, nullptr, nullptr, 0, nullptr, 0, nullptr) == EE_NULL_POINTER);
    CHECK(ee_bag(&table_, nullptr, &bags_, nullptr, 0, nullptr, 0, nullptr) == EE_NULL_POINTER);
    ids64_[2] = 5;
    CHECK(BagAfter([](ee_bags&) {}) == EE_ID_OUT_OF_RANGE);
    CHECK(bad_ == 2);
    ids64_[2] = 0;
  }

  void TestShortBuffers() {
    const size_t columns = made_.columns(), bags = 2 * columns * sizeof(float), rows = 2 * bags;
    constexpr size_t kLogits = 10 * sizeof(float);
    std::vector<float> out(4 * columns + 10);
    const ee_ids ids = ToC(ids64_);
    const auto gather = [&](size_t bytes, void* memory, size_t size) {
      return ee_gather(&table_, &ids, out.data(), bytes, memory, size, nullptr);
    };
    const auto bag = [&](size_t bytes, void* memory, size_t size) {
      return ee_bag(&table_, &ids, &bags_, out.data(), bytes, memory, size, nullptr);
    };
    const auto logits = [&](size_t bytes, void* memory, size_t size) {
      return ee_logits(&table_, out.data(), 2, out.data() + 2 * columns, bytes, memory, size, nullptr);
    };
    const auto check = [](const auto& use, size_t bytes, const UseScratch& scratch) {
      CHECK(use(bytes, scratch.data(), scratch.size()) == EE_OK);
      CHECK(use(bytes - 1, scratch.data(), scratch.size()) == EE_SHORT_OUTPUT);
      if (scratch.size() == 0) return;
      CHECK(use(bytes, scratch.data(), scratch.size() - 1) == EE_SHORT_SCRATCH);
      CHECK(use(bytes, nullptr, scratch.size()) == EE_NULL_POINTER);
    };
    check(gather, rows, gather_scratch_);
    check(bag, bags, bag_scratch_);
    check(logits, kLogits, logits_scratch_);
    CHECK(ee_gather(&table_, &ids, nullptr, rows, gather_scratch_.data(), gather_scratch_.size(), nullptr) ==
          EE_NULL_POINTER);
    const auto states = [&](int64_t batch) {
      return ee_logits(&table_, out.data(), batch, out.data(), kLogits, logits_scratch_.data(),
                       logits_scratch_.size(), nullptr);
    };
    CHECK(states(std::numeric_limits<int64_t>::max()) == EE_SIZE_OVERFLOW);
    CHECK(states(-1) == EE_BAD_SHAPE);
  }

  void TestBadTables() {
    ee_table broken = table_;
    Padding(&broken) = 5;
    CHECK(ee_check(&table_) == EE_OK && ee_check(&broken) == EE_BAD_PADDING);
  }

 private:
  static int64_t& Padding(ee_table* table) {
    return table->method == EE_DPQ   ? table->dpq.padding_idx
           : table->method == EE_ANT ? table->ant.padding_idx
                                     : table->tt.padding_idx;
  }

  ee_status Gather(const ee_ids& ids, std::vector<float>* out) {
    return ee_gather(&table_, &ids, out->data(), Bytes(*out), gather_scratch_.data(), gather_scratch_.size(),
                     &bad_);
  }
  ee_status Bag(const ee_ids& ids, const ee_bags& bags, std::vector<float>* out) {
    return ee_bag(&table_, &ids, &bags, out->data(), Bytes(*out), bag_scratch_.data(), bag_scratch_.size(),
                  &bad_);
  }
  ee_status Logits(const float* hidden, int64_t batch, std::vector<float>* out) {
    return ee_logits(&table_, hidden, batch, out->data(), Bytes(*out), logits_scratch_.data(),
                     logits_scratch_.size(), &bad_);
  }

  template <typename Change>
  ee_status BagAfter(Change change) {
    ee_bags changed = bags_;
    change(changed);
    std::vector<float> out(4 * made_.columns());
    return Bag(ToC(ids64_), changed, &out);
  }

  std::vector<double> Row(int64_t id) const { return made_.Row(id); }
  static size_t Bytes(const std::vector<float>& out) { return out.size() * sizeof(float); }
  static bool Near(float got, double exact) {
    return std::fabs(static_cast<double>(got) - exact) <= 1e-5 * (1 + std::fabs(exact));
  }

  const Case& made_;
  ee_table table_;
  UseScratch gather_scratch_, bag_scratch_, logits_scratch_;
  int64_t bad_ = 0;
  std::vector<int64_t> ids64_ = {4, 1, 0, 4};
  std::vector<int32_t> ids32_ = {4, 1, 0, 4};
  std::vector<int64_t> offsets_ = {0, 2, 4};
  std::vector<float> weights_ = {2, 7, 1, -1};
  ee_bags bags_{};
};

template <class Case>
void TestUses(const Case& made) {
  Uses<Case> uses(made);
  uses.TestResults();
  uses.TestTopK();
  uses.TestScratch();
  uses.TestNothingToDo();
  uses.TestBadBags();
  uses.TestShortBuffers();
  uses.TestBadTables();
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  TestUses(DpqCase({5, 10, 3, 2, false, 1}));
  TestUses(DpqCase({5, 10, 3, 2, true, 1, 1, false, EE_FLOAT16}));
  TestUses(DpqCase({5, 10, 3, 2, false, 1, 1, false, EE_INT8}));
  TestUses(AntCase({5, 4, 3, EE_UINT8, EE_INT8, EE_FLOAT32, 1}));
  TestUses(TtCase({{2, 3}, {3, 2}, {1, 4, 1}, 5, EE_FLOAT32, 1}));
  TestUses(MergedCase({{2, 2, 2}, {3, 2, 1}, {1, 4, 2, 1}, 5, EE_FLOAT32, 1}));
  return 0;
}
