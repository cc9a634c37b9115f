"""Offsets of bags among the inputs of a model: they begin at 0, never decrease, and are at most the number of ids."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import fx

from edge_embed.lowering.graph import CALLS
from edge_embed.program.program import Program
from edge_embed.validation.pair.module import FileModule

_ATEN = torch.ops.aten
_DENSE = (_ATEN.embedding_bag.default, _ATEN.embedding_bag.padding_idx)
_SAME = (_ATEN.view.default, _ATEN.reshape.default, _ATEN._to_copy.default, _ATEN.clone.default)
_HAS_LAST = 7  # the argument of a dense bag that states whether the last offset is the number of ids


class Offsets(NamedTuple):
    """An input that holds offsets.

    Attributes:
        ids: name of the input of ids that the offsets divide into bags.
        has_last: whether the last offset is the number of ids.
    """

    ids: str
    has_last: bool

    def draw(self, random: np.random.Generator, num_offsets: int, num_ids: int) -> NDArray[np.int64]:
        """Draw offsets [num_offsets] into ``num_ids`` ids; bags may be empty."""
        offsets = np.sort(random.integers(0, num_ids + 1, num_offsets, np.int64))
        offsets[:1] = 0
        if self.has_last:
            offsets[-1:] = num_ids
        return offsets


def bag_offsets(program: Program) -> dict[str, Offsets]:
    """Return the inputs that are offsets of bags, by name; offsets that the model computes are left out."""
    if isinstance(program.module, FileModule):
        return {}
    ranks = {declared.name: len(declared.shape) for declared in program.inputs}
    found = {}
    for ids, offsets, has_last in _bags(program.module.graph):
        places = _given(offsets)
        is_completed = places.target == _ATEN.cat.default  # the layer appended the number of ids
        given, divided = (str(_given(node).target) for node in (places.args[0][0] if is_completed else places, ids))
        if ranks.get(given) == ranks.get(divided) == 1:
            found[given] = Offsets(divided, has_last and not is_completed)
    return found


def _bags(graph: fx.Graph) -> Iterator[tuple[fx.Node, Any, bool]]:
    for node in graph.nodes:
        if node.target in _DENSE:
            _, ids, offsets = node.args[:3]
            yield ids, offsets, len(node.args) > _HAS_LAST and bool(node.args[_HAS_LAST])
        elif node.target in CALLS and CALLS[node.target].use == "bag":
            ids, offsets = node.args[:2]
            yield ids, offsets, True


def _given(node: Any) -> Any:
    """Return the node before conversions of type and shape."""
    while node.target in _SAME:
        node = node.args[0]
    return node
