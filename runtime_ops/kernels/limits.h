// How large numbers of a table may be. Plain C, because the C ABI (c_api/edge_embed.h) hands them to its
// callers; edge_embed/packed/ of the Python package has the same.
#ifndef EDGE_EMBED_KERNELS_LIMITS_H_
#define EDGE_EMBED_KERNELS_LIMITS_H_

#define EE_MIN_CODES 2
#define EE_MAX_CODES 65536
#define EE_MIN_CORES 2
#define EE_MAX_CORES 6
#define EE_MAX_K 1000

#endif  // EDGE_EMBED_KERNELS_LIMITS_H_
