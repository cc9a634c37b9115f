// The external delegate: the functions that a runtime of TFLite looks up (`load_delegate` in Python).
#include <string.h>

#include "kernels/export.h"
#include "tflite/graph.h"

#define EE_TFLITE_EXPORT extern "C" EE_API

namespace edge_embed::tflite {
namespace {

Use& UseOf(const Node* node) { return *static_cast<Use*>(node->user_data); }

// The delegate passes the use to its kernel. Only one thread at a time applies a delegate.
void* Init(Context*, const char* buffer, size_t) {
  Delegate& delegate = *reinterpret_cast<const DelegateParams*>(buffer)->delegate;
  void* const use = delegate.data;
  delegate.data = nullptr;
  return use;
}

Registration MakeRegistration() {
  Registration registration{};
  registration.init = Init;
  registration.free = [](Context*, void* use) { FreeUse(static_cast<Use*>(use)); };
  registration.prepare = [](Context* context, Node* node) {
    Use& use = UseOf(node);
    return use.kind->prepare(context, &use);
  };
  registration.invoke = [](Context* context, Node* node) {
    Use& use = UseOf(node);
    return use.kind->run(context, &use);
  };
  registration.custom_name = "edge_embed";
  registration.version = 1;
  return registration;
}

Status Replace(Context* context, Delegate* delegate, Text line) {
  Status status;
  Use* const use = MakeUse(context, line, &status);
  if (use == nullptr) return status;
  IntArray* const nodes = FindNodes(context, *use, &status);
  if (nodes == nullptr) {
    FreeUse(use);
    return status;
  }
  delegate->data = use;
  status = context->ReplaceNodeSubsetsWithDelegateKernels(context, MakeRegistration(), nodes, delegate);
  FreeUse(static_cast<Use*>(delegate->data));  // null after the kernel has taken it
  delegate->data = nullptr;
  free(nodes);
  return status;
}

// A model without a manifest stays as it is.
Status Prepare(Context* context, Delegate* delegate) {
  Text manifest{};
  if (context->GetModelMetadata(context, kMetadataName, &manifest.data, &manifest.size) != kOk) return kOk;
  if (!TakeHeader(&manifest)) {
    context->ReportError(
        context,
        "edge_embed: got a manifest of a version other than 1, expected that of this library (%s): "
        "export the model again with this version, or run it without the delegate",
        ee_version());
    return kError;
  }
  Text line;
  while (TakeLine(&manifest, &line)) {
    const Status status = Replace(context, delegate, line);
    if (status != kOk) return status;
  }
  return kOk;
}

}  // namespace
}  // namespace edge_embed::tflite

// Returns null, with a report, if the delegate cannot be created. It has no options.
EE_TFLITE_EXPORT edge_embed::tflite::Delegate* tflite_plugin_create_delegate(const char* const*,
                                                                             const char* const*,
                                                                             size_t options,
                                                                             void (*report)(const char*)) {
  using edge_embed::tflite::Delegate;
  const char* refusal = nullptr;
  if (options > 0) refusal = "edge_embed: got options of the delegate, expected none: leave them out";
  // The structs of the C ABI may differ between versions.
  if (strcmp(ee_version(), EDGE_EMBED_VERSION) != 0) {
    refusal =
        "edge_embed: got an operator library of another version, expected that of the delegate "
        "(" EDGE_EMBED_VERSION "): install both together";
  }
  auto* const delegate = refusal == nullptr ? static_cast<Delegate*>(calloc(1, sizeof(Delegate))) : nullptr;
  if (refusal != nullptr && report != nullptr) report(refusal);
  if (delegate == nullptr) return nullptr;
  delegate->Prepare = edge_embed::tflite::Prepare;
  delegate->flags = edge_embed::tflite::kAllowDynamicTensors;
  return delegate;
}

EE_TFLITE_EXPORT void tflite_plugin_destroy_delegate(edge_embed::tflite::Delegate* delegate) {
  free(delegate);
}
