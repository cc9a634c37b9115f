"""What a compression method tells the lowering pass about itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import fx

from edge_embed.ops.operators import TableOperators
from edge_embed.packed.packed_form import PackedTable

OnBlock = Callable[[int], None]


class Packer(Protocol):
    """Packs one table from the arguments that say in its operators' schemas which table it is."""

    def __call__(self, arguments: list[Any], on_block: OnBlock) -> PackedTable:
        """Pack the table; ``on_block`` is told the rows done so far."""


@dataclass(frozen=True)
class Method:
    """One method's part in lowering.

    Attributes:
        name: the word for the method at every stage.
        packers: for each form of table that a saved program may hold, how it is packed.
        operators: those over the tensors of a packed table, which are among ``packers`` too.
        arguments: the arguments of a packed table in a call of ``operators``: (packed, its tensors in the graph).
    """

    name: str
    packers: Mapping[TableOperators, Packer]
    operators: Callable[[Any], TableOperators]
    arguments: Callable[[Any, list[fx.Node]], tuple[Any, ...]]
