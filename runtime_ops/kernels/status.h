// The only enum of errors. Plain C, because it is part of the C interface (c_api/edge_embed.h).
#ifndef EDGE_EMBED_KERNELS_STATUS_H_
#define EDGE_EMBED_KERNELS_STATUS_H_

#ifdef __cplusplus
extern "C" {
#endif

// Values are part of the C interface: append, never renumber. status.cc has a sentence for each value.
typedef enum ee_status {
  EE_OK = 0,
  EE_NULL_POINTER = 1,
  EE_BAD_SHAPE = 2,
  EE_BAD_NUM_CODES = 3,
  EE_BAD_BITS = 4,
  EE_BAD_PADDING = 5,
  EE_SIZE_OVERFLOW = 6,
  EE_SHORT_CODES = 7,
  EE_SHORT_VALUES = 8,
  EE_SHORT_OUTPUT = 9,
  EE_ID_OUT_OF_RANGE = 10,
  EE_BAD_TYPE = 11,
  EE_SHORT_SCRATCH = 12,
  EE_SHORT_ROW_OFFSETS = 13,
  EE_SHORT_ANCHOR_IDS = 14,
  EE_SHORT_WEIGHTS = 15,
  EE_SHORT_ANCHORS = 16,
  EE_BAD_ROW_OFFSETS = 17,
  EE_LONG_ROW = 18,
  EE_BAD_ANCHOR_ID = 19,
  EE_BAD_NUM_CORES = 20,
  EE_BAD_RANKS = 21,
  EE_SHORT_CORE = 22,
  EE_FEW_CORE_ROWS = 23,
  EE_BAD_MODE = 24,
  EE_BAD_OFFSETS = 25,
  EE_SHORT_VALUE_SCALES = 26,
  EE_BAD_K = 27,
  EE_SHORT_BLOCKS = 28,
  EE_BAD_VERSION = 29,
  EE_BAD_METHOD = 30,
  EE_BAD_USE = 31,
  EE_BAD_ISA = 32,
  EE_BAD_UNUSED_COLUMNS = 33,
  EE_BAD_NUM_ROW_SCALES = 34,
  EE_SHORT_ROW_SCALE_CODES = 35,
  EE_SHORT_ROW_SCALES = 36,
  EE_BAD_ROW_SCALE_CODE = 37,
  EE_BAD_TIERS = 38,
  EE_SHORT_TIER_MAP = 39,
  EE_SHORT_TIER_RANKS = 40,
  EE_BAD_TIER_PLACE = 41
} ee_status;

#ifdef __cplusplus
}  // extern "C"

namespace edge_embed {

constexpr int kLastStatus = EE_BAD_TIER_PLACE;

// Returns a sentence without a full stop. It is never null, also for a value that is not in the enum.
const char* StatusMessage(int status);

}  // namespace edge_embed
#endif

#endif  // EDGE_EMBED_KERNELS_STATUS_H_
