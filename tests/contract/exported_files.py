"""Lines of the golden tables in files of every kind: names, operators and attributes as text, content as hashes.

The hash of an ONNX file excludes the version of its producer.
"""

import hashlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import onnx
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn

import edge_embed
from edge_embed import workflow
from edge_embed.inspection.tflite_file import read_tflite
from edge_embed.layers.bag import bag_of
from edge_embed.layers.scaled_dpq import ScaledDPQEmbedding
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.layers.tiered import TieredEmbedding
from edge_embed.packed import PackedANT, PackedDPQ, PackedTable, PackedTiered, PackedTT, load_tables, save_tables
from edge_embed.program.program import Program

GOLDEN = Path(__file__).parents[1] / "golden"
_EXAMPLE = torch.tensor([[0, 1], [1, 0]])
_MODES = ("sum", "mean", "max")
_HASH = re.compile(r"[0-9a-f]{64}")
# Output layers take longest to export: ONNX exports those of one file for each different body, TFLite those of two
# methods.
_WITH_OUTPUT_LAYERS = {"onnx": ("ant_v1", "dpq_scaled_v1", "dpq_v1", "tt_v1"), "tflite": ("ant_v1", "dpq_v1")}


class Uses(nn.Module):
    """A model with all uses of tables: rows, bags with a mode for each table, and optionally logits and top-k."""

    def __init__(self, tables: Mapping[str, PackedTable], with_output_layers: bool) -> None:
        super().__init__()
        named = {name.replace(".", "_"): table for name, table in tables.items()}
        layers = {name: _layer(table) for name, table in named.items()}
        bags = zip(named.items(), _MODES, strict=False)
        self.rows = nn.ModuleDict(layers)
        self.bags = nn.ModuleDict({name: bag_of(_layer(table), mode) for (name, table), mode in bags})
        tied = layers if with_output_layers else {}
        self.output_layers = nn.ModuleDict({name: edge_embed.TiedOutput(layer) for name, layer in tied.items()})

    def forward(self, ids: Tensor) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for name, table in self.rows.items():
            rows = found[f"{name}_rows"] = table(ids)
            found[f"{name}_bag"] = self.bags[name](ids)
            if name in self.output_layers:
                output_layer = self.output_layers[name]
                found[f"{name}_logits"] = output_layer(rows)
                found[f"{name}_largest"], found[f"{name}_largest_ids"] = output_layer.topk(rows, 2)  # type: ignore[operator]
        return found


def _layer(table: PackedTable) -> CompressedEmbedding:
    if isinstance(table, PackedANT):
        return edge_embed.ANTEmbedding.from_packed(table)
    if isinstance(table, PackedTT):
        is_ring = table.cores[0].shape[1] > 1
        return (edge_embed.TREmbedding if is_ring else edge_embed.TTEmbedding).from_packed(table)
    if isinstance(table, PackedTiered):
        return TieredEmbedding.from_packed(table)
    assert isinstance(table, PackedDPQ)
    is_scaled = table.row_scales is not None or table.unused_columns > 0
    return (ScaledDPQEmbedding if is_scaled else edge_embed.DPQEmbedding).from_packed(table)


def packed_lines() -> Iterator[str]:
    """Yield hashes of packed files that the current version writes from the golden tables."""
    with tempfile.TemporaryDirectory() as folder:
        for golden in sorted(GOLDEN.glob("*.safetensors")):
            save_tables(Path(folder, golden.name), load_tables(golden))
            yield f"{golden.name} sha256 {_sha256(Path(folder, golden.name).read_bytes())}"


def onnx_lines() -> Iterator[str]:
    """Yield the lines of ONNX files of golden tables and golden programs."""
    for name, program in _programs("onnx"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.onnx")
            workflow.export(program, "onnx", path, open=False)
            yield from (_shown(name, line) for line in _onnx_file(onnx.load(path)))


def tflite_lines() -> Iterator[str]:
    """Yield the lines of TFLite files of golden tables and golden programs."""
    for name, program in _programs("tflite"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.tflite")
            workflow.export(program, "tflite", path, open=False)
            yield from (_shown(name, line) for line in _tflite_file(path))


def _programs(target: str) -> Iterator[tuple[str, Program]]:
    for golden in sorted(GOLDEN.glob("*.safetensors")):
        sizes = {name: len(table.tensors()) for name, table in load_tables(golden).items()}
        for size in sorted(
            set(sizes.values())
        ):  # tables of one method share a body in ONNX, which requires one number of tensors
            names = tuple(name for name in sizes if sizes[name] == size)
            yield (
                f"{golden.stem} {' '.join(names)}",
                _captured(golden, names, golden.stem in _WITH_OUTPUT_LAYERS[target]),
            )
    yield from ((golden.stem, workflow.load(golden)) for golden in sorted(GOLDEN.glob("*.pt")))


@cache
def _captured(golden: Path, names: tuple[str, ...], with_output_layers: bool) -> Program:
    """Capture a program once for both targets, as it takes as long as an export."""
    tables = load_tables(golden)
    return workflow.load(Uses({name: tables[name] for name in names}, with_output_layers).eval(), _EXAMPLE)


def _onnx_file(model: onnx.ModelProto) -> Iterator[str]:
    model.ClearField("producer_version")
    yield f"IR version {model.ir_version}, producer {model.producer_name}, graph {model.graph.name}"
    yield from (f"opset {opset.domain or 'ai.onnx'} {opset.version}" for opset in model.opset_import)
    yield from (f"metadata {entry.key} {entry.value}" for entry in model.metadata_props)
    for kind, values in (("input", model.graph.input), ("output", model.graph.output)):
        yield from (f"{kind} {value.name} {_onnx_type(value.type.tensor_type)}" for value in values)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        yield f"tensor {tensor.name} {array.dtype}{list(array.shape)} {_sha256(array.tobytes())}"
    yield from (f"node {_onnx_node(node)}" for node in model.graph.node)
    for function in model.functions:
        attributes = [*function.attribute, *(attribute.name for attribute in function.attribute_proto)]
        yield f"function {function.domain}::{function.name}({', '.join([*function.input, *sorted(attributes)])})"
        yield f"body of {function.name} {_sha256(function.SerializeToString(deterministic=True))}"
    yield f"sha256 {_sha256(model.SerializeToString(deterministic=True))}"


def _onnx_type(kind: onnx.TypeProto.Tensor) -> str:
    sizes = [size.dim_param or str(size.dim_value) for size in kind.shape.dim]
    return f"{onnx.TensorProto.DataType.Name(kind.elem_type)}[{', '.join(sizes)}]"


def _onnx_node(node: onnx.NodeProto) -> str:
    values = ((attribute.name, helper.get_attribute_value(attribute)) for attribute in node.attribute)
    attributes = {name: _sha256(value.SerializeToString(deterministic=True)) if hasattr(value, "SerializeToString")
                  else value for name, value in values}  # fmt: skip
    shown = "".join(f" {name}={value}" for name, value in sorted(attributes.items()))
    kind = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    return f"{node.name} {kind}({', '.join(node.input)}) -> {', '.join(node.output)}{shown}"


def _tflite_file(path: Path) -> Iterator[str]:
    model = read_tflite(path)
    yield from (f"operator {name} {count}" for name, count in sorted(model.operators.items()))
    for key, value in sorted(model.metadata.items()):
        yield from (f"metadata {key} {text}" for text in value.splitlines())
    for kind, ports in (("input", model.inputs), ("output", model.outputs)):
        yield from (f"{kind} {port.name} {port.dtype}{list(port.shape)}" for port in ports)
    yield from (f"signature {name} {' '.join(port.name for port in ports)}" for name, ports in model.signatures.items())
    yield from (f"tensor {name} {model.sha256(name)}" for name in sorted(model.tensors))
    yield f"sha256 {_sha256(path.read_bytes())}"


def _shown(name: str, line: str) -> str:
    """Return a line with the name of its file, and a quarter of every hash."""
    return f"{name}: {_HASH.sub(lambda found: found[0][:16], line)}"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
