"""Directions of rows that the next layer of a model reads.

    sum_i w_i ||(C_i - E_i) W^T||^2 = sum_i w_i ||(C_i - E_i) L||^2        L L^T = W^T W

E are dense rows, C compressed ones, and W [m, d] is the weight of the only layer that takes them. A share of the
identity is added to W^T W / trace(W^T W), so that L has an inverse and no direction is lost while others have room.
"""

import torch
from torch import Tensor

_OTHERS = 1e-6  # share of the identity


def directions(weight: Tensor) -> Tensor | None:
    """Return L, float64 [d, d], from W [m, d]; None if W is zero or not finite."""
    wide = weight.detach().to("cpu", torch.float64)
    product = wide.t() @ wide
    trace = float(product.trace())
    if not 0 < trace < float("inf"):
        return None
    others = torch.eye(len(product), dtype=product.dtype) / len(product)
    found: Tensor = torch.linalg.cholesky((1 - _OTHERS) * product / trace + _OTHERS * others)
    return found
