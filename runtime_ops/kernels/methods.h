// The only list of methods in C++. A method has a folder kernels/<method>/, the files ort/<method>.cc and
// tflite/<method>.cc, and a struct of the C interface. Tables, kernels, operators and functions of all
// methods are generated from this list.
#ifndef EDGE_EMBED_KERNELS_METHODS_H_
#define EDGE_EMBED_KERNELS_METHODS_H_

#include "kernels/ant/ant.h"
#include "kernels/dpq/dpq.h"
#include "kernels/dpq_scaled/dpq_scaled.h"
#include "kernels/tiered/tiered.h"
#include "kernels/tt/tt.h"

// X(name of the namespace and of the files, name in EE_<NAME>) for each method. cmake/Methods.cmake defines a
// shorter list for a build with fewer methods.
#ifndef EDGE_EMBED_METHODS
#define EDGE_EMBED_METHODS(X) X(dpq, DPQ) X(ant, ANT) X(tt, TT) X(dpq_scaled, DPQ_SCALED) X(tiered, TIERED)
#endif

#endif  // EDGE_EMBED_KERNELS_METHODS_H_
