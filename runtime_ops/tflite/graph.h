// Which operators of a model a use stands for.
#ifndef EDGE_EMBED_TFLITE_GRAPH_H_
#define EDGE_EMBED_TFLITE_GRAPH_H_

#include "tflite/use.h"

namespace edge_embed::tflite {

// Those between the inputs and the outputs of the use that nothing else needs, for the runtime to replace, in
// an array to be freed with `free`. Null where the use cannot be put in their place: *status says whether
// that is an error, which is then reported, or the operators are to stay.
IntArray* FindNodes(Context* context, const Use& use, Status* status);

}  // namespace edge_embed::tflite

#endif  // EDGE_EMBED_TFLITE_GRAPH_H_
