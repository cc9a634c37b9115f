// The operators of a model that a use replaces.
#ifndef EDGE_EMBED_TFLITE_GRAPH_H_
#define EDGE_EMBED_TFLITE_GRAPH_H_

#include "tflite/use.h"

namespace edge_embed::tflite {

// Returns the operators between the inputs and the outputs of the use that nothing else needs. The runtime
// replaces them; free the array with `free`. The result is null if the use cannot be in their place. *status
// then is an error, which is reported, or states that the operators stay.
IntArray* FindNodes(Context* context, const Use& use, Status* status);

}  // namespace edge_embed::tflite

#endif  // EDGE_EMBED_TFLITE_GRAPH_H_
