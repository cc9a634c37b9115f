"""Settings that validation chooses from."""

from collections.abc import Mapping, Sequence

from tables import MakeTable
from training import Recipe

# By method; ``dense`` comes first. A quick run takes the first setting of each, of methods that differ in their ratio
# the first.
Candidates = Mapping[str, Sequence[Recipe]]

_QUICK_EPOCHS = 1


def rates(table: MakeTable, epochs: int, *given: float, decay: bool = False) -> list[Recipe]:
    """A setting for each rate of the table."""
    return [Recipe(table, epochs, _QUICK_EPOCHS, rate, decay=decay) for rate in given]


def one_of_each(candidates: Candidates) -> Candidates:
    """The first of the methods that differ in what follows a comma, which makes their ratio."""
    names: dict[str, str] = {}
    for method in candidates:
        names.setdefault(method.partition(",")[0], method)
    return {method: candidates[method] for method in names.values()}


def penalties(table: MakeTable, epochs: int, rate: float, *given: float, decay: bool = False) -> list[Recipe]:
    """A setting for each penalty of ANT."""
    return [Recipe(table, epochs, _QUICK_EPOCHS, rate, penalty, decay) for penalty in given]
