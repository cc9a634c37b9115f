// Entry points that ONNX Runtime calls when session options register the library.
#include <onnxruntime_c_api.h>

#include "kernels/export.h"
#include "ort/entmax.h"
#include "ort/message.h"
#include "ort/methods.h"
#include "ort/node.h"

#define EE_ORT_EXPORT extern "C" EE_API

namespace edge_embed::ort {
namespace {

#define EDGE_EMBED_OPS(method, NAME) k##NAME##Ops,
constexpr const OpSpec* kMethods[] = {EDGE_EMBED_METHODS(EDGE_EMBED_OPS)};
#undef EDGE_EMBED_OPS

// They live as long as the library. The first registration creates them: as constants, each of their pointers
// would need a relocation, over half a kilobyte for each operator.
Op ops[(CountOf(kMethods) * kNumUses + kNumEntmaxOps) * CountOf(kDecidingTypes)];
size_t num_ops = 0;
unsigned char ops_lock = 0;  // 1 while a thread creates them or checks that they exist

void MakeOps(const OpSpec& spec) {
  const TypeSet types = spec.Input(spec.deciding_input).types;
  for (const ee_type type : kDecidingTypes) {
    if ((types & Only(type)) != 0) ops[num_ops++] = MakeOp(spec, type, false);
  }
  if (spec.scale_input != kNoFloatInput) ops[num_ops++] = MakeOp(spec, EE_FLOAT16, true);
}

// Several threads may register at the same time.
void MakeOpsOnce() {
  while (__atomic_exchange_n(&ops_lock, 1, __ATOMIC_ACQUIRE) != 0) {
  }
  if (num_ops == 0) {
    for (const OpSpec* method : kMethods) {
      for (size_t use = 0; use < kNumUses; ++use) MakeOps(method[use]);
    }
#ifdef EDGE_EMBED_ENTMAX
    for (const OpSpec& spec : kEntmaxOps) MakeOps(spec);
#endif
  }
  __atomic_store_n(&ops_lock, 0, __ATOMIC_RELEASE);
}

OrtStatus* FailOldRuntime(const OrtApiBase& base) {
  const OrtApi* oldest = base.GetApi(1);
  if (oldest == nullptr) return nullptr;  // without an API, no status can be created
  Message message;
  message << "edge_embed: got ONNX Runtime " << base.GetVersionString()
          << ", expected 1.17 or newer: upgrade onnxruntime, or run the model without this library";
  return oldest->CreateStatus(ORT_FAIL, message.text());
}

OrtStatus* AddOps(const OrtApi& api, OrtCustomOpDomain* domain) {
  MakeOpsOnce();
  for (size_t i = 0; i < num_ops; ++i) {
    if (OrtStatus* status = api.CustomOpDomain_Add(domain, &ops[i])) return status;
  }
  return nullptr;
}

// The options keep a pointer to the domain as long as they and their sessions live, and do not report their
// end. A registered domain (a few hundred bytes for each SessionOptions) is therefore never released.
OrtStatus* Register(OrtSessionOptions* options, const OrtApiBase* base) {
  const OrtApi* api = base->GetApi(kOrtApiVersion);
  if (api == nullptr) return FailOldRuntime(*base);
  OrtCustomOpDomain* domain = nullptr;
  if (OrtStatus* status = api->CreateCustomOpDomain(kDomain, &domain)) return status;
  OrtStatus* status = AddOps(*api, domain);
  if (status == nullptr) status = api->AddCustomOpDomain(options, domain);
  if (status != nullptr) api->ReleaseCustomOpDomain(domain);
  return status;
}

}  // namespace
}  // namespace edge_embed::ort

// The name that ONNX Runtime looks up in a library given by path.
EE_ORT_EXPORT OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  return edge_embed::ort::Register(options, base);
}

// The same function under another name, for apps that link it statically beside other operator libraries.
EE_ORT_EXPORT OrtStatus* ORT_API_CALL RegisterEdgeEmbedOps(OrtSessionOptions* options,
                                                           const OrtApiBase* base) {
  return edge_embed::ort::Register(options, base);
}
