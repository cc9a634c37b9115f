// Overflow-safe products of sizes, which may come from a damaged file.
#ifndef EDGE_EMBED_KERNELS_SIZE_H_
#define EDGE_EMBED_KERNELS_SIZE_H_

#include <stddef.h>
#include <stdint.h>

namespace edge_embed {

// A product that knows whether it overflowed. It is unsigned, because compilers inline that check on every
// target, without a support library.
class Size {
 public:
  Size(uint64_t value) : value_(value) {}  // implicit, because numbers are sizes

  Size operator*(Size other) const {
    Size product(0);
    product.fits_ = !__builtin_mul_overflow(value_, other.value_, &product.value_) & fits_ & other.fits_;
    return product;
  }
  Size operator+(Size other) const {
    Size sum(0);
    sum.fits_ = !__builtin_add_overflow(value_, other.value_, &sum.value_) & fits_ & other.fits_;
    return sum;
  }

  bool fits() const { return fits_; }
  // The product, or the largest number on overflow: for estimates of work.
  uint64_t saturated() const { return fits_ ? value_ : UINT64_MAX; }

  // False if the size exceeds that of any object.
  bool Get(uint64_t* value) const {
    if (!fits_ || value_ > PTRDIFF_MAX) return false;
    *value = value_;
    return true;
  }

 private:
  uint64_t value_;
  bool fits_ = true;
};

inline Size Max(Size a, Size b) {
  if (!a.fits()) return a;
  if (!b.fits()) return b;
  return a.saturated() < b.saturated() ? b : a;
}

}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_SIZE_H_
