"""Settings that validation chooses from."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn
from training import Recipe

import edge_embed

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


def sx(layer: type[edge_embed.DPQEmbedding], width: int, num_groups: int, **options: Any) -> Table:
    """DPQ-SX with K = 16 and what leaves few of its codes unused; tau = 2 lets more than one of them learn."""
    few_unused: dict[str, Any] = {"distance_norm": "per_group", "query_init_scale": 0.01, "temperature": 2.0}
    return lambda words: layer(words, width, 16, num_groups, padding_idx=0, **few_unused, **options)
