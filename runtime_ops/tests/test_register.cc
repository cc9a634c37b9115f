// Registration of the library with a fake ONNX Runtime. Every caller gets the same operators, even if the
// first registrations come from several threads at once.
//   test_register LIBRARY
#include <dlfcn.h>

#include <atomic>
#include <thread>
#include <vector>

#include "ort/node.h"
#include "tests/check.h"

struct OrtCustomOpDomain {
  std::vector<const OrtCustomOp*> ops;
};
struct OrtSessionOptions {
  OrtCustomOpDomain* domain;
};

namespace edge_embed::testing {
namespace {

constexpr size_t kThreads = 4;
constexpr int kRounds = 1000;  // of a library that was just loaded, so that threads compete

constexpr OrtApi MakeApi() {
  OrtApi api{};
  api.CreateCustomOpDomain = [](const char* name, OrtCustomOpDomain** domain) noexcept -> OrtStatus* {
    CHECK(name == std::string(ort::kDomain));
    *domain = new OrtCustomOpDomain;
    return nullptr;
  };
  api.CustomOpDomain_Add = [](OrtCustomOpDomain* domain, const OrtCustomOp* op) noexcept -> OrtStatus* {
    domain->ops.push_back(op);
    return nullptr;
  };
  api.AddCustomOpDomain = [](OrtSessionOptions* options, OrtCustomOpDomain* domain) noexcept -> OrtStatus* {
    options->domain = domain;
    return nullptr;
  };
  return api;
}
constexpr OrtApi kApi = MakeApi();
constexpr OrtApiBase kBase{
    [](uint32_t version) noexcept { return version == ort::kOrtApiVersion ? &kApi : nullptr; },
    []() noexcept { return "0"; }};

std::vector<const OrtCustomOp*> Register(void* library) {
  using Function = OrtStatus*(OrtSessionOptions*, const OrtApiBase*);
  auto* const function = reinterpret_cast<Function*>(dlsym(library, "RegisterCustomOps"));
  CHECK(function != nullptr);
  OrtSessionOptions options{};
  CHECK(function(&options, &kBase) == nullptr);
  CHECK(options.domain != nullptr);
  const std::vector<const OrtCustomOp*> ops = options.domain->ops;
  delete options.domain;
  return ops;
}

// "DPQTopK(f ? ? ...) -> f l": types of the inputs and outputs; optional ones in brackets.
std::string Describe(const OrtCustomOp& op) {
  const auto letter = [](ONNXTensorElementDataType type) {
    return type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT     ? " f"
           : type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ? " h"
           : type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8    ? " b"
           : type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64   ? " l"
           : type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8   ? " u"
                                                           : " ?";
  };
  CHECK(op.version == ort::kOrtApiVersion);
  CHECK(op.GetExecutionProviderType(&op) == nullptr);
  CHECK(op.GetVariadicInputMinArity(&op) == 0 && op.GetVariadicInputHomogeneity(&op) == 0);
  CHECK(op.GetVariadicOutputMinArity(&op) == 0 && op.GetVariadicOutputHomogeneity(&op) == 0);
  CHECK(op.CreateKernelV2 != nullptr && op.KernelComputeV2 != nullptr && op.KernelDestroy != nullptr);
  std::string text = op.GetName(&op);
  for (size_t i = 0; i < op.GetInputTypeCount(&op); ++i) {
    CHECK(op.GetInputMemoryType(&op, i) == OrtMemTypeDefault);
    const bool optional = op.GetInputCharacteristic(&op, i) == INPUT_OUTPUT_OPTIONAL;
    const auto type = op.GetInputType(&op, i);
    const bool any = type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    text += !optional ? letter(type) : any ? " []" : std::string(" [") + (letter(type) + 1) + "]";
  }
  text += " ->";
  for (size_t i = 0; i < op.GetOutputTypeCount(&op); ++i) {
    CHECK(op.GetOutputCharacteristic(&op, i) == INPUT_OUTPUT_REQUIRED);
    text += letter(op.GetOutputType(&op, i));
  }
  return text;
}

void CheckOps(const std::vector<const OrtCustomOp*>& ops) {
  const char* const expected[] = {
      "DPQEmbedding ? ? f [] -> f",
      "DPQEmbedding ? ? h [] -> h",
      "DPQEmbedding ? ? b [] -> f",
      "DPQEmbeddingBag ? ? ? ? f [] -> f",
      "DPQEmbeddingBag ? ? ? ? h [] -> h",
      "DPQEmbeddingBag ? ? ? ? b [] -> f",
      "DPQLogits f ? ? [] -> f",
      "DPQLogits h ? ? [] -> h",
      "DPQTopK f ? ? ? [] -> f l",
      "DPQTopK h ? ? ? [] -> h l",
      "ANTEmbedding ? ? ? ? ? f -> f",
      "ANTEmbedding ? ? ? ? ? h -> h",
      "ANTEmbeddingBag ? ? ? ? ? ? ? f -> f",
      "ANTEmbeddingBag ? ? ? ? ? ? ? h -> h",
      "ANTLogits f ? ? ? ? ? -> f",
      "ANTLogits h ? ? ? ? ? -> h",
      "ANTTopK f ? ? ? ? ? ? -> f l",
      "ANTTopK h ? ? ? ? ? ? -> h l",
      "TTEmbedding ? f ? [] [] [] [] -> f",
      "TTEmbedding ? h ? [] [] [] [] -> h",
      "TTEmbeddingBag ? ? ? f ? [] [] [] [] -> f",
      "TTEmbeddingBag ? ? ? h ? [] [] [] [] -> h",
      "TTLogits f ? ? [] [] [] [] -> f",
      "TTLogits h ? ? [] [] [] [] -> h",
      "TTTopK f ? ? ? [] [] [] [] -> f l",
      "TTTopK h ? ? ? [] [] [] [] -> h l",
      "DPQScaledEmbedding ? ? f [] [] [] -> f",
      "DPQScaledEmbedding ? ? h [b] [] [] -> h",  // float16 rows: never with int8 scale codes
      "DPQScaledEmbedding ? ? b [] [] [] -> f",
      "DPQScaledEmbedding ? ? h [u] [] [] -> f",  // float16 values and row scales
      "DPQScaledEmbeddingBag ? ? ? ? f [] [] [] -> f",
      "DPQScaledEmbeddingBag ? ? ? ? h [b] [] [] -> h",
      "DPQScaledEmbeddingBag ? ? ? ? b [] [] [] -> f",
      "DPQScaledEmbeddingBag ? ? ? ? h [u] [] [] -> f",
      "DPQScaledLogits f ? ? [] [] [] -> f",
      "DPQScaledLogits h ? ? [] [] [] -> h",
      "DPQScaledTopK f ? ? ? [] [] [] -> f l",
      "DPQScaledTopK h ? ? ? [] [] [] -> h l",
      "TieredEmbedding ? u ? ? ? ? ? ? ? ? ? ? ? ? ? -> f",
      "TieredEmbeddingBag ? ? ? u ? ? ? ? ? ? ? ? ? ? ? ? ? -> f",
      "TieredLogits f ? ? ? ? ? ? ? ? ? ? ? ? ? ? -> f",
      "TieredLogits h ? ? ? ? ? ? ? ? ? ? ? ? ? ? -> h",
      "TieredTopK f ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? -> f l",
      "TieredTopK h ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? -> h l",
      "Sparsemax f -> f",
      "Sparsemax h -> h",
      "Entmax15 f -> f",
      "Entmax15 h -> h",
      "Entmax f ? -> f",
      "Entmax h ? -> h",
      "TopKSparsemax f -> f",
      "TopKSparsemax h -> h",
  };
  size_t i = 0;
  for (const char* line : expected) {
    CHECK(i < ops.size());
    const std::string got = Describe(*ops[i++]);
    Context() = "got " + got + ", expected " + line;
    CHECK(got == line);
  }
  Context() = "got " + std::to_string(ops.size()) + " operators";
  CHECK(i == ops.size());
}

// The first registration creates all operators.
void TestOneRound(const char* path, int round) {
  Context() = "round " + std::to_string(round) + " of " + path;
  CHECK(dlopen(path, RTLD_NOW | RTLD_NOLOAD) == nullptr);  // nothing is left of the previous round
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  CHECK(library != nullptr);
  std::atomic<size_t> waiting{kThreads};
  std::vector<const OrtCustomOp*> ops[kThreads];
  std::vector<std::thread> threads;
  for (auto& mine : ops) {
    threads.emplace_back([&] {
      --waiting;
      while (waiting != 0) std::this_thread::yield();
      mine = Register(library);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CheckOps(ops[0]);
  Context() = "threads or registrations have different operators";
  for (const auto& others : ops) CHECK(others == ops[0]);
  CHECK(Register(library) == ops[0]);
  CHECK(dlclose(library) == 0);
}

}  // namespace
}  // namespace edge_embed::testing

int main(int count, char** arguments) {
  if (count != 2) return 2;
  for (int round = 0; round < edge_embed::testing::kRounds; ++round) {
    edge_embed::testing::TestOneRound(arguments[1], round);
  }
  return 0;
}
