"""The two float types of rows and of what they are made from."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError

FLOAT_BYTES: Mapping[str, int] = {"float32": 4, "float16": 2}


def check_float_type(name: str, got: object, types: tuple[str, ...] = tuple(FLOAT_BYTES)) -> None:
    """Refuse the name of a type that is not among ``types``.

    Raises:
        BadInputError: It names the types.
    """
    if not isinstance(got, str) or got not in types:
        raise BadInputError(f"{name}: got {got!r:.80}, expected {', '.join(types[:-1])} or {types[-1]}")


def rounded(rows: NDArray[np.float64], value_type: str) -> NDArray[np.floating[Any]]:
    """Round once, to nearest; what is beyond the type becomes infinite."""
    with np.errstate(over="ignore", under="ignore"):
        return rows.astype(value_type)
