"""The part of a compression method in the ONNX exporter, and the node types that follow from it.

A method describes its tensors, its attributes and the body that computes rows. Each use of a table is a separate node
type. Bodies of the other uses call the node that looks up rows, so they are written once for all methods.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import onnx
import onnx_ir as ir
from onnx import parser
from onnx.defs import OpSchema
from onnxscript import opset18, values

from edge_embed.exporters.onnx import bag, logits, topk
from edge_embed.exporters.onnx.names import DOMAIN, DOMAIN_VERSION, MEMORY_BYTES, OPSET
from edge_embed.exporters.onnx.nodes.schema import USES, NodeSchema
from edge_embed.exporters.onnx.row_blocks import Scores
from edge_embed.ops.operators import LEADING, TableOperators
from edge_embed.packed.packed_form import Use


class Body(Protocol):
    """Text of a function around a plain node."""

    def __call__(self, use: Use, node: str, tensors: tuple[str, ...], own: tuple[str, ...]) -> str:
        """Return the nodes of the function.

        Args:
            use: use of the table.
            node: the plain operator, and its attributes.
            tensors: its inputs after the leading ones.
            own: the packed tensors that are not among them.
        """


@dataclass(frozen=True)
class Around:
    """A method whose nodes call those of a plain method.

    Attributes:
        plain: the plain method, whose attributes are among those of the other.
        uses: for each use, the use of the plain table that its body calls; a missing use is computed from rows.
        plain_tensors: number of leading packed tensors that belong to the plain node, from the number of all of them.
        body: returns the nodes.
    """

    plain: "OnnxMethod"
    uses: Mapping[Use, Use]
    plain_tensors: Callable[[int], int]
    body: Body


def _of_rows(count: int) -> Scores:
    return Scores()


@dataclass(frozen=True)
class OnnxMethod:
    """The part of one method in the ONNX target.

    Attributes:
        name: name of the method at every stage.
        node: schema of its nodes.
        operators: the torch operators over packed tensors that become nodes.
        table: returns the packed tensors and the attributes of a table, from the table's arguments of ``operators``
            (tensors with a ``shape``, then scalars).
        body: returns the nodes of the function ``(ids, <tensors>) => (rows)`` in the textual syntax of ONNX, from the
            number of tensors.
        num_rows: nodes that compute the scalar ``num_rows`` from tensors and attributes.
        parts: name of the tensors of a table in errors about different numbers of them.
        remedy: remedy in these errors.
        scores: returns the nodes that compute logits of a block of rows, from the number of tensors.
        around: the other method whose nodes are called, if any; ``body`` and ``num_rows`` are then unused.
        looks_up: another method whose nodes ``body`` calls to look up rows, and their number of packed tensors.
    """

    name: str
    node: NodeSchema
    operators: TableOperators
    table: Callable[..., tuple[Sequence[Any], dict[str, int]]]
    body: Callable[[int], str]
    num_rows: str
    parts: str = "tensors"
    remedy: str = ""
    scores: Callable[[int], Scores] = _of_rows
    around: Around | None = None
    looks_up: "tuple[OnnxMethod, int] | None" = None

    def operator(self, use: Use) -> "OnnxOperator":
        """Return the node type for a use."""
        return OnnxOperator(self, use)

    @property
    def uses(self) -> "list[OnnxOperator]":
        """Return all node types; rows, which the others call, are first."""
        return [self.operator(use) for use in LEADING]


# Values of the attributes of a use, from the leading arguments of the torch operator.
_ATTRIBUTES: Mapping[Use, Callable[..., dict[str, int]]] = {"bag": bag.attributes, "topk": topk.attributes}

_INDICES = ["tensor(int32)", "tensor(int64)"]
_STORED = [f"tensor({kind})" for kind in ("float", "float16", "int8", "uint8", "uint16", "uint32", "int32")]


@dataclass(frozen=True)
class OnnxOperator:
    """The node type of one use of a method."""

    method: OnnxMethod
    use: Use

    @property
    def op_type(self) -> str:
        """Return the name of the node, and of the function that holds its body."""
        return self.method.node.prefix + USES[self.use].suffix

    @property
    def num_leading(self) -> int:
        """Return the number of inputs before the packed tensors."""
        return len(USES[self.use].inputs)

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """Return the names of the node's attributes, in order."""
        return self.method.node.attribute_names + USES[self.use].attribute_names

    def attributes(self, *arguments: Any) -> dict[str, int]:
        """Return the node's attributes, from all arguments of the torch operator."""
        leading = len(LEADING[self.use])
        _, table = self.method.table(*arguments[leading:])
        return table | (_ATTRIBUTES[self.use](*arguments[:leading]) if self.use in _ATTRIBUTES else {})

    def function(self, count: int, memory_bytes: int | None = None, opset: int = OPSET) -> onnx.FunctionProto:
        """Return the portable body as a model-local function of the node's name, for ``count`` packed tensors.

        ``memory_bytes`` is the session memory of a plain node in the body. ``opset`` is that of the model, because the
        checker requires equal ones.
        """
        form, tensors = USES[self.use], self.method.node.tensors(count)
        imports = f'"": {opset}' + (f', "{DOMAIN}": {DOMAIN_VERSION}' if self.called(count) else "")
        header = f'<domain: "{DOMAIN}", opset_import: [{imports}]>\n{self.op_type} <{", ".join(self.attribute_names)}> '
        signature = f"({', '.join((*form.inputs, *tensors))}) => ({', '.join(form.outputs)})"
        return parser.parse_function(f"{header}{signature}\n{{\n{self._body(count, memory_bytes).strip()}\n}}")

    def called(self, count: int) -> "list[tuple[OnnxOperator, int]]":
        """Return the node types that its body calls, callees first, with their numbers of packed tensors."""
        around = self.method.around
        if around is not None and self.use in around.uses:
            inner = around.plain_tensors(count)
            operator = around.plain.operator(around.uses[self.use])
            return [*operator.called(inner), (operator, inner)]
        if self.use == "rows":
            looked_up = self.method.looks_up
            return [] if looked_up is None else [(looked_up[0].operator("rows"), looked_up[1])]
        rows = self.method.operator("rows")
        return [*rows.called(count), (rows, count)]

    def _body(self, count: int, memory_bytes: int | None) -> str:
        around, called = self.method.around, self.called(count)
        if self.use == "rows" and around is None:
            return self.method.body(count)
        operator, inner_count = called[-1]
        given = {name: f"@{name}" for name in operator.attribute_names}
        if memory_bytes is not None:
            given[MEMORY_BYTES] = str(memory_bytes)
        attributes = ", ".join(f"{name}: int = {value}" for name, value in given.items())
        node, tensors = f"{DOMAIN}.{operator.op_type} <{attributes}>", operator.method.node.tensors(inner_count)
        if around is not None and self.use in around.uses:
            return around.body(self.use, node, tensors, self.method.node.tensors(count)[inner_count:])
        if self.use == "bag":
            return bag.body(node, tensors)
        body = topk.body if self.use == "topk" else logits.body
        return body(node, tensors, self.method.num_rows, self.method.scores(inner_count))

    def translation(self) -> Callable[..., Any]:
        """Return a function that translates a call of the torch operator to the node, for ``torch.onnx.export``."""

        def translate(*arguments: Any) -> Any:
            leading = len(LEADING[self.use])
            tensors, _ = self.method.table(*arguments[leading:])
            inputs = [*arguments[: self.num_leading], *tensors]
            like = inputs[0 if self.use == "topk" else -1]  # has the type of an optional input that is empty
            given = [_empty(like) if value is None else value for value in inputs]
            if self.use == "bag":
                given[2] = _weights(given[2], tensors)
            return self._node(len(tensors))(*given, **self.attributes(*arguments))

        return translate

    def _node(self, count: int) -> values.Op:
        form, formal = USES[self.use], OpSchema.FormalParameter
        kinds = {"ids": _INDICES, "offsets": ["tensor(int64)"]}
        inputs = (*form.inputs, *self.method.node.tensors(count))
        schema = OpSchema(
            self.op_type,
            DOMAIN,
            DOMAIN_VERSION,
            inputs=[formal(name, f"T_{name}") for name in inputs],
            outputs=[formal(name, "tensor(int64)" if name == "top_ids" else "T_out") for name in form.outputs],
            type_constraints=[
                *((f"T_{name}", kinds.get(name, _STORED), "") for name in inputs),
                ("T_out", ["tensor(float)", "tensor(float16)"], ""),
            ],
            attributes=[OpSchema.Attribute(name, OpSchema.AttrType.INT, "") for name in self.attribute_names],
        )
        return values.Op(values.Opset(DOMAIN, DOMAIN_VERSION), self.op_type, schema)


def _empty(like: Any) -> Any:
    """Return an empty tensor in the float type of another."""
    kind = np.float16 if like.dtype == ir.DataType.FLOAT16 else np.float32
    return opset18.Constant(value=onnx.numpy_helper.from_array(np.empty(0, kind)))


def _weights(weights: Any, tensors: Sequence[Any]) -> Any:
    """Cast sample weights to the type of the rows, which the node requires; tables may be stored in another one."""
    kind = row_type(tensors)
    return weights if weights.dtype in (kind, None) else opset18.Cast(weights, to=int(kind))


def row_type(tensors: Sequence[Any]) -> ir.DataType:
    """Return the type of the rows: that of the last packed tensor of floats, because a row order follows the cores."""
    floats = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
    found: ir.DataType = next(tensor.dtype for tensor in reversed(tensors) if tensor.dtype in floats)
    return found
