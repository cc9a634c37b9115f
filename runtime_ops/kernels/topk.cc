#include "kernels/topk.h"

namespace edge_embed {
namespace {

// Inserts `candidate` into a heap whose root is free. Other threads may read the root meanwhile.
void SiftDown(Candidate candidate, Candidate* heap, size_t count) {
  size_t at = 0;
  for (size_t child = 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count && heap[child + 1] < heap[child]) ++child;
    if (candidate <= heap[child]) break;
    __atomic_store_n(heap + at, heap[child], __ATOMIC_RELAXED);
    at = child;
  }
  __atomic_store_n(heap + at, candidate, __ATOMIC_RELAXED);
}

}  // namespace

void Best::Offer(const float* logits, size_t count, size_t first) const {
  while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) != 0) {
  }
  for (size_t i = 0; i < count; ++i) {
    if (logits[i] <= Threshold()) continue;
    const Candidate candidate = MakeCandidate(logits[i], first + i);
    if (candidate > heap[0]) SiftDown(candidate, heap, k);
  }
  __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

void Sort(Candidate* heap, size_t k) {
  for (size_t count = k; count > 1; --count) {
    const Candidate least = heap[0];
    SiftDown(heap[count - 1], heap, count - 1);
    heap[count - 1] = least;
  }
}

void FinishLogits(const TopKInput& input, const void* logits, size_t first, size_t count, float* finished) {
  WidenToFloat(logits, input.type, count, finished);
  for (size_t i = 0; input.bias != nullptr && i < count; ++i) {
    if (input.type == EE_FLOAT32) {
      finished[i] += Load<float>(input.bias, first + i);
    } else {
      const float sum = finished[i] + ToFloat(Load<Half>(input.bias, first + i));
      finished[i] = ToFloat(ToHalf(static_cast<double>(sum)));
    }
  }
}

template <class Table>
ee_status TopK<Table>::Scan(const Table& table, const TopKInput& input, size_t begin, size_t end,
                            double* scratch, size_t* bad_position) const {
  const size_t batch = input.logits.batch;
  const size_t rows = batch < kBlockLogits ? kBlockLogits / batch : 1;
  float* const finished = reinterpret_cast<float*>(scratch + kBlockDoubles);
  const bool as_they_are = input.type == EE_FLOAT32 && input.bias == nullptr;
  for (size_t first = begin; first < end; first += rows) {
    const size_t count = end - first < rows ? end - first : rows;
    const LogitsOutput logits{{scratch, input.type}, rows, first};
    const ee_status status = kernels_.logits.run(table, input.logits, first, first + count, logits,
                                                 scratch + 2 * kBlockDoubles, bad_position);
    if (status != EE_OK) return status;
    for (size_t b = 0; b < batch; ++b) {
      const char* of_state = reinterpret_cast<const char*>(scratch) + b * rows * SizeOf(input.type);
      if (!as_they_are) FinishLogits(input, of_state, first, count, finished);
      const float* from = as_they_are ? reinterpret_cast<const float*>(of_state) : finished;
      variant_.offer_all(from, count, first, input.BestOf(b));
    }
  }
  return EE_OK;
}

#define EDGE_EMBED_TOPK(method, NAME) template class TopK<method::Table>;
EDGE_EMBED_METHODS(EDGE_EMBED_TOPK)
#undef EDGE_EMBED_TOPK

}  // namespace edge_embed
