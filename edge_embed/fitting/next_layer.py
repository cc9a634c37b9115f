"""Directions of rows that the next layer of a model reads.

    sum_i w_i ||(C_i - E_i) W^T||^2 = sum_i w_i ||(C_i - E_i) L||^2        L = V S, with W^T W = V S^2 V^T

E are dense rows, C compressed ones, and W [m, d] is the weight of the only layer that takes them. L has d columns
however many outputs the layer has; those of directions that it does not read are zero.
"""

import torch
from torch import Tensor

_ROUNDING = 1e-12  # share of all squares: smaller ones are those of rounding


def directions(weight: Tensor) -> Tensor | None:
    """Return L, float64 [d, d], from W [m, d]; None if W is zero or not finite."""
    wide = weight.detach().to("cpu", torch.float64)
    product = wide.t() @ wide
    trace = float(product.trace())
    if not 0 < trace < float("inf"):
        return None
    squares, vectors = torch.linalg.eigh(product / trace)  # their lengths do not matter
    found: Tensor = vectors * (squares * (squares > _ROUNDING)).sqrt()
    return found
