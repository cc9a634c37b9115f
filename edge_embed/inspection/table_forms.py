"""Forms of a table in a saved program: the name of each, and the reader of its sizes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from edge_embed.inspection.report import State
from edge_embed.ops.operators import TableOperators
from edge_embed.packed.packed_form import TableShape

Sizes = tuple[TableShape, int | None]


@dataclass(frozen=True)
class TableForm:
    """One form.

    Attributes:
        state: ``trainable``, ``frozen``, or ``stored`` if both are stored alike.
        read: returns sizes and padding row, from the arguments of a table in its operators.
    """

    state: State
    read: Callable[..., Sizes]


Forms = Mapping[TableOperators, TableForm]


def value_type(stored: Tensor) -> str:
    """Return the type at inference: float16 stays, every other type becomes float32."""
    return "float16" if stored.dtype == torch.float16 else "float32"
