#include "kernels/use.h"

namespace edge_embed {

ee_status CheckBags(const Bags& bags, size_t num_ids, size_t* bad_position) {
  if (bags.mode != BagMode::kSum && bags.mode != BagMode::kMean && bags.mode != BagMode::kMax) {
    return EE_BAD_MODE;
  }
  if (bags.sample_weights != nullptr && bags.mode != BagMode::kSum) return EE_BAD_MODE;
  const int64_t end = static_cast<int64_t>(num_ids);
  int64_t last = 0;
  for (size_t i = 0; i <= bags.count; ++i) {
    const int64_t offset = Load<int64_t>(bags.offsets, i);
    if (offset < last || offset > end || (i == 0 && offset != 0) || (i == bags.count && offset != end)) {
      *bad_position = i;
      return EE_BAD_OFFSETS;
    }
    last = offset;
  }
  return EE_OK;
}

}  // namespace edge_embed
