"""Constant values of a model: constants, and values that operators compute from constants alone.

Shapes and types come from shape inference. Numbers come from onnx's reference evaluator, one node at a time and on
demand.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from edge_embed.compression.onnx.foreign_model import ForeignModel
from edge_embed.compression.onnx.node_tensors import Held, dense
from edge_embed.compression.onnx.scopes import STANDARD, Scope, graphs_of, spelled
from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.model_file import dtype_name, expected_bytes

Place = tuple[int, str]  # identity of the scope, and the name there
_RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli")
_SMALL = 1024  # numbers of shapes and axes, which shape inference reads
_MOST_GROWTH = 4  # times the numbers of the file: the largest result of an operator
_LEAST_LIMIT = 1 << 20
_LARGEST_SPARSE = 1 << 24  # numbers: the largest sparse tensor that exceeds the limit of the file
_QUANTISED = ("QuantizeLinear", "DequantizeLinear")
_QUANTISED_OPSET = 21  # covers all of the earlier ones and of com.microsoft
_KEEPS_NUMBERS = ("Identity", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Slice")
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)


@dataclass(frozen=True, eq=False)
class Leaf:
    """A tensor of the file.

    Attributes:
        scope: its scope.
        name: name of the initializer, or of the result of the ``Constant`` node.
        nbytes: its bytes in the file.
        is_given: whether a caller may supply another value.
    """

    scope: Scope
    name: str
    nbytes: int
    is_given: bool


@dataclass(frozen=True, eq=False)
class Known:
    """A constant value.

    Attributes:
        kind: its type, of ``TensorProto.DataType``.
        shape: its sizes.
        compute: returns its numbers.
        leaves: the tensors of the file that it is computed from.
        names: all values of the file from these tensors to this value.
        is_grown: whether operators computed it from fewer numbers.
        before_cast: the same numbers in the float type before a ``Cast``.
    """

    kind: int
    shape: tuple[int, ...]
    compute: Callable[[], NDArray[Any]]
    leaves: tuple[Leaf, ...] = ()
    names: frozenset[Place] = frozenset()
    before_cast: "Known | None" = None
    is_grown: bool = False

    @property
    def dtype(self) -> str:
        """Return the name of the type in numpy."""
        return dtype_name(self.kind)

    def matrix(self, axis: int) -> NDArray[Any]:
        """Return its numbers as [n, d], with rows along an axis."""
        array = np.moveaxis(self.compute(), axis, 0)
        return array.reshape(array.shape[0], -1)


class Constants:
    """The constant values of a file."""

    def __init__(self, file: ForeignModel) -> None:
        self._file = file
        self._found: dict[Place, Known | None] = {}
        total = sum(math.prod(tensor.dims) for tensor in file.tensors)
        self._limit = max(_LEAST_LIMIT, _MOST_GROWTH * total)

    def known(self, scope: Scope, name: str) -> Known | None:
        """Return the constant value of a name in a scope, or None if it is not constant."""
        owner = scope.owner(name) if name else None
        if owner is None:
            return None
        place = id(owner), name
        if place not in self._found:
            self._found[place] = self._look(owner, name)
        return self._found[place]

    def _look(self, scope: Scope, name: str) -> Known | None:
        if name in scope.tensors:
            return self._held(scope, name, scope.tensors[name])
        if name not in scope.makers or name not in scope.constants:
            return None
        node = scope.makers[name][1]
        operands = [self.known(scope, given) for given in node.input]
        if any(operand is None for operand, given in zip(operands, node.input, strict=True) if given):
            return None
        return self.computed(node, operands, [*node.output].index(name), frozenset({(id(scope), name)}))

    def _held(self, scope: Scope, name: str, tensor: Held) -> Known | None:
        place, array = frozenset({(id(scope), name)}), self._file.array
        if isinstance(tensor, TensorProto):
            leaf = Leaf(scope, name, expected_bytes(tensor) or 0, name in scope.given)
            return Known(tensor.data_type, tuple(tensor.dims), lambda: array(tensor), (leaf,), place)
        if math.prod(tensor.dims) > max(self._limit, _LARGEST_SPARSE) or min(tensor.dims, default=0) < 0:
            return None
        nbytes = sum(expected_bytes(part) or 0 for part in (tensor.values, tensor.indices))
        leaf = Leaf(scope, name, nbytes, name in scope.given)
        return Known(tensor.values.data_type, tuple(tensor.dims), lambda: dense(tensor, array), (leaf,), place)

    def computed(
        self, node: NodeProto, operands: Sequence[Known | None], output: int = 0, names: frozenset[Place] = frozenset()
    ) -> Known | None:
        """Return the result of a node for constant values, or None if that requires running the model."""
        is_quantised = node.op_type in _QUANTISED and node.domain == "com.microsoft"
        if not (is_quantised or node.domain in STANDARD) or node.op_type in _RANDOM or any(graphs_of(node)):
            return None
        model = self._alone(node, operands, output)
        try:
            inferred = shape_inference.infer_shapes(model, data_prop=True).graph.output[0].type.tensor_type
        except Exception:  # any exception of shape inference
            return None
        sizes = [size.dim_value if size.HasField("dim_value") else -1 for size in inferred.shape.dim]
        if not inferred.HasField("shape") or min(sizes, default=0) < 0 or math.prod(sizes) > self._limit:
            return None
        shape, given = tuple(sizes), [each for each in operands if each is not None]

        def compute() -> NDArray[Any]:
            feeds = {f"x{at}": each.compute() for at, each in enumerate(operands) if each is not None}
            try:
                (array,) = ReferenceEvaluator(self._alone(node, operands, output, False)).run(None, feeds)
            except Exception as error:  # any exception of the evaluator
                raise BadInputError(
                    f"{spelled(node)}: cannot be computed from its constants: {error!s:.200}"
                ) from error
            found = np.asarray(array)
            if found.shape != shape:
                raise BadInputError(f"{spelled(node)}: got shape {list(found.shape)}, expected {list(shape)}")
            return found

        leaves = dict.fromkeys(leaf for each in given for leaf in each.leaves)
        names = names.union(*(each.names for each in given))
        before = self._before_cast(node, operands, output, inferred.elem_type, names)
        is_grown = math.prod(shape) >= 2 * sum(math.prod(each.shape) for each in given)
        is_grown = is_grown or any(each.is_grown for each in given)
        return Known(inferred.elem_type, shape, compute, tuple(leaves), names, before, is_grown)

    def _before_cast(
        self, node: NodeProto, operands: Sequence[Known | None], output: int, kind: int, names: frozenset[Place]
    ) -> Known | None:
        """Return the value in the type that its numbers had in the file."""
        first = operands[0] if operands else None
        if first is None or kind not in _FLOATS or first.kind not in _FLOATS:
            return None
        if node.op_type == "Cast":
            found = first.before_cast or first
            return None if found.kind == kind else found
        if first.before_cast is None or node.op_type not in _KEEPS_NUMBERS:
            return None
        return self.computed(node, [first.before_cast, *operands[1:]], output, names)

    def _alone(self, node: NodeProto, operands: Sequence[Known | None], output: int, folds: bool = True) -> ModelProto:
        """Return a model of one node."""
        copy = NodeProto()
        copy.CopyFrom(node)
        opset = self._file.opset
        if node.op_type in _QUANTISED:
            copy.domain, opset = "", max(opset, _QUANTISED_OPSET)
        del copy.input[:]
        copy.input.extend("" if each is None else f"x{at}" for at, each in enumerate(operands))
        named = {f"x{at}": each for at, each in enumerate(operands) if each is not None}
        small = {name for name, each in named.items() if folds and math.prod(each.shape) <= _SMALL // 8}
        values = [helper.make_tensor_value_info(name, each.kind, each.shape) for name, each in named.items()]
        result = helper.make_empty_tensor_value_info(node.output[output])
        tensors = [numpy_helper.from_array(np.asarray(named[name].compute()), name) for name in sorted(small)]
        graph = helper.make_graph(
            [copy], "alone", [each for each in values if each.name not in small], [result], tensors
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def integers(known: Known | None) -> list[int] | None:
    """Return the numbers of a small constant, such as axes and sizes, or None."""
    if known is None or math.prod(known.shape) > _SMALL or "int" not in known.dtype:
        return None
    return [int(number) for number in known.compute().reshape(-1)]


def is_arange(known: Known, count: int) -> bool:
    """Return whether a constant holds 0, 1, ... count - 1, as integers."""
    if "int" not in known.dtype or math.prod(known.shape) != count or known.shape[-1:] != (count,):
        return False
    return np.array_equal(known.compute().reshape(-1), np.arange(count))


def is_filled(known: Known | None, number: float) -> bool:
    """Return whether each number of a constant equals a number."""
    return known is not None and bool(np.all(np.asarray(known.compute(), np.float64) == number))
