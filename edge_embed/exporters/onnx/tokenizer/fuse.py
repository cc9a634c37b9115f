"""A tokenizer in front of an exported model: one node, ``text [N] -> the inputs that it replaces``.

The node is a function of its own domain, so that a model can be cut off behind it again. All data of the tokenizer is
in that function.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import onnx
import onnx_ir as ir
import torch
from onnx import FunctionProto, NodeProto, TensorProto, helper, parser

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.names import IR_VERSION, OPSET, TOKENIZER_DOMAIN, TOKENIZER_INPUT, TOKENIZER_KEY
from edge_embed.exporters.onnx.tokenizer.batch import batch_body
from edge_embed.exporters.onnx.tokenizer.byte_level import ByteLevel
from edge_embed.exporters.onnx.tokenizer.source import TokenizerSource
from edge_embed.exporters.onnx.tokenizer.words import Words
from edge_embed.program.program import Program, ProgramInput

OP_TYPE = "Tokenize"
_OPSETS = {"": OPSET, "ai.onnx.contrib": 1, "ai.onnx.ml": 3, "com.microsoft": 1}
_TYPES = {torch.int64: TensorProto.INT64, torch.int32: TensorProto.INT32, torch.bool: TensorProto.BOOL,
          torch.float32: TensorProto.FLOAT, torch.float16: TensorProto.FLOAT16}  # fmt: skip

Role = Literal["ids", "attention_mask", "token_type_ids", "lengths", "flat_ids", "offsets"]

# Nodes that compute ``made`` from ids and mask, by role.
_IDS = "made = Identity (ids)"
_MASK = "made = Identity (mask)"
_TYPE_IDS = "made = Sub (ids, ids)"
_LENGTHS = """axis_of_ids = Constant <value_ints: ints = [1]> ()
  made = ReduceSum <keepdims: int = 0> (mask, axis_of_ids)"""
_FLAT_IDS = """one_axis = Constant <value_ints: ints = [-1]> ()
  all_ids = Reshape (ids, one_axis)
  all_of_mask = Reshape (mask, one_axis)
  are_no_padding = Cast <to: int = 9> (all_of_mask)
  made = Compress (all_ids, are_no_padding)"""
_OFFSETS = """axis_of_bag = Constant <value_ints: ints = [1]> ()
  bag_sizes = ReduceSum <keepdims: int = 0> (mask, axis_of_bag)
  axis_of_bags = Constant <value_int: int = 0> ()
  made = CumSum <exclusive: int = 1> (bag_sizes, axis_of_bags)"""
_BODIES: dict[Role, str] = {
    "ids": _IDS, "attention_mask": _MASK, "token_type_ids": _TYPE_IDS, "lengths": _LENGTHS, "flat_ids": _FLAT_IDS,
    "offsets": _OFFSETS,
}  # fmt: skip
# Inputs of a model besides its ids [batch, sequence], by name, with role and number of dimensions.
_BESIDE_IDS: dict[str, tuple[Role, int]] = {
    "attention_mask": ("attention_mask", 2),
    "token_type_ids": ("token_type_ids", 2),
    "lengths": ("lengths", 1),
}


class _Core(Protocol):
    """The nodes of a kind of tokenizer, from ``text`` to ``flat`` and ``lengths``, in the textual syntax of ONNX.

    Attributes:
        body: the nodes.
        constants: tensors that it uses.
        attributes: attributes without textual syntax, by the name of a node's first output.
    """

    body: str
    constants: dict[str, TensorProto]
    attributes: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Fed:
    """An input that the tokenizer replaces, and its contents."""

    declared: ProgramInput
    role: Role


@dataclass(frozen=True)
class FusedTokenizer:
    """A tokenizer and the inputs of a program that it replaces, in their order."""

    source: TokenizerSource
    fed: tuple[Fed, ...]
    ids: str

    @cached_property
    def function(self) -> FunctionProto:
        """The function ``(text) => (inputs that it replaces)``, cached because it queries every character."""
        return _make_function(self)

    def manifest(self) -> str:
        """Return its description in the metadata of the exported file, as JSON."""
        source, batching = self.source, asdict(self.source.batching)
        return json.dumps(
            {
                "kind": source.kind,
                "sha256": source.sha256,
                "num_ids": source.num_ids,
                "ids": self.ids,
                "fed": [fed.declared.name for fed in self.fed],
                **batching,
            },
            sort_keys=True,
        )


def plan_tokenizer(source: TokenizerSource, program: Program, chosen: str | None = None) -> FusedTokenizer:
    """Choose the inputs of a program that a tokenizer replaces.

    Args:
        source: the tokenizer.
        program: the model.
        chosen: name of the input for ids; without it the only possible one.

    Raises:
        BadInputError: no input or several accept ids, or an input of that shape cannot be fed.
    """
    ids = _input_of_ids(program.inputs, chosen)
    if any(declared.name == TOKENIZER_INPUT for declared in program.inputs):
        raise BadInputError(
            f"the model already has an input {TOKENIZER_INPUT!r}, the name of a tokenizer's input: rename it"
        )
    fed = tuple(_bag(ids, program.inputs) if len(ids.shape) == 1 else _rows(ids, program.inputs, source))
    for item in fed:
        if item.declared.dtype not in _TYPES:
            raise BadInputError(f"input {item.declared.name}: got {item.declared.dtype}, which no tokenizer returns")
    return FusedTokenizer(source, fed, ids.name)


def _input_of_ids(inputs: Sequence[ProgramInput], chosen: str | None) -> ProgramInput:
    found = [item for item in inputs if item.holds_integers and item.name not in (*_BESIDE_IDS, "offsets")]
    if chosen is not None:
        found = [item for item in inputs if item.name == chosen and item.holds_integers]
    if len(found) != 1:
        names = ", ".join(item.name for item in inputs if item.holds_integers) or "none"
        wanted = "several candidates or none" if chosen is None else f"{chosen!r:.80}"
        raise BadInputError(
            f"tokenizer: got {wanted} for the input of ids, expected one of the integer inputs ({names}): name it "
            "with --tokenizer-input"
        )
    return found[0]


def _rows(ids: ProgramInput, inputs: Sequence[ProgramInput], source: TokenizerSource) -> list[Fed]:
    """Return the roles of ids ``[batch, sequence]`` and of the inputs besides them."""
    if len(ids.shape) != 2:
        raise BadInputError(
            f"input {ids.name}: got {len(ids.shape)} dimensions, expected ids [batch, sequence], or [N] with offsets"
        )
    sequence = ids.shape[1]
    _check_length(ids, source)
    fed = []
    for item in inputs:
        role, rank = _BESIDE_IDS.get(item.name, ("ids", 0))
        if item.name == ids.name:
            fed.append(Fed(item, "ids"))
        elif len(item.shape) == rank and all(map(_alike, item.shape, ids.shape)):
            fed.append(Fed(item, role))
        elif isinstance(sequence, str) and sequence in item.shape:
            raise BadInputError(
                f"input {item.name}: has the length of the ids ({sequence}), but no tokenizer returns it: expected "
                f"{', '.join(_BESIDE_IDS)} or no such input"
            )
    return fed


def _alike(size: int | str, of_ids: int | str) -> bool:
    """Return whether two dimensions can have one size: a model that does not compare them may give them two names."""
    return size == of_ids or (isinstance(size, str) and isinstance(of_ids, str))


def _check_length(ids: ProgramInput, source: TokenizerSource) -> None:
    """Refuse a fixed length of the model that the tokenizer does not always produce."""
    length, batching = ids.shape[1], source.batching
    made = (
        batching.length if batching.max_length is not None and batching.max_length <= (batching.length or 0) else None
    )
    if isinstance(length, int) and made != length:
        raise BadInputError(
            f"input {ids.name}: expects {length} ids a row, but {source.path} returns "
            f"{'any number' if made is None else made}: call enable_truncation({length}) and "
            f"enable_padding(length={length}) before tokenizer.save"
        )


def _bag(ids: ProgramInput, inputs: Sequence[ProgramInput]) -> list[Fed]:
    """Return the roles of ids ``[N]`` and of the starts of each text's ids, as in `torch.nn.EmbeddingBag`."""
    offsets = next((item for item in inputs if item.name == "offsets" and len(item.shape) == 1), None)
    if offsets is None or not all(isinstance(size, str) for size in (*ids.shape, *offsets.shape)):
        raise BadInputError(
            f"input {ids.name}: got ids of one dimension, expected ids [batch, sequence], or ids [N] with an input "
            "offsets [batch], both dynamic"
        )
    return [Fed(item, "flat_ids" if item is ids else "offsets") for item in inputs if item is ids or item is offsets]


def fuse_tokenizer(model: ir.Model, fused: FusedTokenizer) -> None:
    """Put the tokenizer in front of a model; ``text`` replaces the inputs of the tokenizer's results."""
    batch: Any = None
    values = {str(value.name): value for value in model.graph.inputs}
    outputs = [values[fed.declared.name] for fed in fused.fed]
    ids = values[fused.ids]
    if ids.shape is not None and len(ids.shape) == 2:
        batch = ids.shape[0]
    text = ir.Value(name=TOKENIZER_INPUT, type=ir.TensorType(ir.DataType.STRING), shape=ir.Shape([batch]))
    position = min(model.graph.inputs.index(value) for value in outputs)
    for value in outputs:
        model.graph.inputs.remove(value)
    model.graph.inputs.insert(position, text)
    node = ir.Node(TOKENIZER_DOMAIN, OP_TYPE, [text], outputs=outputs, name="tokenizer")
    model.graph.insert_before(model.graph[0], node)
    function = ir.serde.deserialize_function(fused.function)
    model.functions[function.identifier()] = function
    model.opset_imports.update({domain: version for domain, version in _OPSETS.items() if domain})
    model.opset_imports[TOKENIZER_DOMAIN] = 1
    model.metadata_props[TOKENIZER_KEY] = fused.manifest()


def _make_function(fused: FusedTokenizer) -> FunctionProto:
    core: _Core = ByteLevel(fused.source) if fused.source.kind == "BPE" else Words(fused.source)
    made, outputs = [], []
    for at, fed in enumerate(fused.fed):
        nodes = _BODIES[fed.role].replace("made", f"made_{at}")
        made.append(f"  {nodes}\n  fed_{at} = Cast <to: int = {_TYPES[fed.declared.dtype]}> (made_{at})")
        outputs.append(f"fed_{at}")
    opsets = ", ".join(f'"{domain}" : {version}' for domain, version in _OPSETS.items())
    text = f"""<opset_import: [{opsets}], domain: "{TOKENIZER_DOMAIN}">
{OP_TYPE} (text) => ({", ".join(outputs)}) {{
{core.body}{batch_body(fused.source.batching)}
{chr(10).join(made)}
}}"""
    function = parser.parse_function(text)
    _complete(function, core.constants, core.attributes)
    return function


def _complete(
    function: FunctionProto, constants: Mapping[str, TensorProto], attributes: Mapping[str, Mapping[str, Any]]
) -> None:
    """Add parts without textual syntax: texts with any characters, long lists."""
    nodes: list[NodeProto] = [
        helper.make_node("Constant", [], [name], value=value) for name, value in constants.items()
    ]
    for node in function.node:
        for name, value in attributes.get(node.output[0], {}).items():
            node.attribute.append(helper.make_attribute(name, value))
        nodes.append(node)
    del function.node[:]
    function.node.extend(nodes)


def tokenizer_model(fused: FusedTokenizer) -> onnx.ModelProto:
    """Return the tokenizer as a separate model: ``text -> inputs that it replaces``, by their names."""
    names = [fed.declared.name for fed in fused.fed]
    graph = helper.make_graph(
        [helper.make_node(OP_TYPE, [TOKENIZER_INPUT], names, domain=TOKENIZER_DOMAIN)],
        "tokenizer",
        [helper.make_tensor_value_info(TOKENIZER_INPUT, TensorProto.STRING, [None])],
        [
            helper.make_tensor_value_info(
                fed.declared.name, _TYPES[fed.declared.dtype], [None] * len(fed.declared.shape)
            )
            for fed in fused.fed
        ],
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in (*_OPSETS.items(), (TOKENIZER_DOMAIN, 1))]
    return helper.make_model(graph, ir_version=IR_VERSION, opset_imports=opsets, functions=[fused.function])
