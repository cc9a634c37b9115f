/* The TFLite delegate of edge-embed. */
#ifndef EDGE_EMBED_TFLITE_H_
#define EDGE_EMBED_TFLITE_H_

#include <stddef.h>

#include "kernels/export.h"

#ifdef __cplusplus
extern "C" {
#endif

struct TfLiteDelegate; /* of tensorflow/lite/c/common.h */

/* Returns a delegate for TfLiteInterpreterOptionsAddDelegate, or null after a call of `report`. It has no
 * options: pass null, null and 0. `report` may be null. Destroy it after the interpreter. */
EE_API struct TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys,
                                                            const char* const* values, size_t options,
                                                            void (*report)(const char*));
EE_API void tflite_plugin_destroy_delegate(struct TfLiteDelegate* delegate);

#ifdef __cplusplus
}
#endif

#endif /* EDGE_EMBED_TFLITE_H_ */
