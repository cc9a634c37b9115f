"""The check of ids in an exported file: the result for ids below 0 or at least n (``export --id-check``).

    error   an error where the runtime checks the indices of a gather, otherwise as for ``nan``
    nan     NaN in the row of each such id, and in each bag with such an id

The operators of the check stand around the node or the operators of a lookup or bag. So the operator library and the
portable bodies are the same as without it. Each target has one module that adds them, ``id_check``.
"""

from typing import Literal, cast, get_args

import numpy as np

from edge_embed.errors import BadInputError, suggested

IdCheck = Literal["error", "nan"]


def known_id_check(id_check: str) -> IdCheck:
    """Return the check of that name; raise `BadInputError` for another name."""
    choices = get_args(IdCheck)
    if id_check not in choices:
        hint = suggested(str(id_check), choices)
        raise BadInputError(f"id_check: got {id_check!r}, {hint}expected one of {', '.join(choices)}")
    return cast(IdCheck, id_check)


def marker(dtype: str) -> float | int:
    """Return the number in rows of wrong ids: NaN; in integers the lowest number or, if unsigned, the highest.

    Raises:
        BadInputError: numbers of that type cannot be marked.
    """
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return float("nan")
    if kind.kind not in "iu" or kind == np.uint64:  # beyond int64, in which integers are marked
        raise BadInputError(
            f"id_check: got a dense table of {dtype}, expected floats, or integers in the range of int64: convert it"
        )
    limits = np.iinfo(kind)
    return int(limits.max if kind.kind == "u" else limits.min)
