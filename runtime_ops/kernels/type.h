// The only enum of element types. Plain C, because it is part of the C interface (c_api/edge_embed.h).
#ifndef EDGE_EMBED_KERNELS_TYPE_H_
#define EDGE_EMBED_KERNELS_TYPE_H_

// Values are part of the C interface: append, never renumber. 0 is the value of a zeroed struct.
typedef enum ee_type {
  EE_FLOAT32 = 0,
  EE_FLOAT16 = 1,
  EE_INT8 = 2,
  EE_UINT8 = 3,
  EE_UINT16 = 4,
  EE_UINT32 = 5,
  EE_INT32 = 6,
  EE_INT64 = 7
} ee_type;

#endif  // EDGE_EMBED_KERNELS_TYPE_H_
