"""The two float dtypes of rows and of the tensors that rows are computed from."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError

FLOAT_BYTES: Mapping[str, int] = {"float32": 4, "float16": 2}


def check_float_type(name: str, got: object, types: tuple[str, ...] = tuple(FLOAT_BYTES)) -> None:
    """Raise `BadInputError` for the name of a dtype that is not among ``types``.

    Raises:
        BadInputError: The message names the dtypes.
    """
    if not isinstance(got, str) or got not in types:
        raise BadInputError(f"{name}: got {got!r:.80}, expected {', '.join(types[:-1])} or {types[-1]}")


def rounded(rows: NDArray[np.float64], value_type: str) -> NDArray[np.floating[Any]]:
    """Round once, to nearest; numbers beyond the dtype become infinite."""
    with np.errstate(over="ignore", under="ignore"):
        return rows.astype(value_type)
