"""The check of ids around lookups and bags in TFLite; see `edge_embed.lowering.id_check`.

    ids -> at least 0 and at most n - 1 -> lookup -> rows -> MUL by 1, or by NaN for a wrong id

Numbers times 1 keep their bits. For ``error`` the lookup gets the ids themselves: its ``GATHER`` refuses wrong ones.
"""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import torch

from edge_embed.exporters.tflite.dense_bag import DENSE_BAGS, ids_of_bags
from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.lowering.id_check import IdCheck, marker

_ATEN = torch.ops.aten


class CheckedIds:
    """Ids of one lookup or bag.

    Attributes:
        ids: the ids for the operators of the lookup.
    """

    def __init__(self, graph: Graph, ids: Tensor, num_rows: int, id_check: IdCheck) -> None:
        below = graph.binary("MINIMUM", ids, graph.constant(num_rows - 1, ids.dtype))
        self._graph, self._given = graph, ids
        self._safe = graph.binary("MAXIMUM", below, graph.constant(0, ids.dtype))
        self.ids = self._safe if id_check == "nan" else ids

    def rows(self, rows: Tensor) -> Tensor:
        """Mark the rows [*ids, d] of wrong ids."""
        return self._marked(rows, self._graph.binary("EQUAL", self._safe, self._given), self._given)

    def bags(self, bags: Tensor, offsets: Tensor) -> Tensor:
        """Mark the bags [B, d] with wrong ids; bag b has the ids from offsets[b] to offsets[b + 1]."""
        graph = self._graph
        wrong = graph.cast(graph.binary("NOT_EQUAL", self._safe, self._given), "int32")
        running = graph.cumsum(graph.concatenate([graph.constant([0]), wrong]))  # number of wrong ids before a place
        before, after = (graph.gather(running, graph.slice(offsets, *part)) for part in ((0, -1), (1, None)))
        is_right = graph.binary("EQUAL", before, after)
        return self._marked(bags, is_right, is_right)

    def _marked(self, rows: Tensor, is_right: Tensor, like: Tensor) -> Tensor:
        """Mark the rows [*like, d] that are not right."""
        graph = self._graph
        factor = graph.select(is_right, graph.constant(1, "float32"), graph.constant(marker("float32"), "float32"))
        column = graph.reshape_like(factor, like, 1)
        return graph.cast(graph.binary("MUL", graph.cast(rows, "float32"), column), rows.dtype)


def dense_lookups(id_check: IdCheck | None) -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return functions in place of torch operators that look up rows or bags of dense tables, by operator."""
    if id_check is None:
        return DENSE_BAGS

    def embedding(weight: torch.Tensor, ids: torch.Tensor, *options: Any) -> torch.Tensor:
        safe = ids.clamp(0, len(weight) - 1)
        rows = torch.nn.functional.embedding(safe if id_check == "nan" else ids, weight)
        return _marked(rows, safe == ids)

    found = {operator: _checked_bag(bag, id_check) for operator, bag in DENSE_BAGS.items()}
    return {_ATEN.embedding.default: embedding, **found}


def _checked_bag(bag: Callable[..., Any], id_check: IdCheck) -> Callable[..., Any]:
    @wraps(bag)
    def checked(*arguments: Any, **options: Any) -> tuple[torch.Tensor]:
        given = signature(bag).bind(*arguments, **options)
        given.apply_defaults()
        weight, *of_bags = (given.arguments[name] for name in ("weight", "ids", "offsets", "include_last_offset"))
        ids, safe = of_bags[0], of_bags[0].clamp(0, len(weight) - 1)
        if id_check == "nan":
            given.arguments["ids"] = safe
        (bags,) = bag(*given.args, **given.kwargs)
        return (_marked(bags, ~(ids_of_bags(*of_bags) & (safe != ids)).any(1)),)

    return checked


def _marked(rows: torch.Tensor, is_right: torch.Tensor) -> torch.Tensor:
    """Mark the rows [*, d] that are not right."""
    mark = marker(str(rows.dtype).removeprefix("torch."))
    if not rows.is_floating_point():
        return torch.where(is_right[..., None], rows.long(), mark).to(rows.dtype)
    return rows * torch.where(is_right, 1.0, mark)[..., None].to(rows.dtype)
