// logits[b, i] = sum over c of hidden[b, c] * row(i)[c], for consecutive rows i, in one of two orders.
//
// By rows: computes a few rows and multiplies them with all of hidden.
//
// By prefixes: rows that differ in the last core only share the state S [P, R] before it. hidden [P, J_N] is
// multiplied with S first, and then with the last core of each row:
//
//   W[b, r, j] = sum over p of S[p, r] * hidden[b, p, j]
//   logits[b, i] = sum over r, j of W[b, r, j] * G_N[i_N, r, j]
//
// This is less work for few states or for many rows of a prefix.
//
// Rounding: beside the roundings of a row (kernels/tt/fast_chain.h), W adds at most 8 + log2(P / 8)
// roundings, and the last sum 9 + log2(d / 8). A logit is a sum of d * paths terms. The bound is 8 roundings,
// and terms / 8 from 64 terms on. From 512 terms on, the bound is met for any ranks.
#ifndef EDGE_EMBED_KERNELS_TT_FAST_LOGITS_H_
#define EDGE_EMBED_KERNELS_TT_FAST_LOGITS_H_

#include "kernels/tt/fast_dot.h"

namespace edge_embed::tt {
namespace {

// Number of rows, or of states W, that are computed before they are used: as many as fit into the first-level
// cache.
__attribute__((always_inline)) inline size_t BlockOf(size_t columns) {
  constexpr size_t kFloats = 8192, kMost = 32;
  if (columns >= kFloats) return 1;
  return kFloats / columns < kMost ? kFloats / columns : kMost;
}

// Numbers that a row reads of the last core.
__attribute__((always_inline)) inline size_t LastSlice(const Table& table) {
  const Core& last = table.cores[table.num_cores - 1];
  return At(last.rank_in) * At(last.columns) * At(last.rank_out);
}

inline Size LogitsScratch(const Table& table) {
  const size_t columns = Columns(table), slice = LastSlice(table);
  const Size rows = Size(BlockOf(columns)) * columns, parts = Size(BlockOf(slice)) * slice;
  return AlignedDoubles(Chain::ScratchFloats(table) + rows + parts + parts + 3 * kLineFloats);
}

class LogitsCall {
 public:
  LogitsCall(const Table& table, const LogitsInput& input, const LogitsOutput& logits, double* scratch)
      : table_(table),
        batch_(input.batch),
        slice_(LastSlice(table)),
        rows_(Aligned(scratch)),
        states_(rows_ + WholeLines(BlockOf(Columns(table)) * Columns(table))),
        widened_(states_ + WholeLines(BlockOf(slice_) * slice_)),
        chain_(table, widened_ + WholeLines(BlockOf(slice_) * slice_)) {
    dots_.out = logits;
    hidden_ = reinterpret_cast<const unsigned char*>(input.hidden);
  }

  // True if prefixes are less work for the rows [begin, end), counted in multiplications.
  bool ByPrefixes(size_t begin, size_t end) const {
    if (table_.cores[0].rank_in > 1) return false;
    const double radix = static_cast<double>(table_.cores[table_.num_cores - 1].rows);
    const double count = static_cast<double>(end - begin), rows = count < radix ? count : radix;
    const double slice = static_cast<double>(slice_), batch = static_cast<double>(batch_);
    const double row = slice * static_cast<double>(chain_.prefix_rows());
    const double columns = static_cast<double>(chain_.columns());
    return batch * (row + rows * slice) < rows * (row + batch * columns);
  }

  __attribute__((noinline)) void Rows(size_t begin, size_t end) {
    const size_t columns = chain_.columns(), block = BlockOf(columns);
    dots_.rows = Bytes(rows_);
    dots_.states = hidden_;
    dots_.first_state = 0;
    dots_.num_states = batch_;
    dots_.count = columns;
    for (size_t first = begin; first < end; first += dots_.num_rows) {
      dots_.num_rows = end - first < block ? end - first : block;
      dots_.first_row = first;
      for (size_t i = 0; i < dots_.num_rows; ++i) {
        ReadChecked(table_, chain_, static_cast<int64_t>(first + i), Bytes(rows_ + i * columns));
      }
      Dot(dots_);
    }
  }

  __attribute__((noinline)) void Prefixes(size_t begin, size_t end) {
    const size_t radix = At(table_.cores[table_.num_cores - 1].rows);
    for (size_t first = begin; first < end;) {
      const size_t prefix = first / radix, next = (prefix + 1) * radix, last = next < end ? next : end;
      OnePrefix(prefix, first, last);
      first = last;
    }
    if (table_.padding_idx != kNoPadding && At(table_.padding_idx) >= begin && At(table_.padding_idx) < end) {
      Rows(At(table_.padding_idx), At(table_.padding_idx) + 1);
    }
  }

 private:
  // Logits of the rows [begin, end) of a prefix.
  void OnePrefix(size_t prefix, size_t begin, size_t end) {
    const Core& core = table_.cores[table_.num_cores - 1];
    Product product;
    product.state = chain_.Prefix(prefix);  // used as [R, P]
    product.row_step = sizeof(float);
    product.inner_step = At(core.rank_in) * sizeof(float);
    product.rows = At(core.rank_in);
    product.inner = chain_.prefix_rows();
    product.columns = At(core.columns);
    product.run = 8;
    const size_t block = BlockOf(slice_);
    dots_.states = Bytes(states_);
    dots_.count = slice_;
    for (size_t state = 0; state < batch_; state += dots_.num_states) {
      dots_.num_states = batch_ - state < block ? batch_ - state : block;
      for (size_t b = 0; b < dots_.num_states; ++b) {
        product.slice = hidden_ + (state + b) * chain_.columns() * sizeof(float);
        product.out = Bytes(states_ + b * slice_);
        Multiply(product);
      }
      dots_.first_state = state;
      LastCore(begin % At(core.rows), begin, end);
    }
  }

  // Logits of the rows [begin, end), which begin with `digit` of the last core.
  void LastCore(size_t digit, size_t begin, size_t end) {
    const Core& core = table_.cores[table_.num_cores - 1];
    const size_t bytes = slice_ * SizeOf(table_.core_type);
    const unsigned char* stored = core.data + digit * bytes;
    const bool in_place = table_.core_type == EE_FLOAT32;
    const size_t block = in_place ? end - begin : BlockOf(slice_);
    for (size_t first = begin; first < end; first += dots_.num_rows) {
      dots_.num_rows = end - first < block ? end - first : block;
      dots_.first_row = first;
      dots_.rows = stored + (first - begin) * bytes;
      if (!in_place) {
        WidenNumbers(dots_.rows, table_.core_type, dots_.num_rows * slice_, widened_);
        dots_.rows = Bytes(widened_);
      }
      Dot(dots_);
    }
  }

  const Table& table_;
  const size_t batch_;
  const size_t slice_;  // numbers of a row in the last core, R * J_N
  float* const rows_;
  float* const states_;
  float* const widened_;
  Chain chain_;
  Dots dots_;
  const unsigned char* hidden_;
};

inline ee_status LogitsFast(const Table& table, const LogitsInput& input, size_t begin, size_t end,
                            const LogitsOutput& logits, double* scratch, size_t*) {
  LogitsCall call(table, input, logits, scratch);
  if (call.ByPrefixes(begin, end)) {
    call.Prefixes(begin, end);
  } else {
    call.Rows(begin, end);
  }
  return EE_OK;
}

}  // namespace
}  // namespace edge_embed::tt

#endif  // EDGE_EMBED_KERNELS_TT_FAST_LOGITS_H_
