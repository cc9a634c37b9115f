"""Conversion of layer weights to arrays of the packed form."""

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from edge_embed.errors import BadInputError

StoredType = Literal["float32", "float16"]

STORED_TYPES: dict[str, torch.dtype] = {"float32": torch.float32, "float16": torch.float16}


def stored_array(weight: Tensor) -> "np.ndarray[Any, np.dtype[Any]]":
    """Return a float32 or float16 weight as an array of the packed form, without a copy if it is in CPU memory.

    Raises:
        BadInputError: if it has another dtype.
    """
    if weight.dtype not in STORED_TYPES.values():
        expected = f"expected {' or '.join(STORED_TYPES)}"
        raise BadInputError(f"weights are {weight.dtype}, {expected}; call .float() on the layer first")
    return weight.detach().cpu().contiguous().numpy()


def rounded(weight: Tensor, stored_type: StoredType) -> Tensor:
    """Round a weight to the dtype it will be stored in.

    Raises:
        BadInputError: if the dtype is unknown, or a number is too large for it.
    """
    if stored_type not in STORED_TYPES:
        raise BadInputError(f"got type {stored_type!r:.80}, expected one of {', '.join(STORED_TYPES)}")
    stored = weight.detach().to(STORED_TYPES[stored_type])
    if not stored.isfinite().all():
        largest = torch.finfo(stored.dtype).max
        raise BadInputError(f"a weight is not finite in {stored_type} (largest number {largest}): use float32")
    return stored
