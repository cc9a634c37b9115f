"""The forms in which a saved program holds a table: what each one is called, and how its sizes are read."""

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
        state: whether it learns, is frozen, or is stored as it learns.
        read: sizes and padding row, from the arguments of a table in its operators.
    """

    state: State
    read: Callable[..., Sizes]


Forms = Mapping[TableOperators, TableForm]


def value_type(stored: Tensor) -> str:
    """Type at inference; whatever is not float16 by then has to be made float32."""
    return "float16" if stored.dtype == torch.float16 else "float32"
