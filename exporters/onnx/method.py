"""What a compression method tells the ONNX exporter about itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import parser
from onnx.defs import OpSchema
from onnxscript import values

from edge_embed.exporters.onnx.names import DOMAIN, DOMAIN_VERSION, OPSET


@dataclass(frozen=True)
class OnnxMethod:
    """One method's part in the ONNX target.

    Attributes:
        name: the word for the method at every stage.
        operator: the torch operator over packed tensors that becomes the node.
        op_type: name of the node and of the function that holds its body.
        inputs: names of the node's inputs: ids first, then the packed tensors.
        attributes: the node's integer attributes, from the arguments of ``operator`` that follow ids (tensors
            with a ``shape``, then scalars); ``format_version`` is one of them.
        attribute_names: their names, in order.
        body: the function in the textual syntax of ONNX, from the inputs on.
    """

    name: str
    operator: Any
    op_type: str
    inputs: tuple[str, ...]
    attributes: Callable[..., dict[str, int]]
    attribute_names: tuple[str, ...]
    body: str

    def function(self) -> onnx.FunctionProto:
        """The portable body as a model-local function of the node's own name."""
        names = ", ".join(self.attribute_names)
        header = f'<domain: "{DOMAIN}", opset_import: ["": {OPSET}]>\n{self.op_type} <{names}> '
        return parser.parse_function(header + self.body.strip())

    def translation(self) -> Callable[..., Any]:
        """Translates a call of ``operator`` to the node, for ``torch.onnx.export``."""
        kinds = {"ids": ["tensor(int32)", "tensor(int64)"]}
        formal = OpSchema.FormalParameter
        schema = OpSchema(
            self.op_type,
            DOMAIN,
            DOMAIN_VERSION,
            inputs=[formal(name, f"T_{name}") for name in self.inputs],
            outputs=[formal("rows", "tensor(float)")],
            type_constraints=[
                (f"T_{name}", kinds.get(name, ["tensor(uint8)", "tensor(float)"]), "") for name in self.inputs
            ],
            attributes=[OpSchema.Attribute(name, OpSchema.AttrType.INT, "") for name in self.attribute_names],
        )
        node = values.Op(values.Opset(DOMAIN, DOMAIN_VERSION), self.op_type, schema)
        count = len(self.inputs)
        return lambda *arguments: node(*arguments[:count], **self.attributes(*arguments[1:]))
