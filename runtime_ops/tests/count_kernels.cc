// Runs kernels of the selected variant between marks, so that an emulator counts their instructions
// (runner/count_plugin.cc). It prints name, number of rows and bytes of output of each run, separated by
// tabs.
#include <string>

#include "runner/count_mark.h"
#include "tests/ant_case.h"
#include "tests/dpq_case.h"
#include "tests/tt_case.h"

namespace edge_embed::testing {
namespace {

constexpr size_t kRows = 1024;  // rows of every table, ids of every call
constexpr size_t kBagIds = 32;
constexpr size_t kBags = kRows / kBagIds;

template <class Run>
void Count(const std::string& name, size_t output_bytes, const Run& run) {
  runner::Mark();
  const ee_status status = run();
  runner::Mark();
  CHECK(status == EE_OK);
  std::printf("%s\t%zu\t%zu\n", name.c_str(), kRows, output_bytes);
}

std::vector<int64_t> RandomIds() {
  std::mt19937 random(1);
  std::vector<int64_t> ids(kRows);
  for (int64_t& id : ids) id = static_cast<int64_t>(random() % kRows);
  return ids;
}

std::vector<int64_t> Offsets() {
  std::vector<int64_t> offsets;
  for (size_t bag = 0; bag <= kBags; ++bag) offsets.push_back(static_cast<int64_t>(bag * kBagIds));
  return offsets;
}

template <class Case>
class Counts {
 public:
  Counts(const std::string& name, const Case& test_case)
      : name_(name),
        table_(test_case.table()),
        columns_(test_case.columns()),
        kernels_(TestedKernels(table_)),
        scratch_(MakeScratch(table_)) {}

  void Rows() {
    std::vector<float> rows(kRows * columns_);
    Count(name_ + " rows", rows.size() * sizeof(float), [&] {
      return kernels_.gather.run(table_, ToIds(ids_), 0, kRows, {rows.data(), EE_FLOAT32}, Doubles(scratch_),
                                 &bad_);
    });
  }

  void Bag() {
    const std::vector<int64_t> offsets = Offsets();
    const Bags bags{offsets.data(), kBags, nullptr, EE_FLOAT32, BagMode::kSum};
    std::vector<float> out(kBags * columns_);
    Count(name_ + " bag", out.size() * sizeof(float), [&] {
      return kernels_.bag.run(table_, ToIds(ids_), bags, 0, kBags, {out.data(), EE_FLOAT32},
                              Doubles(scratch_), &bad_);
    });
  }

  // Without the preparation, which runs once for all rows of the table.
  void Logits(size_t batch) {
    const std::vector<float> hidden(batch * columns_, 0.5F);
    uint64_t doubles;
    CHECK(kernels_.logits.Prepared(table_, batch).Get(&doubles));
    std::vector<double> prepared(doubles);
    const LogitsInput input = kernels_.logits.Prepare(table_, hidden.data(), batch, prepared.data());
    std::vector<float> logits(batch * kRows);
    Count(name_ + " logits, batch " + std::to_string(batch), logits.size() * sizeof(float), [&] {
      const LogitsOutput out{{logits.data(), EE_FLOAT32}, kRows, 0};
      return kernels_.logits.run(table_, input, 0, kRows, out, Doubles(scratch_), &bad_);
    });
  }

  void All() {
    Rows();
    Bag();
    Logits(1);
    Logits(8);
  }

 private:
  const std::string name_;
  const decltype(std::declval<Case>().table()) table_;
  const size_t columns_;
  const Kernels<std::remove_const_t<decltype(table_)>>& kernels_;
  const GuardedBuffer scratch_;
  const std::vector<int64_t> ids_ = RandomIds();
  size_t bad_ = 0;
};

void CountDpq(int64_t num_codes, int64_t groups, int64_t width) {
  const std::string name = "DPQ K=" + std::to_string(num_codes) + " s=" + std::to_string(width);
  Counts<DpqCase>(name, DpqCase({kRows, num_codes, groups, width})).All();
}

void CountTt(int64_t rank) {
  const TtCase test_case({{8, 8, 16}, {4, 8, 8}, {1, rank, rank, 1}, kRows});
  Counts<TtCase>("TT R=" + std::to_string(rank), test_case).All();
}

void CountAll() {
  CountDpq(16, 64, 4);
  CountDpq(16, 32, 8);
  CountDpq(256, 32, 8);
  Counts<AntCase>("ANT m=8", AntCase({kRows, 100, 256, EE_UINT8, EE_FLOAT32, EE_FLOAT32, kNoPadding, 0.08}))
      .All();
  CountTt(16);
  CountTt(32);
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  edge_embed::runner::CountRange(0, UINT64_MAX);
  edge_embed::testing::Tested() = &edge_embed::ChosenVariant();
  std::printf("%s\n", edge_embed::ChosenVariant().name);
  edge_embed::testing::CountAll();
}
