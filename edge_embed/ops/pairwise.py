"""Matrix products with small rounding errors for sums of any length.

    A B = A_1 B_1 + A_2 B_2        A = [A_1 A_2],  B = [B_1; B_2], and so on down to short sums

A running float32 sum of K numbers of the same sign has an error of up to K / 2 ULP, and of about sqrt(K) ULP in
practice. By halves the error is log K ULP.
"""

from torch import Tensor

_SHORT = 32


def product(left: Tensor, right: Tensor) -> Tensor:
    """Return the product [*, M, K], [*, K, N] -> [*, M, N]; differentiable."""
    length = left.shape[-1]
    if length <= _SHORT:
        return left @ right
    half = -(-length // (2 * _SHORT)) * _SHORT
    first = product(left[..., :half], right[..., :half, :])
    return first + product(left[..., half:], right[..., half:, :])
