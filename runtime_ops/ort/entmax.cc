// The ONNX operators of sparse activations, version 1.
//
//     Sparsemax (scores), Entmax15 (scores), Entmax (scores, alpha), TopKSparsemax (scores)  -> probabilities
//
// scores are float32 or float16 [*, n], and probabilities have their shape and type. alpha is float32 and
// broadcasts to [*, 1]. Attributes: format_version, and k of TopKSparsemax, from 1 to n. A bad alpha makes
// its rows NaN.
#include "ort/entmax.h"

#include "kernels/element.h"
#include "kernels/entmax/alpha.h"
#include "kernels/entmax/kernels.h"
#include "ort/parallel.h"

namespace edge_embed::ort {
namespace {

constexpr InputSpec kScores[] = {{"scores", kFloats}, {"alpha", Only(EE_FLOAT32)}};
// Work of a number, in multiplications: most of it is powers if alpha is free.
constexpr uint64_t kExactWork = 4, kPowerWork = 64;

struct EntmaxKernel : KernelBase {
  int64_t k;    // 0: all scores
  float alpha;  // 0: an input
};

OrtStatus* Fill(const OrtKernelInfo* info, const KernelBase& base, void* memory, float alpha, bool has_k) {
  auto* kernel = static_cast<EntmaxKernel*>(memory);
  *kernel = EntmaxKernel{};
  static_cast<KernelBase&>(*kernel) = base;
  kernel->alpha = alpha;
  if (!has_k) return nullptr;
  if (OrtStatus* status = ReadInt(kernel->node, info, "k", &kernel->k)) return status;
  if (kernel->k >= 1) return nullptr;
  Message message = Begin(kernel->node);
  message << "got k=" << kernel->k << ", expected at least 1" << kDamaged;
  return Fail(kernel->node, message);
}

OrtStatus* FillSparsemax(const OrtKernelInfo* info, const KernelBase& base, void* memory) {
  return Fill(info, base, memory, 2, false);
}
OrtStatus* FillEntmax15(const OrtKernelInfo* info, const KernelBase& base, void* memory) {
  return Fill(info, base, memory, 1.5F, false);
}
OrtStatus* FillEntmax(const OrtKernelInfo* info, const KernelBase& base, void* memory) {
  return Fill(info, base, memory, 0, false);
}
OrtStatus* FillTopKSparsemax(const OrtKernelInfo* info, const KernelBase& base, void* memory) {
  return Fill(info, base, memory, 2, true);
}

OrtStatus* CheckScores(const EntmaxKernel& kernel, const Tensor& scores) {
  if (scores.rank > 0 && kernel.k <= scores.dims[scores.rank - 1]) return nullptr;
  Message message = Begin(kernel.node);
  message << "got scores of shape " << scores << ", expected ";
  if (scores.rank == 0) {
    message << "at least one dimension: reshape them";
  } else {
    message << "at least k=" << kernel.k
            << " in the last dimension: give longer rows, or export with a lower k";
  }
  return Fail(kernel.node, message);
}

OrtStatus* ReadAlpha(const EntmaxKernel& kernel, const OrtKernelContext* context, const Tensor& scores,
                     size_t rows, Buffer* buffer, ee_score_rows* of) {
  Tensor alpha{};
  if (OrtStatus* status = ReadInput(kernel.node, context, 1, kScores[1].name, &alpha)) return status;
  const entmax::Shape shape{alpha.dims, alpha.rank}, of_scores{scores.dims, scores.rank};
  if (!entmax::IsOfRows(shape, of_scores)) {
    Message message = Begin(kernel.node);
    message << "got alpha of shape " << alpha << " and scores of shape " << scores
            << ", expected an alpha that broadcasts to the scores, with 1 as the last dimension: reshape it";
    return Fail(kernel.node, message);
  }
  if (rows == 0) return nullptr;
  of->alpha_per_row = alpha.count == 1 ? 0 : 1;
  const size_t count = alpha.count == 1 ? 1 : rows;
  if (OrtStatus* status = buffer->Allocate(kernel.node, Size(count), sizeof(float))) return status;
  auto* alphas = static_cast<float*>(buffer->data());
  entmax::AlphaOfRows(alpha.data, shape, of_scores, count, alphas);
  of->alphas = alphas;
  return nullptr;
}

void RunSome(const EntmaxKernel& kernel, const ee_score_rows& of, size_t begin, size_t end, float* out) {
  const entmax::Kernels& kernels = entmax::ChosenKernels();
  if (kernel.k > 0) return kernels.topk(&of, static_cast<size_t>(kernel.k), begin, end, out);
  kernels.forward(&of, begin, end, out);
}

// float16: a row at a time, in scratch of 2 n floats.
void RunHalfRows(const EntmaxKernel& kernel, const ee_score_rows& of, const void* scores, size_t begin,
                 size_t end, double* scratch, void* out) {
  auto* wide = reinterpret_cast<float*>(scratch);
  float* result = wide + of.n;
  for (size_t row = begin; row < end; ++row) {
    const auto* from = static_cast<const unsigned char*>(scores) + row * of.n * sizeof(Half);
    WidenToFloat(from, EE_FLOAT16, of.n, wide);
    const ee_score_rows one{wide, of.alphas + (of.alpha_per_row != 0 ? row : 0), of.n, 0};
    RunSome(kernel, one, 0, 1, result);
    for (size_t i = 0; i < of.n; ++i) {
      const double number = double{result[i]};
      Narrow(&number, 1, out, EE_FLOAT16, row * of.n + i);
    }
  }
}

OrtStatus* ComputeEntmax(void* data, OrtKernelContext* context) {
  const auto& kernel = *static_cast<const EntmaxKernel*>(static_cast<const KernelBase*>(data));
  Tensor scores{};
  if (OrtStatus* status = ReadInput(kernel.node, context, 0, kScores[0].name, &scores)) return status;
  if (OrtStatus* status = CheckScores(kernel, scores)) return status;
  const size_t n = static_cast<size_t>(scores.dims[scores.rank - 1]), rows = n == 0 ? 0 : scores.count / n;
  ee_score_rows of{static_cast<const float*>(scores.data), &kernel.alpha, n, 0};
  Buffer alphas(*kernel.node.api);
  if (kernel.alpha == 0) {
    if (OrtStatus* status = ReadAlpha(kernel, context, scores, rows, &alphas, &of)) return status;
  }
  Output out{};
  if (OrtStatus* status = MakeOutput(kernel.node, context, 0, scores.dims, scores.rank, kernel.type, &out)) {
    return status;
  }
  if (rows == 0) return nullptr;

  const Size row_work = Size(n) * (kernel.alpha == 0 ? kPowerWork : kExactWork);
  const bool is_half = kernel.type == EE_FLOAT16;
  const auto work = [&](size_t begin, size_t end, double* scratch) {
    if (is_half) return RunHalfRows(kernel, of, scores.data, begin, end, scratch, out.data);
    RunSome(kernel, of, begin, end, static_cast<float*>(out.data));
  };
  return ForRows(kernel.node, context, rows, row_work.saturated(), Size(is_half ? n : 0), work);
}

constexpr OpSpec Spec(const char* name, size_t inputs,
                      OrtStatus* (*fill)(const OrtKernelInfo*, const KernelBase&, void*)) {
  return {name, kScores, nullptr, inputs, 0, 0, 1, 0, sizeof(EntmaxKernel), fill, ComputeEntmax};
}

}  // namespace

constexpr OpSpec kEntmaxOps[kNumEntmaxOps] = {
    Spec("Sparsemax", 1, FillSparsemax), Spec("Entmax15", 1, FillEntmax15), Spec("Entmax", 2, FillEntmax),
    Spec("TopKSparsemax", 1, FillTopKSparsemax)};

}  // namespace edge_embed::ort
