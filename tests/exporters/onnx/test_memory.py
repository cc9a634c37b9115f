"""Session memory for prepacked TT cores and for blocks of codes of DPQ output layers."""

import io
import re
import shutil
from dataclasses import replace

import onnx
import pytest
import torch
from rich.console import Console
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.export import export_onnx
from edge_embed.exporters.onnx.session_memory.tt import merged_bytes
from edge_embed.fitting.order import by_frequency
from edge_embed.inspection.inspect import inspect_file
from edge_embed.inspection.render import render_file
from edge_embed.layers.scaled_dpq import ScaledDPQEmbedding
from edge_embed.report.views.exported import table_cells
from edge_embed.validation.validate import ValidationOptions, validate_export

from .bodies import dpq, scaled
from .conftest import export_model

N, D = 300, 24
WAYS = ("library", "portable", "reference")


class Model(nn.Module):
    """One TT table with lookups, bags and an output layer, and a lookup of another method."""

    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.TTEmbedding(N, D, rank=4, padding_idx=3)
        self.other = edge_embed.DPQEmbedding(N, D, 4, 3)
        self.output = edge_embed.TiedOutput(self.words)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.words(ids) + self.words(ids % 5) + self.other(ids)
        return self.output(torch.tanh(hidden))


class OutputLayer(nn.Module):
    """A table that is only an output layer."""

    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.words = table
        self.output = edge_embed.TiedOutput(self.words)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.output(hidden)


class OutputLayers(nn.ModuleList):
    """Tables that are only output layers of the same hidden states."""

    def __init__(self, tables: list[nn.Module]) -> None:
        super().__init__(map(OutputLayer, tables))

    def forward(self, hidden: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(layer(hidden) for layer in self)


def session_bytes_of(report):
    return {table.name: table.session_bytes for table in report.tables}


def of_nodes(path) -> list[tuple[str, list[int]]]:
    nodes = [node for node in onnx.load(path).graph.node if node.domain == "edge_embed"]
    return sorted((node.op_type, [item.i for item in node.attribute if item.name == "memory_bytes"]) for node in nodes)


@pytest.fixture(scope="module")
def merged(tmp_path_factory):
    torch.manual_seed(0)
    made = export_model(tmp_path_factory.mktemp("merged"), Model())
    made.file = export_onnx(made.lowered, made.path.with_name("merged.onnx"), memory_megabytes=3)
    return made


@pytest.fixture
def exported(merged, tmp_path):
    """Return copies for tests that change them: ``model.onnx`` without session memory, and ``merged.onnx``."""
    for name in ("model.onnx", "merged.onnx"):
        shutil.copy(merged.path.with_name(name), tmp_path)
    return replace(merged, file=replace(merged.file, files=(tmp_path / "merged.onnx",)), _runners={})


def test_memory_bytes_is_set_on_row_nodes_and_bodies_stay(export, exported):
    most = 3 << 20
    rows = ("TTEmbedding", [most])
    assert of_nodes(exported.path) == [("DPQEmbedding", []), rows, rows, ("TTLogits", [])]
    plain = onnx.load(exported.path.with_name("model.onnx"))
    merged = onnx.load(exported.path)
    assert list(merged.functions) == list(plain.functions)
    onnx.checker.check_model(str(exported.path), full_check=True)
    bags = export(edge_embed.TTEmbeddingBag(N, D, rank=4))
    export_onnx(bags.lowered, bags.path, force=True, memory_megabytes=1)
    assert of_nodes(bags.path) == [("TTEmbeddingBag", [1 << 20])]


def test_memory_bytes_of_ordered_table_is_set_on_plain_node(export):
    """The outer node is inlined and shows the attribute to readers of the file; an output layer has none."""
    made = export(OutputLayer(edge_embed.TTEmbeddingBag(N, D, rank=4, row_order=torch.arange(N))), torch.randn(2, D))
    with pytest.raises(BadInputError, match="got a value for a model without session memory"):
        export_onnx(made.lowered, made.path, force=True, memory_megabytes=1)
    ordered = edge_embed.TTEmbedding(N, D, rank=4, padding_idx=3, row_order=by_frequency(torch.arange(N), 3))
    made = export(ordered)
    made.file = export_onnx(made.lowered, made.path, force=True, memory_megabytes=3)
    assert of_nodes(made.path) == [("TTOrderedEmbedding", [3 << 20])]
    body = next(body for body in onnx.load(made.path).functions if body.name == "TTOrderedEmbedding")
    (inner,) = [node for node in body.node if node.domain == "edge_embed"]
    assert (inner.op_type, next(item.i for item in inner.attribute if item.name == "memory_bytes")) == (
        "TTEmbedding",
        3 << 20,
    )
    assert session_bytes_of(made.file) == {"embedding": merged_bytes(made.lowered.tables["embedding"].shape, 3 << 20)}
    ids = torch.randint(0, N, (4, 7))
    (expected,) = made.trained(ids)
    for way in WAYS:
        torch.testing.assert_close(torch.from_numpy(made.run(way, ids)[0]), torch.from_numpy(expected))


def test_memory_option_leaves_default_bytes_and_is_repeatable(exported, tmp_path):
    written = []
    for name, megabytes in (("none", None), ("once", 3), ("twice", 3)):
        export_onnx(exported.lowered, tmp_path / name, memory_megabytes=megabytes)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == exported.path.with_name("model.onnx").read_bytes()
    assert written[0] != written[1] == written[2] == exported.path.read_bytes()


def inner_limits(path) -> list[tuple[str, list[int]]]:
    """Return the limits of session memory in nodes that bodies of scaled tables call."""
    bodies = [body for body in onnx.load(path).functions if "Scaled" in body.name]
    nodes = [node for body in bodies for node in body.node if node.domain == "edge_embed"]
    return [(node.op_type, [item.i for item in node.attribute if item.name == "memory_bytes"]) for node in nodes]


@pytest.mark.parametrize(("external", "megabytes", "limits"), [
    ("never", None, []), ("always", None, [0]), ("always", 1, [1 << 20]),
])  # fmt: skip
def test_output_layers_with_external_weights_have_no_copy_by_default(external, megabytes, limits, tmp_path):
    plain = dpq(N, 16, 12, D // 12, dtype="int8")
    layers = OutputLayers([edge_embed.DPQEmbedding.from_packed(plain), ScaledDPQEmbedding(scaled(plain, unused=0))])
    path = tmp_path / "model.onnx"
    file = export_onnx(edge_embed.lower(layers, torch.randn(2, D)), path, external, memory_megabytes=megabytes)
    assert of_nodes(path) == [("DPQLogits", limits), ("DPQScaledLogits", limits)]
    assert inner_limits(path) == [("DPQLogits", limits)]
    assert session_bytes_of(file) == session_bytes_of(inspect_file(path))
    assert set(session_bytes_of(file).values()) == {0 if limits == [0] else 19 * 2 * 64}


def test_paths_with_memory_give_same_rows(exported):
    ids = torch.randint(0, N, (4, 7))
    (expected,) = exported.trained(ids)
    for way in WAYS:
        (got,) = exported.run(way, ids)
        # A few roundings of float32 for numbers up to 1: prepacked cores are summed in another order.
        torch.testing.assert_close(torch.from_numpy(got), torch.from_numpy(expected), rtol=0, atol=4 * 2.0**-23)


@pytest.mark.slow
def test_validation_with_memory_passes_and_finds_wrong_row(exported, flip_bit):
    def report():
        options = ValidationOptions(iterations=2, warmup=0)
        return validate_export(exported.program, exported.lowered, exported.path, options)

    assert report().passed
    flip_bit(exported.path, "words.core_2", byte=2, bit=0)
    assert not report().passed


def test_reports_give_session_bytes_of_every_node(exported):
    each = merged_bytes(exported.lowered.tables["words"].shape, 3 << 20)
    assert each > 0
    assert session_bytes_of(exported.file) == {"words": 2 * each, "other": 0}
    assert session_bytes_of(inspect_file(exported.path)) == {"words": 2 * each, "other": 0}
    console = Console(file=io.StringIO(), width=200)
    render_file(inspect_file(exported.path), console)
    assert f", session memory up to {2 * each / 1024:.1f} KiB" in console.file.getvalue()


def test_output_layers_of_four_bits_take_their_codes_by_default(tmp_path):
    tables = [edge_embed.DPQEmbedding(N, D, num_codes, 12) for num_codes in (16, 9, 8, 17)]
    lowered = edge_embed.lower(OutputLayers(tables), torch.randn(2, D))
    # 19 blocks of 16 rows; 6 bytes a row are padded to 8.
    blocks = {f"{at}.words": 19 * 2 * 64 if table.num_codes in (9, 16) else 0 for at, table in enumerate(tables)}
    found = {}
    for megabytes in (None, 0, 1):
        path = tmp_path / f"{megabytes}.onnx"
        file = export_onnx(lowered, path, memory_megabytes=megabytes)
        assert session_bytes_of(file) == session_bytes_of(inspect_file(path))
        found[megabytes] = (session_bytes_of(file), of_nodes(path))
    assert found == {
        None: (blocks, 4 * [("DPQLogits", [])]),
        0: (dict.fromkeys(blocks, 0), 4 * [("DPQLogits", [0])]),
        1: (blocks, 4 * [("DPQLogits", [1 << 20])]),
    }


def test_workflow_passes_memory_to_export(tmp_path):
    table = edge_embed.TTEmbedding(N, D, rank=4)
    report = edge_embed.export(table, "onnx", tmp_path / "a.onnx", torch.tensor([[1]]), memory_megabytes=2)
    assert of_nodes(tmp_path / "a.onnx") == [("TTEmbedding", [2 << 20])]
    (found,) = report.tables
    assert found.session_bytes > 0
    assert f"lowered, up to {found.session_bytes:,} bytes of session memory" in table_cells(found)


def test_megabytes_below_least_are_reported_with_enough(tmp_path):
    table = edge_embed.TTEmbedding(50_000, 128, rank=16)

    def exported(megabytes):
        path = tmp_path / f"{megabytes}.onnx"
        report = edge_embed.export(table, "onnx", path, torch.tensor([[1]]), memory_megabytes=megabytes)
        console = Console(file=io.StringIO(), width=200)
        console.print(report.render())
        hints = [line for line in console.file.getvalue().splitlines() if "no faster" in line]
        return report.tables[0], hints

    few, (hint,) = exported(1)
    serve = int(re.search(r"no faster with this session memory; use --memory-megabytes (\d+) ", hint)[1])
    assert f"({few.needed_bytes:,} bytes per use)" in hint
    assert few.session_bytes == 0
    assert exported(serve - 1)[0].session_bytes == 0
    enough, hints = exported(serve)
    assert (enough.session_bytes, enough.needed_bytes, hints) == (few.needed_bytes, 0, [])
    for nothing in (0, None):  # requests no memory
        assert exported(nothing)[1] == []


def test_megabytes_without_use_are_refused(make_table, tmp_path):
    tables = edge_embed.TTEmbedding(N, D, rank=4), edge_embed.ANTEmbedding(N, D, 8)
    models = (make_table(), torch.tensor([[1]])), *((OutputLayer(table), torch.randn(2, D)) for table in tables)
    for lowered in (edge_embed.lower(model, example) for model, example in models):
        with pytest.raises(BadInputError, match="memory_megabytes: got a value for a model without session memory"):
            export_onnx(lowered, tmp_path / "x.onnx", memory_megabytes=1)
        assert not (tmp_path / "x.onnx").exists()
        export_onnx(lowered, tmp_path / "0.onnx", force=True, memory_megabytes=0)  # requests no memory


@pytest.mark.parametrize("megabytes", [-1, 1 << 43, 1.5])
def test_megabytes_that_are_no_byte_count_are_refused(one_table, tmp_path, megabytes):
    with pytest.raises(BadInputError, match="memory_megabytes: got "):
        export_onnx(one_table.lowered, tmp_path / "x.onnx", memory_megabytes=megabytes)


@pytest.mark.parametrize(
    ("value", "message"),
    [(-5, "memory_bytes: got -5, expected at least 0"), (1.5, "got no integer attribute memory_bytes")],
)
def test_memory_bytes_with_hostile_value_is_refused_by_inspection(exported, value, message):
    model = onnx.load(exported.path)
    node = next(node for node in model.graph.node if node.op_type == "TTEmbedding")
    (attribute,) = [item for item in node.attribute if item.name == "memory_bytes"]
    attribute.CopyFrom(onnx.helper.make_attribute("memory_bytes", value))
    exported.path.write_bytes(model.SerializeToString())
    with pytest.raises(BadInputError, match=message):
        inspect_file(exported.path)
