/* The operator library of edge-embed: C interface, and registration in ONNX Runtime. */
#ifndef EDGE_EMBED_OPS_H_
#define EDGE_EMBED_OPS_H_

#include "c_api/edge_embed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Types of onnxruntime_c_api.h. */
struct OrtApiBase;
struct OrtSessionOptions;
struct OrtStatus;

/* Adds the operators to session options; `base` is the result of OrtGetApiBase(). Returns null on success.
 * An app that links the library statically calls this function before it creates a session. A shared library
 * can also be registered by its path (RegisterCustomOpsLibrary of ONNX Runtime). */
EE_API struct OrtStatus* RegisterEdgeEmbedOps(struct OrtSessionOptions* options,
                                              const struct OrtApiBase* base);

#ifdef __cplusplus
}
#endif

#endif /* EDGE_EMBED_OPS_H_ */
