"""What a compression method tells the lowering pass about itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from edge_embed.packed.form import Packed

OnBlock = Callable[[int], None]


class Packer(Protocol):
    """Packs one table from the arguments that follow ``ids`` in its operator's schema."""

    def __call__(self, arguments: list[Any], on_block: OnBlock) -> Packed:
        """Pack the table; ``on_block`` is told the rows done so far."""


@dataclass(frozen=True)
class Method:
    """One method's part in lowering.

    Attributes:
        name: the word for the method at every stage.
        packers: for each operator that a saved program may hold, how its table is packed.
        operator: the operator over packed tensors: ids, then the tensors of the packed form, then scalars.
        scalars: what follows the tensors in the call of ``operator``.
    """

    name: str
    packers: Mapping[Any, Packer]
    operator: Any
    scalars: Callable[[Any], tuple[Any, ...]]
