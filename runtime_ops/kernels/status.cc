#include "kernels/status.h"

#include "kernels/limits.h"

#define EE_DIGITS(number) #number
#define EE_TEXT(limit) EE_DIGITS(limit)

namespace edge_embed {

const char* StatusMessage(int status) {
  switch (status) {
    case EE_OK:
      return "no error";
    case EE_NULL_POINTER:
      return "a pointer is null, but the call reads or writes there";
    case EE_BAD_SHAPE:
      return "every size of a table must be at least 1, and the number of ids at least 0";
    case EE_BAD_NUM_CODES:
      return "num_codes must lie between " EE_TEXT(EE_MIN_CODES) " and " EE_TEXT(EE_MAX_CODES);
    case EE_BAD_BITS:
      return "bits must be ceil(log2(num_codes)), the smallest width that holds every code";
    case EE_BAD_PADDING:
      return "padding_idx must be -1 (none) or the index of a row, below num_embeddings";
    case EE_SIZE_OVERFLOW:
      return "the sizes multiply to more bytes than this machine can address";
    case EE_SHORT_CODES:
      return "the code buffer is shorter than num_embeddings rows of ceil(num_groups * bits / 8) bytes";
    case EE_SHORT_VALUES:
      return "the value buffer is shorter than its groups * num_codes * group_width values";
    case EE_SHORT_OUTPUT:
      return "the output buffer is shorter than the output";
    case EE_ID_OUT_OF_RANGE:
      return "an id is negative or not below num_embeddings";
    case EE_BAD_TYPE:
      return "an element type is not supported for its tensor";
    case EE_SHORT_SCRATCH:
      return "the scratch buffer is shorter than the table's scratch size";
    case EE_SHORT_ROW_OFFSETS:
      return "the buffer of row_offsets is shorter than num_embeddings + 1 int32 numbers";
    case EE_SHORT_ANCHOR_IDS:
      return "the buffer of anchor_ids is shorter than num_weights numbers";
    case EE_SHORT_WEIGHTS:
      return "the buffer of weights is shorter than num_weights numbers";
    case EE_SHORT_ANCHORS:
      return "the buffer of anchors is shorter than num_anchors * embedding_dim numbers";
    case EE_BAD_ROW_OFFSETS:
      return "the row_offsets of a row are negative, decrease, or exceed the number of weights";
    case EE_LONG_ROW:
      return "a row has more weights than the table has anchors";
    case EE_BAD_ANCHOR_ID:
      return "an anchor id of a row is not below num_anchors";
    case EE_BAD_NUM_CORES:
      return "a table must have from " EE_TEXT(EE_MIN_CORES) " to " EE_TEXT(EE_MAX_CORES) " cores";
    case EE_BAD_RANKS:
      return "the last size of a core must be the second size of the next one; the first core follows the "
             "last";
    case EE_SHORT_CORE:
      return "the buffer of a core is shorter than the product of its sizes";
    case EE_FEW_CORE_ROWS:
      return "the first sizes of the cores multiply to fewer than num_embeddings rows";
    case EE_BAD_MODE:
      return "mode must be 0 (sum), 1 (mean) or 2 (max), and sample weights require mode 0";
    case EE_BAD_OFFSETS:
      return "offsets must start with 0, not decrease, and end with the number of ids";
    case EE_SHORT_VALUE_SCALES:
      return "the buffer of value_scales is shorter than one float32 for each group of int8 values";
    case EE_SHORT_BLOCKS:
      return "the buffer of blocks is shorter than the table's blocks";
    case EE_BAD_K:
      return "k must lie between 1 and " EE_TEXT(EE_MAX_K) " and not exceed the number of rows, which is "
             "at most 4294967294";
    case EE_BAD_VERSION:
      return "the struct of the table is from another header: its version must be EE_TABLE_VERSION, and "
             "header and library must be of one release";
    case EE_BAD_METHOD:
#ifdef __wasm__  // whose package lists them itself
      return "this library does not contain the method";
#else
      return "this library does not contain the method: ee_method_name lists its methods";
#endif
    case EE_BAD_USE:
      return "use must be EE_GATHER, EE_BAG, EE_LOGITS or EE_TOPK";
#ifndef __wasm__  // which has no environment
    case EE_BAD_ISA:
      return "EDGE_EMBED_FORCE_ISA must name an instruction set of this library that the processor supports: "
#if defined(__x86_64__)
             "avx512, avx2, portable or reference";
#else
             "portable or reference";
#endif
#endif
#ifndef EDGE_EMBED_NO_DPQ_SCALED  // a library without the method is smaller
    case EE_BAD_UNUSED_COLUMNS:
      return "unused_columns must be at least 0 and fewer than the columns of a group";
    case EE_BAD_NUM_ROW_SCALES:
      return "num_row_scales must lie between 0 and " EE_TEXT(EE_MAX_ROW_SCALES);
    case EE_SHORT_ROW_SCALE_CODES:
      return "the buffer of row_scale_codes is shorter than one byte for each row";
    case EE_SHORT_ROW_SCALES:
      return "the buffer of row_scales is shorter than num_row_scales float32 numbers";
    case EE_BAD_ROW_SCALE_CODE:
      return "the row_scale_code of a row is not below num_row_scales";
    case EE_BAD_TIERS:
      return "tiers must have equal columns and no padding row, and num_embeddings rows in all, at most "
             "2147483647";
    case EE_SHORT_TIER_MAP:
      return "the buffer of tier_map is shorter than 64 bytes for each block of 256 rows";
    case EE_SHORT_TIER_RANKS:
      return "the buffer of tier_ranks is shorter than " EE_TEXT(
          EE_NUM_TIERS) " int32 numbers for each block of 256 rows";
    case EE_BAD_TIER_PLACE:
      return "the tier of a row does not exist or has no row at its place";
#endif
    default:
      return "unknown status: the caller and this library are of different versions";
  }
}

}  // namespace edge_embed
