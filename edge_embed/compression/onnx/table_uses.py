"""The use of a table by a node: the result of one rule, and the view of a file that all rules read."""

from dataclasses import dataclass
from typing import Any, Literal

from onnx import NodeProto, TensorProto, ValueInfoProto, helper, shape_inference

from edge_embed.compression.onnx.constant_values import Constants, Known, Place, integers
from edge_embed.compression.onnx.foreign_model import ForeignModel
from edge_embed.compression.onnx.live_nodes import needed_nodes
from edge_embed.compression.onnx.scopes import Scope, is_standard, scopes_of
from edge_embed.compression.onnx.without_weights import without_weights
from edge_embed.exporters.onnx.model_file import dtype_name

# Result for an id that is no row from 0 on. "wraps": from -n on it counts from the end, others are refused.
# "zeros from -n": from -n on it counts from the end, others return a row of zeros. "zeros": all return a row of zeros.
Ids = Literal["wraps", "zeros from -n", "zeros"]


@dataclass(frozen=True, eq=False)
class Use:
    """A node that looks up rows of a table, multiplies with all of them, or reads its sizes.

    Attributes:
        kind: ``rows``, ``logits`` or ``shape``.
        scope: the graph of the node.
        place: index of the node in its graph.
        node: the node, whose first output is the result.
        known: the constant that holds the table.
        axis: axis of the rows in the constant.
        ids: name of the ids.
        has_column: whether the ids have an additional last axis of size 1, which the result lacks.
        rule: result for ids out of range.
        is_product: whether a row is the last axis of the result, for any axis of rows in the table.
        kind_of_result: type of ``TensorProto.DataType``, if it differs from that of the table.
        passed: values between the table and the result, which no other node may need.
        reason: why the table must stay for this use; empty if it can be replaced.
    """

    kind: Literal["rows", "logits", "shape"]
    scope: Scope
    place: int
    node: NodeProto
    known: Known
    axis: int
    ids: str = ""
    has_column: bool = False
    rule: Ids = "wraps"
    is_product: bool = False
    kind_of_result: int = TensorProto.UNDEFINED
    passed: frozenset[Place] = frozenset()
    reason: str = ""

    @property
    def dtype(self) -> str:
        """Return the name of the type of the result."""
        return dtype_name(self.kind_of_result) if self.kind_of_result else self.known.dtype

    @property
    def lead(self) -> tuple[int, ...]:
        """Return the sizes of the axes before that of the rows, in the lookup's result."""
        return () if self.is_product else self.known.shape[: self.axis]

    @property
    def trail(self) -> tuple[int, ...]:
        """Return the sizes of the axes after that of the rows, in the lookup's result."""
        return (self.known.shape[1 - self.axis],) if self.is_product else self.known.shape[self.axis + 1 :]

    @property
    def names(self) -> frozenset[Place]:
        """Return all values that only this use may need, if the table is to be replaced."""
        return self.known.names | self.passed


class View:
    """The data of a file that the rules read."""

    def __init__(self, file: ForeignModel) -> None:
        self.file = file
        self.scopes = scopes_of(file.model)
        self.constants = Constants(file)
        self._shapes = _shapes(file)
        self._needed = needed_nodes(self.scopes)
        self.takers: dict[Place, list[tuple[Scope, int, NodeProto]]] = {}
        for scope in self.scopes:
            for place, node in enumerate(scope.nodes):
                for name in dict.fromkeys(filter(None, node.input)) if (id(scope), place) in self._needed else ():
                    owner = scope.owner(name)
                    if owner is not None:
                        self.takers.setdefault((id(owner), name), []).append((scope, place, node))

    def is_needed(self, scope: Scope, place: int) -> bool:
        """Return whether an output of the model depends on a node."""
        return (id(scope), place) in self._needed

    def is_taken(self, scope: Scope, name: str) -> bool:
        """Return whether a needed node uses a value of a scope, or a graph returns it."""
        if (id(scope), name) in self.takers:
            return True
        return any(value.name == name and one.owner(name) is scope for one in self.scopes for value in one.graph.output)

    def known(self, scope: Scope, name: str) -> Known | None:
        """Return the constant of a name, or None."""
        return self.constants.known(scope, name)

    def maker(self, scope: Scope, name: str) -> tuple[Scope, NodeProto] | None:
        """Return the node that computes a value, with its scope, or None."""
        owner = scope.owner(name)
        return None if owner is None or name not in owner.makers else (owner, owner.makers[name][1])

    def shape(self, scope: Scope, name: str) -> list[int | str] | None:
        """Return the sizes of a value, numbers or names, or None; the name of an unknown size is empty."""
        known = self.known(scope, name)
        if known is not None:
            return list(known.shape)
        return self._shapes.get(name) if scope.owner(name) is self.scopes[0] else None

    def behind_casts(self, scope: Scope, name: str) -> tuple[Scope, str, frozenset[Place]]:
        """Return the value before casts: its scope, its name, and the names between."""
        passed: set[Place] = set()
        while (made := self.maker(scope, name)) is not None and is_standard(made[1], "Cast", "Identity", "CastLike"):
            passed.add((id(made[0]), name))
            scope, name = made[0], made[1].input[0]
        return scope, name, frozenset(passed)

    def without_column(self, scope: Scope, name: str) -> tuple[str, bool] | None:
        """Return the name of the ids in a value whose last axis has size 1, and whether that axis is still there.

        Returns None if the size of the axis is unknown.
        """
        made = self.maker(scope, name)
        if made is not None and made[0] is scope:
            node = made[1]
            if is_standard(node, "Identity") or (is_standard(node, "Concat") and len(node.input) == 1):
                return self.without_column(scope, node.input[0])
            if is_standard(node, "Unsqueeze") and self._adds_last(scope, node):
                return node.input[0], False
            if is_standard(node, "Reshape") and (integers(self.known(scope, node.input[1])) or [0])[-1] == 1:
                return name, True
        shape = self.shape(scope, name)
        return (name, True) if shape and shape[-1] == 1 else None

    def _adds_last(self, scope: Scope, node: NodeProto) -> bool:
        axes = integers(self.known(scope, node.input[1])) if len(node.input) > 1 else values_of(node).get("axes")
        shape = self.shape(scope, node.input[0])
        return axes == [-1] or (shape is not None and axes == [len(shape)])


def values_of(node: NodeProto) -> dict[str, Any]:
    """Return the attributes of a node."""
    return {item.name: helper.get_attribute_value(item) for item in node.attribute}


def from_front(axis: int, rank: int) -> int:
    """Return an axis counted from 0, or -1 if there is none such."""
    return axis + rank if -rank <= axis < 0 else axis if axis < rank else -1


def _shapes(file: ForeignModel) -> dict[str, list[int | str]]:
    """Return the sizes of the values of the model's graph, as far as they can be inferred."""
    try:
        graph = shape_inference.infer_shapes(without_weights(file.model), data_prop=True).graph
    except Exception:  # any exception of shape inference; only declared sizes are known then
        graph = file.model.graph
    found = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.type.tensor_type.HasField("shape"):
            found[value.name] = _sizes(value)
    return found


def _sizes(value: ValueInfoProto) -> list[int | str]:
    sizes = value.type.tensor_type.shape.dim
    return [int(size.dim_value) if size.HasField("dim_value") else str(size.dim_param) for size in sizes]


FLOAT_KINDS = {TensorProto.FLOAT: "float32", TensorProto.FLOAT16: "float16"}
