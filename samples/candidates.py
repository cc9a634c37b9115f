"""Settings that validation chooses from."""

from collections.abc import Callable, Mapping, Sequence

from torch import nn
from training import Recipe

Table = Callable[[int], nn.Module]  # rows -> an embedding layer
# By method; ``dense`` comes first. A quick run takes the first setting of each.
Candidates = Mapping[str, Sequence[Recipe]]

_QUICK_EPOCHS = 1


def rates(table: Table, epochs: int, *given: float, decay: bool = False) -> list[Recipe]:
    """A setting for each rate of the table."""
    return [Recipe(table, epochs, _QUICK_EPOCHS, rate, decay=decay) for rate in given]


def penalties(table: Table, epochs: int, rate: float, *given: float) -> list[Recipe]:
    """A setting for each penalty of ANT."""
    return [Recipe(table, epochs, _QUICK_EPOCHS, rate, penalty) for penalty in given]
