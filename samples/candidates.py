"""Settings that validation chooses from."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tables import MakeTable
from training import Optimizer, Recipe

from edge_embed.layers.attention import Activation

# Settings by method; ``dense`` is first. A quick run uses the first setting of each method, and of methods that differ
# only in their ratio the first.
Candidates = Mapping[str, Sequence[Recipe]]

_QUICK_EPOCHS = 1


def rates(table: MakeTable, epochs: int, *given: float, decay: bool = False) -> list[Recipe]:
    """Return a setting for each learning rate of the table."""
    return [Recipe(table, epochs, _QUICK_EPOCHS, rate, decay=decay) for rate in given]


def decayed(recipes: Sequence[Recipe], *given: float) -> list[Recipe]:
    """Return each setting with each weight decay."""
    return [replace(recipe, weight_decay=decay) for recipe in recipes for decay in given]


def searched(recipes: Sequence[Recipe], *given: float) -> list[Recipe]:
    """Return each setting of ANT with nbANT of each penalty of an anchor."""
    return [replace(recipe, anchor_penalty=penalty) for recipe in recipes for penalty in given]


def with_attention(recipes: Sequence[Recipe], activation: Activation) -> list[Recipe]:
    """Return the settings with another attention than softmax."""
    return [replace(recipe, attention=activation) for recipe in recipes]


def one_of_each(candidates: Candidates) -> Candidates:
    """Return the first of the methods with the same name before a comma; the part after it determines the ratio."""
    names: dict[str, str] = {}
    for method in candidates:
        names.setdefault(method.partition(",")[0], method)
    return {method: candidates[method] for method in names.values()}


def penalties(
    table: MakeTable, epochs: int, rate: float, *given: float, decay: bool = False, optimizer: Optimizer = "adam"
) -> list[Recipe]:
    """Return a setting for each penalty of ANT."""
    return [Recipe(table, epochs, _QUICK_EPOCHS, rate, penalty, decay, optimizer=optimizer) for penalty in given]
