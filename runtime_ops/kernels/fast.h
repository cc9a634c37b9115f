// The fast kernels of all methods, for a file of kernels/isa/.
#ifndef EDGE_EMBED_KERNELS_FAST_H_
#define EDGE_EMBED_KERNELS_FAST_H_

#include "kernels/ant/fast.h"
#include "kernels/dpq/fast.h"
#include "kernels/dpq_scaled/fast.h"
#include "kernels/fast_offer.h"
#include "kernels/tiered/fast.h"
#include "kernels/tt/fast.h"

#endif  // EDGE_EMBED_KERNELS_FAST_H_
