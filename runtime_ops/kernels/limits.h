// Limits of the sizes of a table. Plain C, because they are part of the C interface (c_api/edge_embed.h).
// edge_embed/packed/ of the Python package has the same limits.
#ifndef EDGE_EMBED_KERNELS_LIMITS_H_
#define EDGE_EMBED_KERNELS_LIMITS_H_

#define EE_MIN_CODES 2
#define EE_MAX_CODES 65536
#define EE_MIN_CORES 2
#define EE_MAX_CORES 6
#define EE_MAX_K 1000
#define EE_MAX_ROW_SCALES 256
#define EE_NUM_TIERS 3

#endif  // EDGE_EMBED_KERNELS_LIMITS_H_
