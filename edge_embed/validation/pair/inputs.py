"""Inputs that an ONNX model declares: types and sizes, the inputs that hold ids, and an example."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.bodies import OPERATORS
from edge_embed.exporters.onnx.model_file import dtype_name
from edge_embed.exporters.onnx.names import DOMAIN
from edge_embed.packed.stored_names import table_of
from edge_embed.program.program import TEXT, ProgramInput, Sizes
from edge_embed.validation.pair.cached_sizes import STATE_WIDTHS, cached_steps, is_cached, summed, sums_in
from edge_embed.validation.pair.sizes import combinations
from edge_embed.validation.pair.texts import Texts

_AXES = ("batch", "sequence")
_SIZES = (2, 5, 3, 4)
_SHAPE_ONLY = ("Shape", "Size")
_VIEWS = ("Identity", "Cast", "DequantizeLinear", "QuantizeLinear")
_FLAGS = re.compile("mask|type|segment")  # inputs of zeros and ones, recognised by name


def declared_inputs(model: ModelProto) -> tuple[ProgramInput, ...]:
    """Return the inputs that a caller must supply.

    Raises:
        BadInputError: an input is no tensor of numbers or texts.
    """
    stored = {tensor.name for tensor in model.graph.initializer}
    return tuple(_declared(value) for value in model.graph.input if value.name not in stored)


def _declared(value: ValueInfoProto) -> ProgramInput:
    kind = value.type.tensor_type
    try:
        dtype: Any = (
            TEXT
            if kind.elem_type == TensorProto.STRING
            else torch.from_numpy(np.empty(0, helper.tensor_dtype_to_np_dtype(kind.elem_type))).dtype
        )
    except (TypeError, KeyError, ValueError) as error:
        got = dtype_name(kind.elem_type) if value.type.HasField("tensor_type") else value.type.WhichOneof("value")
        raise BadInputError(
            f"input {value.name}: got {got}, expected a tensor of numbers or texts: validation does not support "
            "other inputs"
        ) from error
    if not kind.HasField("shape"):
        return ProgramInput(value.name, dtype, _AXES)
    return ProgramInput(value.name, dtype, tuple(_size(at, size) for at, size in enumerate(kind.shape.dim)))


def _size(axis: int, size: Any) -> int | str:
    """Return a fixed size, or the name of a dynamic one; inputs that do not declare an axis share its size."""
    if size.HasField("dim_value") and size.dim_value > 0:
        return int(size.dim_value)
    return str(size.dim_param) or default_axis(axis)


def default_axis(axis: int) -> str:
    """Return the name for a dynamic size without one."""
    return _AXES[axis] if axis < len(_AXES) else f"axis {axis}"


def is_flag(name: str) -> bool:
    """Return whether the name of an input is that of a mask or of token types (segments)."""
    return bool(_FLAGS.search(name.lower()))


def example_sizes(inputs: Iterable[ProgramInput]) -> dict[str, int]:
    """Return a size for each dynamic dimension."""
    names = dict.fromkeys(size for each in inputs for size in each.shape if isinstance(size, str))
    return summed({name: _SIZES[at % len(_SIZES)] for at, name in enumerate(names)})


def examples(
    inputs: Sequence[ProgramInput],
    rows: Mapping[str, int],
    texts: Texts,
    likely: Sequence[int],
    random: np.random.Generator,
) -> Iterator[tuple[Any, ...]]:
    """Yield inputs to try in turn, because a model may require more of its inputs than it declares.

    Args:
        inputs: the declared inputs.
        rows: number of rows of the tables that they reach, by input name.
        texts: the texts to draw from.
        likely: sizes that the model may fix without declaring them.
        random: source of values.
    """
    sizes = example_sizes(inputs)
    ones = summed(dict.fromkeys(sizes, 1))
    totals = sums_in(sizes)

    def drawn(most: Mapping[str, int], sizes: Sizes) -> tuple[Any, ...]:
        return tuple(
            torch.ones(each.sizes(sizes), dtype=each.dtype)  # attention derives lengths from the mask
            if is_flag(each.name) and not totals.isdisjoint(each.shape)
            else _drawn(each, each.sizes(sizes), most.get(each.name, 2), texts, random)
            for each in inputs
        )

    def of_ones(sizes: Sizes) -> tuple[Any, ...]:
        shapes = [each.sizes(sizes) for each in inputs]
        return tuple(
            texts.draw(random, shape) if each.holds_texts else torch.ones(shape, dtype=each.dtype)
            for each, shape in zip(inputs, shapes, strict=True)
        )

    yield drawn(rows, sizes)
    yield from (drawn(rows, step) for step in cached_steps(sizes))
    yield drawn({}, sizes)
    yield of_ones(sizes)
    free = tuple(name for name in sizes if name not in totals)
    likely = (*likely, *STATE_WIDTHS) if is_cached(sizes) else likely
    yield from (drawn(rows, summed({**sizes, **more})) for more in combinations(free, likely))
    yield of_ones(ones)


def _drawn(
    declared: ProgramInput, shape: list[int], rows: int, texts: Texts, random: np.random.Generator
) -> Tensor | NDArray[Any]:
    if declared.holds_texts:
        return texts.draw(random, shape)
    if declared.dtype.is_floating_point:
        return torch.from_numpy(np.asarray(random.standard_normal(shape))).to(declared.dtype)
    if rows > 2:
        return torch.from_numpy(np.asarray(random.integers(0, rows, shape))).to(declared.dtype)
    flags: NDArray[Any] = np.asarray(random.random(shape) < 0.75)
    if flags.ndim:
        flags[..., :1] = True  # an empty mask has no mean
    return torch.from_numpy(flags).to(declared.dtype)


def rows_reached(model: ModelProto, tables: Mapping[str, int]) -> dict[str, int]:
    """Return the number of rows of the smallest table that each integer input reaches, if it reaches a lookup.

    Args:
        model: a model with packed tables.
        tables: number of rows of the packed tables, by name.
    """
    walk = _Walk(model)
    integers = {each.name for each in declared_inputs(model) if each.holds_integers and not is_flag(each.name)}
    bounds: dict[str, int] = {}
    for ids, rows in walk.lookups(tables):
        for name in walk.origins(ids) & integers:
            bounds[name] = min(rows, bounds.get(name, rows))
    return bounds


class _Walk:
    """All nodes of a model, including those of graphs inside nodes."""

    def __init__(self, model: ModelProto) -> None:
        self._nodes: list[NodeProto] = []
        self._sources: dict[str, list[str]] = {}
        self._dims: dict[str, list[int]] = {}
        self._add(model.graph, [])

    def _add(self, graph: GraphProto, given: list[str]) -> None:
        """Add a graph; ``given`` are the inputs of its outer node, which the inputs of the graph may be."""
        self._dims |= {tensor.name: list(map(int, tensor.dims)) for tensor in graph.initializer}
        for value in graph.input if given else ():
            self._sources[value.name] = given
        for node in graph.node:
            self._nodes.append(node)
            inner = [each for item in node.attribute for each in (item.g, *item.graphs) if each.node]
            reads = [*node.input, *(name for each in inner for one in each.node for name in one.input)]
            for each in inner:
                self._add(each, list(node.input))
            for name in node.output:
                self._sources[name] = [] if node.op_type in _SHAPE_ONLY else reads
            for item in node.attribute:
                if node.op_type == "Constant" and item.name == "value":
                    self._dims[node.output[0]] = list(map(int, item.t.dims))
            if node.op_type in _VIEWS and node.input[0] in self._dims:
                self._dims[node.output[0]] = self._dims[node.input[0]]

    def lookups(self, tables: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        """Yield the ids of every lookup and the number of rows of its table."""
        for node in self._nodes:
            if node.domain == DOMAIN and node.op_type in OPERATORS and OPERATORS[node.op_type].use in ("rows", "bag"):
                yield from _known(node.input[0], tables.get(table_of(node.input[-1])))
            elif node.op_type in ("Gather", "GatherBlockQuantized") and node.input[0] in self._dims:
                axis = next((item.i for item in node.attribute if item.name in ("axis", "gather_axis")), 0)
                yield node.input[1], self._dims[node.input[0]][axis]
            elif node.op_type == "EmbedLayerNormalization":  # ids, segment ids, words, positions, segments
                for ids, table in ((0, 2), (1, 4)):
                    if len(node.input) > table and node.input[table] in self._dims:
                        yield node.input[ids], self._dims[node.input[table]][0]

    def origins(self, value: str) -> set[str]:
        """Return the values that a value depends on and that no node computes."""
        waiting, seen = [value], set[str]()
        while waiting:
            name = waiting.pop()
            if name and name not in seen:
                seen.add(name)
                waiting += self._sources.get(name, ())
        return {name for name in seen if name not in self._sources}


def _known(ids: str, rows: int | None) -> Iterator[tuple[str, int]]:
    if rows is not None:
        yield ids, rows
