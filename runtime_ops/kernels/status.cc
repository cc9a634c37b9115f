#include "kernels/status.h"

namespace edge_embed {

const char* StatusMessage(int status) {
  switch (status) {
    case EE_OK:
      return "no error";
    case EE_NULL_POINTER:
      return "a pointer is null although there is something to read or write there";
    case EE_BAD_SHAPE:
      return "num_embeddings, num_groups and group_width must be at least 1, the number of ids at least 0";
    case EE_BAD_NUM_CODES:
      return "num_codes must lie between 2 and 65536";
    case EE_BAD_BITS:
      return "bits must be ceil(log2(num_codes)), the smallest width that holds every code";
    case EE_BAD_PADDING:
      return "padding_idx must be -1 (none) or the index of a row, below num_embeddings";
    case EE_SIZE_OVERFLOW:
      return "the sizes multiply to more bytes than this machine can address";
    case EE_SHORT_CODES:
      return "the code buffer is shorter than num_embeddings rows of ceil(num_groups * bits / 8) bytes";
    case EE_SHORT_VALUES:
      return "the value buffer is shorter than its groups * num_codes * group_width float32 values";
    case EE_SHORT_OUTPUT:
      return "the output buffer is shorter than the number of ids * num_groups * group_width float32 values";
    case EE_ID_OUT_OF_RANGE:
      return "an id is negative or not below num_embeddings";
    default:
      return "unknown status: the caller and this library are of different versions";
  }
}

}  // namespace edge_embed
