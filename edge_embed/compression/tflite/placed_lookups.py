"""A packed lookup in place of a dense one: rows for the same ids, in the shape and type of the dense result.

    ids -> numbers of rows [*] -> packed rows [*, d] -> result

Ids out of range remain an error. If rows of ones and zeros were multiplied, they remain rows of zeros.
"""

import math
from typing import Any

import numpy as np

from edge_embed.compression.tflite.lookups import Lookup
from edge_embed.compression.tflite.subgraph_calls import numbers
from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.exporters.tflite.splice import tensor_at

_IDS = ("int32", "int64")


class Placed:
    """The operators around the packed rows of a lookup.

    Args:
        graph: the graph that operators are added to.
        subgraph: the subgraph of the graph, of the schema's classes.
        lookup: the dense lookup.
        sizes: sizes of the constant that it looks up.
    """

    def __init__(self, graph: Graph, subgraph: Any, lookup: Lookup, sizes: tuple[int, ...]) -> None:
        self._graph, self._lookup, self._sizes = graph, lookup, sizes
        self._subgraph = subgraph
        self._valid: Tensor | None = None  # 1 for ids of rows, otherwise 0: int32 [*]
        given = tensor_at(subgraph, lookup.ids)
        # An app may set another size than that of the file.
        given = Tensor(given.index, given.name, given.dtype, (-1,) * len(given.shape))
        self._given = given if given.dtype in _IDS else graph.cast(given, "int32")

    def ids(self) -> Tensor:
        """Add operators that compute numbers of rows [*]."""
        if self._lookup.one_hot is not None:
            return self._one_hot_ids()
        if self._lookup.name == "GATHER_ND":
            return self._combined()
        return self._of_batches() if self._lookup.batch else self._given

    def result(self, rows: Tensor, ids: Tensor, dtype: str) -> Tensor:
        """Add operators that convert float32 rows [*, d] to the result, in its type; may return ``rows`` itself."""
        rows = self._product(rows, ids) if self._lookup.one_hot is not None else self._arranged(rows, ids)
        if dtype in ("float32", "float16"):
            return self._graph.cast(rows, dtype)
        return self._graph.quantize(rows, dtype)

    def _combined(self) -> Tensor:
        """Add operators for indices [*, k] of ``GATHER_ND``: i_1 n_2 ... n_k + ... + i_k."""
        graph, sizes = self._graph, [self._sizes[axis] for axis in self._lookup.row_axes]
        last = len(self._given.shape) - 1
        given = Tensor(self._given.index, self._given.name, self._given.dtype, (*self._given.shape[:-1], len(sizes)))
        if len(sizes) == 1:
            return graph.sum(given, [last])
        inside = self._checked(given, sizes)
        steps = graph.constant([math.prod(sizes[at + 1 :]) for at in range(len(sizes))])
        return graph.sum(graph.binary("MUL", inside, steps), [last])

    def _of_batches(self) -> Tensor:
        """Add operators for ids [B..., *] of the tables of a batch: the number of the table times n, plus the id."""
        *batch, rows = (self._sizes[axis] for axis in self._lookup.row_axes)
        if math.prod(batch) == 1:
            return self._given
        firsts = np.arange(math.prod(batch)) * rows
        rank = len(self._given.shape)
        firsts = firsts.reshape(*batch, *[1] * (rank - len(batch)))
        return self._graph.binary("ADD", self._checked(self._given, [rows]), self._graph.constant(firsts))

    def _checked(self, ids: Tensor, sizes: list[int]) -> Tensor:
        """Add a check that ids are in 0 ... size - 1, which fails otherwise as a table does; return them as int32."""
        graph = self._graph
        ids = ids if ids.dtype == "int32" else graph.narrowed(ids)
        wrong = graph.binary("SUB", graph.constant(1), self._inside(ids, sizes))
        return graph.binary("ADD", ids, graph.gather(graph.constant([0]), wrong))

    def _inside(self, ids: Tensor, sizes: list[int]) -> Tensor:
        """Add operators that return int32 1 for int32 ids in 0 ... size - 1, otherwise 0."""
        graph = self._graph
        ends = graph.constant(sizes if len(sizes) > 1 else sizes[0]), graph.constant(0)
        below = [graph.cast(graph.binary("LESS", ids, end), "int32") for end in ends]
        return graph.binary("SUB", *below)

    def _one_hot_ids(self) -> Tensor:
        ids = self._given if self._keeps_shape() else self._graph.flatten(self._given)
        ids = self._graph.cast(ids, "int32")  # as in ONE_HOT, which omits the upper half of int64
        (axis,) = self._lookup.row_axes
        self._valid = self._inside(ids, [self._sizes[axis]])
        return self._graph.binary("MUL", ids, self._valid)

    def _keeps_shape(self) -> bool:
        options = self._lookup.operator.builtinOptions
        return self._lookup.name == "BATCH_MATMUL" or bool(options.keepNumDims)

    def _product(self, rows: Tensor, ids: Tensor) -> Tensor:
        """Add a product of rows of ones and zeros with the table, plus a bias, with an activation."""
        graph, operator = self._graph, self._lookup.operator
        assert self._valid is not None
        shown = graph.reshape_like(graph.cast(self._valid, "float32"), ids, 1)
        fused = {"fusedActivationFunction": getattr(operator.builtinOptions, "fusedActivationFunction", 0)}
        bias = numbers(operator.inputs)[2:3]
        if not bias or bias[0] < 0:
            return graph.binary("MUL", rows, shown, **fused)
        return graph.binary("ADD", graph.binary("MUL", rows, shown), tensor_at(self._subgraph, bias[0]), **fused)

    def _arranged(self, rows: Tensor, ids: Tensor) -> Tensor:
        """Reshape rows [B..., *, d] to [B..., A..., *, ...], where d is the product of A and the rest."""
        rest = [size for axis, size in enumerate(self._sizes) if axis not in self._lookup.row_axes]
        batch, rank = self._lookup.batch, len(ids.shape)
        between = max(self._lookup.row_axes) - batch if self._lookup.name == "GATHER" else 0
        if len(rest) != 1:
            rows = self._graph.reshape_like(rows, ids, *rest)
        if not between:
            return rows
        order = [
            *range(batch),
            *range(rank, rank + between),
            *range(batch, rank),
            *range(rank + between, rank + len(rest)),
        ]
        return self._graph.transpose(rows, order)
