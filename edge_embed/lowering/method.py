"""Interface between a compression method and the lowering pass."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import fx

from edge_embed.ops.operators import TableOperators
from edge_embed.packed.packed_form import PackedTable

OnBlock = Callable[[int], None]


class Packer(Protocol):
    """Function that packs one table from those arguments of its operators that identify the table."""

    def __call__(self, arguments: list[Any], on_block: OnBlock) -> PackedTable:
        """Pack the table; ``on_block`` is called with the number of finished rows."""


@dataclass(frozen=True)
class LoweringMethod:
    """Implementation of lowering for one method.

    Attributes:
        name: name of the method at every stage.
        packers: packing function of each form of table that a saved program may hold.
        operators: function that returns the operators over the tensors of a packed table; they are keys of ``packers``
            too.
        arguments: function of (packed, its tensors in the graph) that returns the arguments for ``operators``.
    """

    name: str
    packers: Mapping[TableOperators, Packer]
    operators: Callable[[Any], TableOperators]
    arguments: Callable[[Any, list[fx.Node]], tuple[Any, ...]]
