"""Agreement of the configuration of a GenAI folder and its ONNX file: names, layers, sizes of states, and rows."""

import re
from collections.abc import Iterable, Mapping, Sequence

from onnx import ModelProto, NodeProto, ValueInfoProto

from edge_embed.compression.onnx.dense_tables import OnnxTable
from edge_embed.compression.onnx.scopes import walk
from edge_embed.errors import BadInputError
from edge_embed.importers.genai_folder import GENAI_CONFIG, GenaiFolder

_STATES = {  # key in the configuration, with the name that the runtime uses without it
    "inputs": {"past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"},
    "outputs": {"present_key_names": "present.%d.key", "present_value_names": "present.%d.value"},
}
_COSINES = {"GroupQueryAttention": 7, "RotaryEmbedding": 2}  # place among the inputs of an operator
_SIZES = {1: "num_key_value_heads", 3: "head_size"}  # dimensions of states [batch, heads, tokens, size]


def check_agreement(folder: GenaiFolder, model: ModelProto) -> None:
    """Raise for a configuration of another ONNX file.

    Raises:
        BadInputError: the ONNX file lacks an input or output, or has more layers, other states, attention or rows.
    """
    for part, values in (("inputs", model.graph.input), ("outputs", model.graph.output)):
        there = {value.name: value for value in values}
        if lacking := [name for name in folder.names(part) if name not in there]:
            raise BadInputError(
                f"{GENAI_CONFIG}: {part}: got {lacking[0]!r:.80}, which {folder.model.name} lacks: expected the "
                "configuration of this ONNX file"
            )
        for key, usual in _STATES[part].items():
            _check_states(folder, folder.decoder.get(part, {}).get(key, usual), there.values())
    _check_attention(folder, model)
    logits = folder.decoder.get("outputs", {}).get("logits", "logits")
    rows = folder.config["model"]["vocab_size"]
    for value in model.graph.output:
        last = value.type.tensor_type.shape.dim[-1:]
        if value.name == logits and last and last[0].HasField("dim_value") and last[0].dim_value != rows:
            raise BadInputError(
                f"{GENAI_CONFIG}: vocab_size: got {rows}, expected the {last[0].dim_value} columns of {logits} in "
                f"{folder.model.name}"
            )


def check_rows(folder: GenaiFolder, tables: Iterable[OnnxTable]) -> None:
    """Raise for a dense table with other sizes than the configuration states.

    Raises:
        BadInputError: the message names the table.
    """
    ids = name_of_ids(folder)
    for table in tables:
        looks_up = any(use.ids == ids for use in table.used)
        gives_logits = any(use.kind == "logits" for use in table.used)
        check_table(folder, table.name, (table.weight.shape[0], table.weight.shape[1]), looks_up, gives_logits)


def check_table(folder: GenaiFolder, name: str, sizes: tuple[int, int], looks_up: bool, gives_logits: bool) -> None:
    """Raise for a table with other sizes than the configuration states.

    Args:
        folder: the folder.
        name: name of the table.
        sizes: its rows and columns.
        looks_up: whether it has the rows of the ids of tokens.
        gives_logits: whether it is an output layer.

    Raises:
        BadInputError: the message names the table.
    """
    rows, columns = folder.config["model"]["vocab_size"], folder.decoder.get("hidden_size")
    if looks_up and (sizes[0] < rows or (gives_logits and sizes[0] != rows)):
        raise BadInputError(
            f"{GENAI_CONFIG}: vocab_size: got {rows}, expected the {sizes[0]} rows of {name} in {folder.model.name}"
        )
    if looks_up and gives_logits and columns is not None and columns != sizes[1]:
        raise BadInputError(
            f"{GENAI_CONFIG}: model.decoder.hidden_size: got {columns!r:.80}, expected the {sizes[1]} columns of "
            f"{name} in {folder.model.name}"
        )


def name_of_ids(folder: GenaiFolder) -> str:
    """Return the name of the input of ids."""
    name: str = folder.decoder.get("inputs", {}).get("input_ids", "input_ids")
    return name


def _check_attention(folder: GenaiFolder, model: ModelProto) -> None:
    """Raise for attention of other sizes, unless layers differ."""
    nodes = list(walk(model.graph.node))
    found = [(node.output[0], heads) for node in nodes if (heads := _heads_of(node))]
    attention = dict(found)
    _check_number(folder, "num_attention_heads", {heads for _, heads in found}, "num_heads")
    matrices = {tensor.name: tensor.dims for tensor in model.graph.initializer}
    widths = {name: _width_of(node, matrices) for node in nodes for name in node.input[:1] if name in attention}
    sizes = {width // attention[name] for name, width in widths.items() if width}
    _check_number(folder, "head_size", sizes, "head size")
    _check_context(folder, nodes, matrices)


def _check_context(folder: GenaiFolder, nodes: Iterable[NodeProto], matrices: Mapping[str, Sequence[int]]) -> None:
    """Raise for a context that is longer than the cosines [tokens, size / 2] that rotate queries and keys."""
    names = {node.input[_COSINES[node.op_type]] for node in nodes if len(node.input) > _COSINES.get(node.op_type, 99)}
    rows = [matrices[name][0] for name in names if len(matrices.get(name, ())) == 2]
    stated = folder.config["model"]["context_length"]
    if rows and stated > min(rows):
        raise BadInputError(
            f"{GENAI_CONFIG}: model.context_length: got {stated}, expected at most {min(rows)}, the positions that "
            f"{folder.model.name} has angles for"
        )


def _heads_of(node: NodeProto) -> int:
    is_attention = node.op_type.endswith("Attention")
    found: list[int] = [item.i for item in node.attribute if is_attention and item.name == "num_heads"]
    return found[0] if found else 0


def _width_of(node: NodeProto, matrices: Mapping[str, Sequence[int]]) -> int:
    """Return the number of columns that a product takes, 0 if the node is none."""
    if node.op_type == "MatMulNBits":
        found: list[int] = [item.i for item in node.attribute if item.name == "K"]
        return found[0] if found else 0
    is_product = node.op_type == "MatMul" and len(matrices.get(node.input[1], ())) == 2
    return matrices[node.input[1]][0] if is_product else 0


def _check_number(folder: GenaiFolder, key: str, found: set[int], name: str) -> None:
    stated = folder.decoder.get(key)
    if stated is not None and len(found) == 1 and stated not in found:
        raise BadInputError(
            f"{GENAI_CONFIG}: model.decoder.{key}: got {stated!r:.80}, expected {name} {found.pop()} of attention in "
            f"{folder.model.name}"
        )


def _check_states(folder: GenaiFolder, pattern: str, values: Iterable[ValueInfoProto]) -> None:
    """Raise for a state of a layer that the configuration does not count, or with other sizes."""
    before, _, behind = pattern.partition("%d")
    spelled = re.compile(f"{re.escape(before)}([0-9]+){re.escape(behind)}")
    layers = folder.decoder["num_hidden_layers"]
    for value in values:
        if not (found := spelled.fullmatch(value.name)):
            continue
        if int(found[1]) >= layers:
            raise BadInputError(
                f"{GENAI_CONFIG}: model.decoder.num_hidden_layers: got {layers}, but {folder.model.name} has "
                f"{value.name!r:.80}: expected the configuration of this ONNX file"
            )
        shape = value.type.tensor_type.shape.dim
        for place, key in _SIZES.items() if len(shape) == 4 else ():
            stated, size = folder.decoder.get(key), shape[place].dim_value
            if stated is not None and size and size != stated:
                raise BadInputError(
                    f"{GENAI_CONFIG}: model.decoder.{key}: got {stated!r:.80}, expected the {size} of "
                    f"{value.name!r:.80} in {folder.model.name}"
                )
