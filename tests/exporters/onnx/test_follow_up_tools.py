"""Other tools on an exported file: measurements for the table of `docs/guides/after-export.md`.

Each tool runs on every model. Its row states whether the operators and their portable bodies stay; the outputs of the
model must not change.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import compose
from onnxruntime.quantization import quantize_dynamic

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.inspection.inspect import inspect_file

from .follow_up_tools import DIM, EIGHT_BITS, HALF, MODELS, ROWS, TOOLS, Tool, half, simplify, slim

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "after-export.md").read_text(encoding="utf-8")
DENSE_BYTES = 4 * ROWS * DIM
IDS = np.array([[17, 4, 256, 1999]])
WORDS = {"stay": True, "gone": False}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the exported files by model name."""
    folder = tmp_path_factory.mktemp("exported")
    torch.manual_seed(0)
    for name, model in MODELS.items():
        edge_embed.export(model(), "onnx", folder / f"{name}.onnx", torch.tensor([[17, 4, 256]]))
    return {name: folder / f"{name}.onnx" for name in MODELS}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Silence the root logger, on which tools print advice."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def scores(path: Path, portable: bool) -> np.ndarray:
    """Return the output that holds no ids, under any name."""
    session = edge_embed.create_session(path, portable=portable)
    outputs = session.run(None, {session.get_inputs()[0].name: IDS})
    return next(output for output in outputs if output.dtype == np.float32)


def assert_close(got: np.ndarray, expected: np.ndarray, change: float) -> None:
    np.testing.assert_allclose(got, expected, rtol=0, atol=change * np.abs(expected).max())


def readme_rows() -> dict[str, tuple[bool, bool]]:
    """Return whether nodes and bodies stay, by the first cell of the guide's rows."""
    table = GUIDE.split("\n| step | nodes | bodies | |\n", 1)[1].split("\n\n", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]
    return {step: (WORDS[nodes], WORDS[bodies]) for step, nodes, bodies, _ in rows}


def test_guide_rows_match_measured_tools():
    assert readme_rows().keys() == TOOLS.keys()


def is_sound(row: str, used: Tool, name: str) -> bool:
    """Return whether the result of a tool opens and can be inspected; other tests cover the exceptions."""
    return not ("output layer" in name and not used.output_layers) and not ("float16" in row and "ant" in name)


@pytest.mark.parametrize(
    ("row", "used", "name"),
    [
        pytest.param(row, used, name, id=f"{row[:40]}-{at}-{name}")
        for row, tools in TOOLS.items()
        for at, used in enumerate(tools)
        for name in MODELS
        if is_sound(row, used, name)
    ],
)
@pytest.mark.slow
def test_tool_keeps_nodes_and_bodies_as_its_row_says(exported, tmp_path, row, used, name):
    path = tmp_path / f"after.{'ort' if 'to_ort' in repr(used.run) else 'onnx'}"
    used.run(exported[name], path)
    nodes, bodies = readme_rows()[row]
    report = inspect_file(path, verify=used.verified and nodes)  # tools that inline may replace tensors
    operators = report.onnx.operators
    assert (any(item.nodes for item in operators), any(item.body for item in operators)) == (nodes, bodies)
    assert report.exit_code == 0 or not used.verified
    lost = [text for text in report.warnings if "slow path only" in text or "needs the operator library" in text]
    assert bool(lost) == (not (nodes and bodies))
    assert report.total_bytes < exported[name].stat().st_size + DENSE_BYTES // 4  # the table stays packed
    expected = scores(exported[name], portable=False)
    assert_close(scores(path, portable=False), expected, used.change)
    if bodies or not nodes:
        assert_close(scores(path, portable=True), expected, used.change)
    else:
        with pytest.raises(BadInputError, match="is not a registered function/op"):
            scores(path, portable=True)


@pytest.mark.parametrize("name", [name for name in MODELS if "output layer" in name])
@pytest.mark.parametrize(
    "run",
    [used.run for tools in TOOLS.values() for used in tools if not used.output_layers],
    ids=["pre_process", "optimized"],
)
def test_output_layer_inlined_by_onnx_runtime_does_not_open(exported, tmp_path, run, name):
    run(exported[name], tmp_path / "after.onnx")
    with pytest.raises(BadInputError, match="single static assignment"):
        edge_embed.create_session(tmp_path / "after.onnx", portable=True)
    report = inspect_file(tmp_path / "after.onnx")
    assert report.exit_code == 0
    assert "skip_optimization=True" in report.warnings[0]


@pytest.mark.parametrize("package", ["onnxconverter_common.float16", "onnxruntime.transformers.float16"])
def test_ant_in_float16_runs_though_inspect_refuses_its_scale(exported, tmp_path, package):
    half(package, exported["ant bag"], tmp_path / "after.onnx")
    expected = scores(exported["ant bag"], portable=False)
    for portable in (False, True):
        assert_close(scores(tmp_path / "after.onnx", portable), expected, HALF)
    with pytest.raises(BadInputError, match="weight_scale: got float16"):
        inspect_file(tmp_path / "after.onnx")


def test_float16_conversion_is_named_where_tables_differ(exported, tmp_path):
    half("onnxconverter_common.float16", exported["dpq output layer"], tmp_path / "after.onnx")
    report = inspect_file(tmp_path / "after.onnx")
    assert report.exit_code == 3
    assert "a float16 conversion changed it; export the model after model.half()" in report.differences[0]


def test_operator_prefix_is_named_with_remedy(exported, tmp_path):
    onnx.save(compose.add_prefix(onnx.load(exported["dpq"]), "a_"), tmp_path / "after.onnx")
    with pytest.raises(BadInputError, match=r"got operator 'a_DPQEmbedding'.*rename_functions=False"):
        inspect_file(tmp_path / "after.onnx")


def test_merge_of_two_models_of_one_method_is_refused(exported):
    both = [
        compose.add_prefix(onnx.load(exported[name]), prefix, rename_functions=False)
        for name, prefix in (("dpq", "a_"), ("dpq output layer", "b_"))
    ]
    for model in both:
        del model.metadata_props[:]
    with pytest.raises(ValueError, match="overlapping local function names"):
        compose.merge_models(*both, io_map=[])


@pytest.mark.parametrize("fold", [simplify, slim])
def test_lstm_weights_take_a_quarter_after_constant_folding(exported, tmp_path, fold):
    source = exported["tt output layer"]
    fold(source, tmp_path / "folded.onnx")
    sizes = {}
    for name, given in (("as exported", source), ("folded", tmp_path / "folded.onnx")):
        path = tmp_path / f"{name}.onnx"
        quantize_dynamic(given, path)
        sizes[name] = path.stat().st_size
        for portable in (False, True):
            assert_close(scores(path, portable), scores(source, False), EIGHT_BITS)
    weights = 4 * 2 * DIM * 4 * DIM  # float32, four gates, from input and state
    assert abs(sizes["as exported"] - source.stat().st_size) < 2048
    assert abs(source.stat().st_size - sizes["folded"] - 0.75 * weights) < 4096


def test_gru_in_float16_is_half_as_large(exported, tmp_path):
    half("onnxconverter_common.float16", exported["dpq"], tmp_path / "after.onnx")
    tables = sum(table.stored_bytes for table in inspect_file(exported["dpq"]).tables)
    assert (tmp_path / "after.onnx").stat().st_size < 0.55 * (exported["dpq"].stat().st_size - tables) + tables
