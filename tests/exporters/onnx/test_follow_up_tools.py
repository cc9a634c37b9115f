"""What other tools do to an exported file: the table in README.md, "What you do to the file next", is measured here.

Each tool runs on every model; its row says whether our nodes and their portable bodies are still there after it, and
what comes out of the model must still be the same.
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
    """The exported files, by the names above."""
    folder = tmp_path_factory.mktemp("exported")
    torch.manual_seed(0)
    for name, model in MODELS.items():
        edge_embed.export(model(), "onnx", folder / f"{name}.onnx", torch.tensor([[17, 4, 256]]))
    return {name: folder / f"{name}.onnx" for name in MODELS}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Tools advise on the root logger."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def scores(path: Path, portable: bool) -> np.ndarray:
    """The output that is no ids, whatever a tool calls it."""
    session = edge_embed.create_session(path, portable=portable)
    outputs = session.run(None, {session.get_inputs()[0].name: IDS})
    return next(output for output in outputs if output.dtype == np.float32)


def assert_close(got: np.ndarray, expected: np.ndarray, change: float) -> None:
    np.testing.assert_allclose(got, expected, rtol=0, atol=change * np.abs(expected).max())


def readme_rows() -> dict[str, tuple[bool, bool]]:
    """Whether nodes and bodies stay, by the first cell of the README's table."""
    table = GUIDE.split("\n| step | nodes | bodies | |\n", 1)[1].split("\n\n", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]
    return {step: (WORDS[nodes], WORDS[bodies]) for step, nodes, bodies, _ in rows}


def test_every_row_of_the_readme_is_measured():
    assert readme_rows().keys() == TOOLS.keys()


def is_sound(row: str, used: Tool, name: str) -> bool:
    """Whether what a tool makes of a model opens and can be inspected; tests of their own tell of the others."""
    return not ("head" in name and not used.heads) and not ("float16" in row and "ant" in name)


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
def test_a_tool_does_what_its_row_says(exported, tmp_path, row, used, name):
    path = tmp_path / f"after.{'ort' if 'to_ort' in repr(used.run) else 'onnx'}"
    used.run(exported[name], path)
    nodes, bodies = readme_rows()[row]
    report = inspect_file(path, verify=used.verified and nodes)  # what inlines may replace tensors
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


@pytest.mark.parametrize("name", [name for name in MODELS if "head" in name])
@pytest.mark.parametrize(
    "run", [used.run for tools in TOOLS.values() for used in tools if not used.heads], ids=["pre_process", "optimized"]
)
def test_a_head_that_onnx_runtime_inlined_into_a_file_does_not_open(exported, tmp_path, run, name):
    run(exported[name], tmp_path / "after.onnx")
    with pytest.raises(BadInputError, match="single static assignment"):
        edge_embed.create_session(tmp_path / "after.onnx", portable=True)
    report = inspect_file(tmp_path / "after.onnx")
    assert report.exit_code == 0
    assert "skip_optimization=True" in report.warnings[0]


@pytest.mark.parametrize("package", ["onnxconverter_common.float16", "onnxruntime.transformers.float16"])
def test_ant_in_float16_runs_though_its_scale_is_not_what_the_format_has(exported, tmp_path, package):
    half(package, exported["ant bag"], tmp_path / "after.onnx")
    expected = scores(exported["ant bag"], portable=False)
    for portable in (False, True):
        assert_close(scores(tmp_path / "after.onnx", portable), expected, HALF)
    with pytest.raises(BadInputError, match="weight_scale: got float16"):
        inspect_file(tmp_path / "after.onnx")


def test_a_float16_conversion_is_named_where_the_tables_differ(exported, tmp_path):
    half("onnxconverter_common.float16", exported["dpq head"], tmp_path / "after.onnx")
    report = inspect_file(tmp_path / "after.onnx")
    assert report.exit_code == 3
    assert "a float16 conversion did it; export the model after model.half()" in report.differences[0]


def test_a_prefix_on_operators_is_named(exported, tmp_path):
    onnx.save(compose.add_prefix(onnx.load(exported["dpq"]), "a_"), tmp_path / "after.onnx")
    with pytest.raises(BadInputError, match=r"got operator 'a_DPQEmbedding'.*rename_functions=False"):
        inspect_file(tmp_path / "after.onnx")


def test_two_models_of_one_method_do_not_merge(exported):
    both = [
        compose.add_prefix(onnx.load(exported[name]), prefix, rename_functions=False)
        for name, prefix in (("dpq", "a_"), ("dpq head", "b_"))
    ]
    for model in both:
        del model.metadata_props[:]
    with pytest.raises(ValueError, match="overlapping local function names"):
        compose.merge_models(*both, io_map=[])


@pytest.mark.parametrize("fold", [simplify, slim])
def test_the_weights_of_an_lstm_take_a_quarter_once_they_are_constants(exported, tmp_path, fold):
    source = exported["tt head"]
    fold(source, tmp_path / "folded.onnx")
    sizes = {}
    for name, given in (("as exported", source), ("folded", tmp_path / "folded.onnx")):
        path = tmp_path / f"{name}.onnx"
        quantize_dynamic(given, path)
        sizes[name] = path.stat().st_size
        for portable in (False, True):
            assert_close(scores(path, portable), scores(source, False), EIGHT_BITS)
    weights = 4 * 2 * DIM * 4 * DIM  # float32, four gates, from the input and from the state
    assert abs(sizes["as exported"] - source.stat().st_size) < 2048
    assert abs(source.stat().st_size - sizes["folded"] - 0.75 * weights) < 4096


def test_a_gru_in_float16_is_half_as_large(exported, tmp_path):
    half("onnxconverter_common.float16", exported["dpq"], tmp_path / "after.onnx")
    tables = sum(table.stored_bytes for table in inspect_file(exported["dpq"]).tables)
    assert (tmp_path / "after.onnx").stat().st_size < 0.55 * (exported["dpq"].stat().st_size - tables) + tables
