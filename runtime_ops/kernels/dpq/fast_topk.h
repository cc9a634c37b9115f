// The k largest logits of tables with four-bit codes, found by sums of bytes that no logit is above:
//
//   logits[i] <= upper[i] = scale * sum over j of q[j][code_j(i)] + rest
//   q[j][k] = round((product[j][k] - least[j]) / scale),    scale = max over j, k of (product - least) / 255
//   rest    = sum over j of least[j] + max over k of (product[j][k] - least[j] - scale * q[j][k])
//
// Only where that is above the least of the best so far are the logits of sixteen rows computed as logits are
// (fast_permute.h). What is found are therefore the k largest of exactly these, however close they lie: near
// ones cost time, and nothing else. What follows a logit, rounding and bias, keeps the order, so it is
// applied to the bound as it is to the logit.
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_TOPK_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_TOPK_H_

#include "kernels/dpq/fast_permute.h"
#include "kernels/topk.h"

namespace edge_embed::dpq {
namespace {

#if defined(__AVX512VBMI__) && defined(__AVX512VNNI__)

// States that share the reading of codes: their tables are to fit the first cache, their sums the registers.
constexpr size_t kScannedStates = 8;
constexpr size_t kCodesOfGroup = size_t{1} << kPermutedBits;
constexpr size_t kWordProducts = kCodesAtOnce * kCodesOfGroup;

struct Bound {
  float scale, rest;
};

// For every state its bytes, as many as it has products, then for every state its bound.
inline size_t BytesOfState(const Table& table) { return static_cast<size_t>(Products(table).saturated()); }

inline Size ScanPrepared(const Table& table, size_t batch) {
  const Size bytes = (Products(table) + sizeof(Bound)) * batch;
  return bytes.fits() ? PartsDoubles(table, batch) + bytes.saturated() / sizeof(double) + kAlignment : bytes;
}

// Where the bytes are: behind what is prepared for logits.
template <class Double>
auto* ScanMemory(const Table& table, size_t batch, Double* prepared) {
  return AlignedFloats(prepared + PartsDoubles(table, batch).saturated());
}

struct Span {
  double least, most;
};

inline Span SpanOf(const float* products) {
  Span span{static_cast<double>(products[0]), static_cast<double>(products[0])};
  for (size_t k = 1; k < kCodesOfGroup; ++k) {
    const double product = static_cast<double>(products[k]);
    if (product < span.least) span.least = product;
    if (product > span.most) span.most = product;
  }
  return span;
}

// The bytes of a word's eight groups lie as its nibbles do: the low ones of its four bytes, then the high
// ones.
inline size_t ByteAt(size_t group) {
  const size_t in_word = group % kCodesAtOnce;
  return group / kCodesAtOnce * kWordProducts + (in_word % 2 * 4 + in_word / 2) * kCodesOfGroup;
}

// The bytes of a state, and its bound. Where a product is not finite the bound is not a number, which every
// row passes.
__attribute__((noinline)) Bound MakeBytes(const float* products, size_t groups, unsigned char* bytes) {
  double widest = 0, magnitudes = 0;
  bool finite = true;
  for (size_t j = 0; j < groups; ++j) {
    const Span span = SpanOf(products + j * kCodesOfGroup);
    const double width = span.most - span.least;
    const double magnitude = -span.least > span.most ? -span.least : span.most;
    finite &= width < 3e38 && magnitude < 3e38;  // false for what is not a number
    if (width > widest) widest = width;
    magnitudes += magnitude > 0 ? magnitude : 0;
  }
  if (!finite) return {0, FloatOfBits(0x7FC00000)};
  const float scale = widest > 0 ? static_cast<float>(widest / 255) : 1.0F;
  const double inverse = 1 / (scale > 0 ? static_cast<double>(scale) : 1.0);
  double rest = 0;
  for (size_t j = 0; j < groups; ++j) {
    const float* const of_group = products + j * kCodesOfGroup;
    unsigned char* const to = bytes + ByteAt(j);
    const double least = SpanOf(of_group).least;
    double error = 0;
    for (size_t k = 0; k < kCodesOfGroup; ++k) {
      const double above = static_cast<double>(of_group[k]) - least;
      const int nearest = static_cast<int>(above * inverse + 0.5);
      const int quantized = nearest < 255 ? nearest : 255;
      to[k] = static_cast<unsigned char>(quantized);
      const double left = above - static_cast<double>(scale) * quantized;
      if (left > error) error = left;
    }
    rest += least + error;
  }
  // The sum of products is rounded at most once for each of them, and the bound a few times.
  constexpr double kUnit = 1.1920928955078125e-07;
  rest += magnitudes * static_cast<double>(groups + 8) * kUnit + 1e-37;
  return {scale, static_cast<float>(rest)};
}

inline void PrepareScan(const Table& table, const float* hidden, size_t batch, double* prepared) {
  PreparePermuted(table, hidden, batch, prepared);
  const Parts parts(table, batch);
  const float* const products = AlignedFloats(prepared);
  auto* const bytes = reinterpret_cast<unsigned char*>(ScanMemory(table, batch, prepared));
  const size_t of_state = BytesOfState(table);
  for (size_t b = 0; b < batch; ++b) {
    unsigned char* const to = bytes + b * of_state;
    __builtin_memset(to, 0, of_state);
    const Bound bound = MakeBytes(products + b * parts.of_table, static_cast<size_t>(table.num_groups), to);
    Store(bound, bytes + batch * of_state, b);
  }
}

// One scan of rows for several states.
class Scan {
 public:
  Scan(const Table& table, const TopKInput& input)
      : layout_(table),
        input_(input),
        as_they_are_(input.bias == nullptr && input.type == EE_FLOAT32),
        padding_idx_(table.padding_idx),
        of_table_(Parts(table, input.head.batch).of_table),
        products_(AlignedFloats(input.head.prepared)),
        of_padding_(products_ + Parts(table, input.head.batch).padding),
        of_state_(BytesOfState(table)),
        bytes_(reinterpret_cast<const unsigned char*>(
            ScanMemory(table, input.head.batch, input.head.prepared))) {}

  // The states state .. state+kCount-1.
  template <size_t kCount>
  __attribute__((noinline)) void Rows(size_t state, size_t begin, size_t end) {
    Floats scales[kCount], rests[kCount], thresholds[kCount];
    for (size_t s = 0; s < kCount; ++s) {
      const Bound bound = Load<Bound>(bytes_ + input_.head.batch * of_state_, state + s);
      scales[s] = Broadcast(bound.scale);
      rests[s] = Broadcast(bound.rest);
      thresholds[s] = Broadcast(input_.BestOf(state + s).Threshold());
    }
    const bool as_they_are = as_they_are_;
    for (size_t first = begin; first < end; first += kLanes) {
      const size_t rows = end - first < kLanes ? end - first : kLanes;
      // The codes of the padding row say nothing of its logit.
      const unsigned has_padding = static_cast<uint64_t>(padding_idx_) - first < rows ? 1 : 0;
      Words sums[kCount] = {};
      AddBytes<kCount>(first, rows, bytes_ + state * of_state_, sums);
      for (size_t s = 0; s < kCount; ++s) {
        Floats upper = __builtin_convertvector(sums[s], Floats) * scales[s] + rests[s];
        if (!as_they_are) upper = Finish(upper, first, rows);
        if ((Above(upper, thresholds[s]) | has_padding) != 0)
          thresholds[s] = Broadcast(OfferRows(state + s, first, rows));
      }
    }
  }

 private:
  static unsigned Above(Floats upper, Floats threshold) {
    return _mm512_cmp_ps_mask((__m512)upper, (__m512)threshold, _CMP_NLE_UQ);
  }

  // An index of bytes is a nibble and which of four it is.
  template <size_t kCount>
  __attribute__((always_inline)) void AddBytes(size_t first, size_t rows, const unsigned char* bytes,
                                               Words (&sums)[kCount]) const {
    constexpr uint32_t kNibbles = 0x0F0F0F0F, kWhich = 0x30201000;
    const unsigned char* const codes = layout_.codes + first * layout_.row_bytes;
    PrefetchAhead(codes, kLanes * layout_.row_bytes);
    Words others[kCount] = {};
    ForWords<kCount == 1>(layout_, codes, rows, [&](Words word) __attribute__((always_inline)) {
      const Words low = (word & kNibbles) | kWhich, high = (word >> kPermutedBits & kNibbles) | kWhich;
      for (size_t s = 0; s < kCount; ++s) {
        const unsigned char* const of_state = bytes + s * of_state_;
        AddFour(low, of_state, &sums[s]);
        AddFour(high, of_state + 4 * kCodesOfGroup, &others[s]);
      }
      bytes += kWordProducts;
    });
    for (size_t s = 0; s < kCount; ++s) sums[s] += others[s];
  }

  static __attribute__((always_inline)) inline void AddFour(Words index, const unsigned char* bytes,
                                                            Words* sums) {
    const __m512i found =
        _mm512_maskz_permutexvar_epi8(~uint64_t{0}, (__m512i)index, (__m512i)LoadFloats(bytes));
    *sums = (Words)_mm512_maskz_dpbusd_epi32(0xFFFF, (__m512i)*sums, found, _mm512_set1_epi8(1));
  }

  // What follows a logit.
  __attribute__((noinline)) Floats Finish(Floats logits, size_t first, size_t rows) const {
    unsigned char as_type[sizeof(Floats)];
    if (input_.type == EE_FLOAT16) {
      StoreHalves(logits, as_type);
    } else {
      StoreFloats(logits, as_type);
    }
    float finished[kLanes] = {};
    FinishLogits(input_, as_type, first, rows, finished);
    return LoadFloats(finished);
  }

  // Offers the logits of some rows to one state, and gives its threshold then.
  __attribute__((noinline)) float OfferRows(size_t state, size_t first, size_t rows) {
    const float* const products[1] = {products_ + state * of_table_};
    Floats sums[1] = {};
    AddPermuted<1>(layout_, layout_.codes + first * layout_.row_bytes, rows, products, sums);
    const uint64_t padding = static_cast<uint64_t>(padding_idx_) - first;
    if (padding < rows) sums[0][padding] = of_padding_[state];
    float logits[kLanes];
    StoreFloats(as_they_are_ ? sums[0] : Finish(sums[0], first, rows), logits);
    const Best best = input_.BestOf(state);
    best.Offer(logits, rows, first);
    return best.Threshold();
  }

  const Layout layout_;
  const TopKInput& input_;
  const bool as_they_are_;
  const int64_t padding_idx_;
  const size_t of_table_;
  const float* const products_;
  const float* const of_padding_;
  const size_t of_state_;
  const unsigned char* const bytes_;
};

inline void ScanRows(const Table& table, const TopKInput& input, size_t begin, size_t end) {
  Scan scan(table, input);
  const size_t batch = input.head.batch;
  size_t state = 0;
  for (; state + kScannedStates <= batch; state += kScannedStates) {
    scan.Rows<kScannedStates>(state, begin, end);
  }
  for (; state < batch; ++state) scan.Rows<1>(state, begin, end);
}

constexpr TopKKernel<Table> kTopK{Permutes, PrepareScan, ScanPrepared, ScanRows};

#endif

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_TOPK_H_
