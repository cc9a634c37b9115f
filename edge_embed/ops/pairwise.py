"""Matrix products whose rounding errors stay small, however long the sums are.

    A B = A_1 B_1 + A_2 B_2        A = [A_1 A_2],  B = [B_1; B_2], and so on down to short sums

One running float32 sum of K numbers of the same sign is off by up to K / 2 units in the last place, and by about
sqrt(K) of them in practice; in halves it is log K.
"""

from torch import Tensor

_SHORT = 32


def product(left: Tensor, right: Tensor) -> Tensor:
    """[*, M, K], [*, K, N] -> [*, M, N]; differentiable."""
    length = left.shape[-1]
    if length <= _SHORT:
        return left @ right
    half = -(-length // (2 * _SHORT)) * _SHORT
    first = product(left[..., :half], right[..., :half, :])
    return first + product(left[..., half:], right[..., half:, :])
