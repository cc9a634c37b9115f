// The methods: the one list of them in C++. A method is a folder kernels/<method>/, ort/<method>.cc,
// tflite/<method>.cc and a struct of the C ABI; tables, kernels, operators and functions of all methods are
// looked up by this list.
#ifndef EDGE_EMBED_KERNELS_METHODS_H_
#define EDGE_EMBED_KERNELS_METHODS_H_

#include "kernels/ant/ant.h"
#include "kernels/dpq/dpq.h"
#include "kernels/tt/tt.h"

// X(name of the namespace and of files, name in EE_<NAME>) of each. A build may have fewer, which
// cmake/Methods.cmake then defines.
#ifndef EDGE_EMBED_METHODS
#define EDGE_EMBED_METHODS(X) X(dpq, DPQ) X(ant, ANT) X(tt, TT)
#endif

#endif  // EDGE_EMBED_KERNELS_METHODS_H_
