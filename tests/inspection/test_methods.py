"""Tables of every method and use: `inspect` reports the same table in every kind of file."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.export import export_onnx
from edge_embed.fitting import rows
from edge_embed.inspection.inspect import inspect_file
from edge_embed.inspection.render import render_file
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.bag import DPQEmbeddingBag
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.tied_output import TiedOutput
from edge_embed.layers.tiered import TieredEmbedding
from edge_embed.layers.tr import TREmbedding
from edge_embed.layers.tt import TTEmbedding
from edge_embed.lowering.graph import lower_program
from edge_embed.ops.topk import TopK
from edge_embed.packed import load_tables, save_tables
from edge_embed.program.capture import write_archive
from edge_embed.program.reader import read_program
from edge_embed.report.views.exported import table_cells
from edge_embed.runtime.session import create_session
from edge_embed.validation.paths import missing_library

from ..tiered_tables import tiered

SIZES = (120, 12)  # rows, columns


class Words(nn.Module):
    """A tied ANT table (lookup and output layer), a frozen one, tensor trains, a tensor ring, and bags of DPQ rows."""

    def __init__(self) -> None:
        super().__init__()
        self.word = ANTEmbedding(*SIZES, num_anchors=6, padding_idx=3)
        self.frozen = ANTEmbedding(*SIZES, num_anchors=6)
        self.frozen.freeze()
        self.item = TTEmbedding(*SIZES, rank=2)
        self.round = TREmbedding(*SIZES, rank=2)
        self.sorted = TTEmbedding(*SIZES, rank=2, row_order=torch.arange(SIZES[0] - 1, -1, -1))
        self.integers = rows.fit(torch.randn(*SIZES), 4, 3)
        self.tiers = TieredEmbedding.from_packed(
            tiered(sizes=(20, 40, 60), dim=SIZES[1], value_type="float32", padding_idx=None)
        )
        self.context = DPQEmbeddingBag(*SIZES, num_codes=4, num_groups=3, variant="vq")
        self.output = TiedOutput(self.word)

    def forward(self, ids: Tensor) -> tuple[Tensor, TopK]:
        rows = self.word(ids) + self.frozen(ids) + self.item(ids) + self.round(ids) + self.sorted(ids)  # [B, L, d]
        hidden = rows + self.integers(ids) + self.tiers(ids) + self.context(ids).unsqueeze(1)
        return self.output(hidden), self.output.topk(hidden, 5)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(Words, tmp_path_factory.mktemp("methods"))


def written(make: Callable[[], nn.Module], folder: Path) -> Path:
    """Write the model in every kind of file, and return the folder."""
    torch.manual_seed(0)
    with (folder / "model.pt").open("wb") as file:
        write_archive(make().eval(), file, torch.randint(0, SIZES[0], (2, 3)))
    lowered = lower_program(read_program(folder / "model.pt"))
    save_tables(folder / "tables.safetensors", lowered.tables)
    export_onnx(lowered, folder / "model.onnx", "never")
    return folder


def reports(made):
    return [inspect_file(made / name, verify=True) for name in ("model.pt", "tables.safetensors", "model.onnx")]


def test_tables_of_each_method_are_equal_in_each_file(made):
    packed = load_tables(made / "tables.safetensors")
    for report in reports(made):
        assert (
            {table.name for table in report.tables}
            == packed.keys()
            == {"word", "frozen", "item", "round", "sorted", "integers", "tiers", "context"}
        )
        for info in report.tables:
            table = packed[info.name]
            assert (info.method, info.padding_idx) == (table.method, table.padding_idx)
            assert (info.num_embeddings, info.embedding_dim, info.value_type) == (*SIZES, "float32")
            assert info.attributes == table.attributes()
            assert info.compression_ratio == table.compression_ratio
            assert info.inference_bytes == {name: array.nbytes for name, array in table.tensors().items()}
            assert info.hash_status == "matches"
        assert not report.differences
        assert not report.warnings


def test_operators_of_each_use_are_listed(made):
    operators = [(item.op_type, item.nodes, item.body) for item in reports(made)[2].onnx.operators]
    assert operators == [
        ("ANTEmbedding", 2, True),
        ("ANTLogits", 1, True),
        ("ANTTopK", 1, True),
        ("DPQEmbeddingBag", 1, True),  # its body calls DPQEmbedding, whose body is in the file while no node uses it
        ("DPQScaledEmbedding", 1, True),
        ("TTEmbedding", 2, True),
        ("TTOrderedEmbedding", 1, True),
        ("TieredEmbedding", 1, True),
    ]


def test_body_of_removed_node_gives_warning(made, tmp_path):
    model = onnx.load(made / "model.onnx")
    node = next(node for node in model.graph.node if node.op_type == "DPQEmbeddingBag")
    node.op_type, node.domain = "SomethingElse", "other"
    onnx.save(model, tmp_path / "m.onnx")
    warnings = inspect_file(tmp_path / "m.onnx").warnings
    assert any(text.startswith("DPQEmbeddingBag has a body, but no node uses it") for text in warnings)


def test_body_missing_for_another_body_gives_warning(made, tmp_path):
    model = onnx.load(made / "model.onnx")
    kept = [function for function in model.functions if function.name != "DPQEmbedding"]
    del model.functions[:]
    model.functions.extend(kept)
    onnx.save(model, tmp_path / "m.onnx")
    warnings = inspect_file(tmp_path / "m.onnx").warnings
    assert any(text.startswith("DPQEmbedding: no portable body") for text in warnings)


def test_optimised_file_keeps_row_order_and_row_scales(made, tmp_path):
    """ONNX Runtime with the library inlines the node without a kernel, so no node of the package holds the order."""
    if reason := missing_library():
        pytest.skip(reason)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    create_session(made / "model.onnx", False, options)
    report = inspect_file(tmp_path / "optimized.onnx", verify=True)
    assert "TTOrderedEmbedding" not in [item.op_type for item in report.onnx.operators]
    assert "DPQScaledEmbedding" in [item.op_type for item in report.onnx.operators]  # it has a kernel
    integers = next(table for table in report.tables if table.name == "integers")
    assert integers.attributes["num_row_scales"] == SIZES[0] - 1
    assert integers.hash_status == "matches"
    table = next(table for table in report.tables if table.name == "sorted")
    assert table.attributes["has_row_order"]
    assert table.inference_bytes["row_order"] == 4 * SIZES[0]
    assert table.hash_status == "matches"
    assert not report.differences


def test_saved_program_lists_state_of_each_table(made):
    states = {table.name: table.state for table in reports(made)[0].tables}
    cores = {"item": "stored", "round": "stored", "sorted": "stored"}
    assert states == {
        "word": "trainable",
        "frozen": "frozen",
        "integers": "frozen",
        "tiers": "frozen",
        "context": "trainable",
        **cores,
    }


def shown(report):
    file = io.StringIO()
    render_file(report, Console(file=file))
    return {line.split()[0]: " ".join(line.split()) for line in file.getvalue().splitlines() if line}


def test_text_names_parameters_of_sizes(made):
    lines = shown(reports(made)[1])
    word = load_tables(made / "tables.safetensors")["word"].attributes()
    expected = f"word ant packed 120 x 12 A=6 nonzeros={word['num_nonzeros']} float32, pad 3 "
    assert lines["word"].startswith(expected)
    assert " transform " in lines["word"]
    assert lines["item"].startswith("item tt packed 120 x 12 I=")
    assert " J=" in lines["item"]
    assert " R=1x2x2x1 " in lines["item"]
    assert " R=1x2x2x1, ordered " in lines["sorted"]
    assert " order 480 B + cores " in lines["sorted"]
    layout = "K=16 D=12 4 bit, shared, 119 row scales, pad 3"
    assert lines["integers"].startswith(f"integers rows (as dpq) packed 120 x 12 {layout} ")
    assert "x cores " in lines["item"]
    tiers = "20 rows K=20 D=1 5 bit; 40 rows K=15 D=12 4 bit, shared, 5 row scales; 60 rows K=6 D=6 3 bit, mapped 3.1x"
    assert lines["tiers"].startswith(f"tiers tiered packed 120 x 12 {tiers}")
    assert lines["round"].startswith("round tt packed 120 x 12 I=")
    assert " R=2x2x2x2 " in lines["round"]


def test_verify_reports_changed_anchor(made, tmp_path):
    model = onnx.load(made / "model.onnx")
    anchors = next(tensor for tensor in model.graph.initializer if tensor.name == "word.anchors")
    anchors.raw_data = anchors.raw_data[:-1] + bytes([anchors.raw_data[-1] ^ 1])
    onnx.save(model, tmp_path / "m.onnx")
    assert any("word" in text and "anchors" in text for text in inspect_file(tmp_path / "m.onnx", True).differences)


def replaced(made, path, name, array):
    """Write the model with another array as initializer, and return the path."""
    model = onnx.load(made / "model.onnx")
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, path)
    return path


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("word.row_offsets", np.zeros((121, 1), np.int32), r"row_offsets: got shape \[121, 1\], expected 1 dimensions"),
        ("word.row_offsets", np.zeros(121, np.int64), r"row_offsets: got int64 \[121\], expected int32"),
        ("word.weights", np.zeros(3, np.float64), "weight_type: got 'float64'"),
        ("word.anchor_ids", np.zeros(3, np.uint8), r"anchor_ids: got uint8 \[3\], expected uint8"),
        ("word.anchors", np.zeros((6, 12)), "anchors: got float64 .*, expected float32"),
        ("item.core_1", np.zeros((3, 2), np.float32), r"core_1: got shape \[3, 2\], expected 4 dimensions"),
        ("item.core_1", np.zeros((9, 3, 1, 2), np.float32), r"core_1: got float32 \[9, 3, 1, 2\], expected"),
        ("item.core_0", np.zeros((1, 1, 1, 2), np.float32), "row_shape: got .* expected 120"),
    ],
)
def test_tensors_of_impossible_table_are_refused(made, tmp_path, name, array, message):
    path = replaced(made, tmp_path / "m.onnx", name, array)
    with pytest.raises(BadInputError, match=message):
        inspect_file(path)


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("bits_0", "tier 0: bits: got 9, expected 5 for 20 codes"),
        ("num_groups_2", "tier 2: got 18 of float32, expected 12"),
    ],
)
def test_attributes_of_impossible_tier_are_refused(made, tmp_path, attribute, message):
    model = onnx.load(made / "model.onnx")
    node = next(node for node in model.graph.node if node.op_type == "TieredEmbedding")
    next(each for each in node.attribute if each.name == attribute).i = 9
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(BadInputError, match=message):
        inspect_file(tmp_path / "m.onnx")


class Narrow(nn.Module):
    """A frozen DPQ table with int8 values."""

    def __init__(self) -> None:
        super().__init__()
        self.word = DPQEmbedding(*SIZES, num_codes=4, num_groups=3, padding_idx=3).freeze("int8")

    def forward(self, ids: Tensor) -> Tensor:
        rows: Tensor = self.word(ids)
        return rows


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(Narrow, tmp_path_factory.mktemp("narrow"))


def test_int8_values_are_listed_in_each_file(narrow):
    packed = load_tables(narrow / "tables.safetensors")["word"]
    for report in reports(narrow):
        (info,) = report.tables
        assert info.value_type == packed.value_type == "int8"
        assert info.inference_bytes == {"codes": 120, "values": 48, "value_scales": 12}
        assert info.compression_ratio == packed.compression_ratio
        assert info.hash_status == "matches"
        assert not report.differences
        line = shown(report)["word"]
        assert "K=4 D=3 2 bit int8, pad 3" in line
        assert "codes 120 B + values 60 B" in line  # with their scales


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("word.values", np.zeros((3, 4, 4), np.float32), r"values: got float32 .*, expected int8 \[3, 4, 4\]"),
        ("word.value_scales", np.ones(2, np.float32), r"value_scales: got float32 \[2\], expected float32 \[3\]"),
        ("word.value_scales", np.ones(3, np.float16), r"value_scales: got float16 \[3\], expected float32"),
    ],
)
def test_int8_tensors_of_impossible_table_are_refused(narrow, tmp_path, name, array, message):
    with pytest.raises(BadInputError, match=message):
        inspect_file(replaced(narrow, tmp_path / "m.onnx", name, array))


def test_int8_values_without_scales_are_refused(narrow, tmp_path):
    model = onnx.load(narrow / "model.onnx")
    del model.graph.node[0].input[-1]
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(BadInputError, match=r"values: got int8 .*, expected float32 \[3, 4, 4\]"):
        inspect_file(tmp_path / "m.onnx")


def test_node_with_missing_input_is_refused(made, tmp_path):
    model = onnx.load(made / "model.onnx")
    node = next(node for node in model.graph.node if node.op_type == "DPQEmbeddingBag")
    del node.input[-1]
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(BadInputError, match="got 4 inputs, expected 5"):
        inspect_file(tmp_path / "m.onnx")


@pytest.mark.parametrize("cores", [1, 7])
def test_node_with_impossible_number_of_cores_is_refused(made, tmp_path, cores):
    model = onnx.load(made / "model.onnx")
    node = next(node for node in model.graph.node if node.op_type == "TTEmbedding")
    inputs = [node.input[0], *["item.core_0"] * cores]
    del node.input[:]
    node.input.extend(inputs)
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(BadInputError, match=f"got {cores + 1} inputs, expected {3 if cores == 1 else 7}"):
        inspect_file(tmp_path / "m.onnx")


@pytest.mark.parametrize(("positive", "told"), [(16, True), (2, False)])
def test_dense_transform_is_named_with_remedy(tmp_path, positive, told):
    layer = ANTEmbedding(600, 64, num_anchors=16)
    with torch.no_grad():
        layer.transform[:, positive:] = -1
    report = edge_embed.export(layer, "onnx", tmp_path / "m.onnx", torch.tensor([1]))
    remedy = "100% of the transform is nonzero: train with edge_embed.ProximalOptimizer, and raise its penalty"
    assert (remedy in " ".join(table_cells(report.tables[0]))) == told
    assert any(remedy in note for note in inspect_file(tmp_path / "m.onnx").notes) == told
