"""Files in ORT format: `inspect` recognises, lists and verifies them, and refuses damaged ones."""

import contextlib
import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from onnxruntime.tools.convert_onnx_models_to_ort import OptimizationStyle, convert_onnx_models_to_ort
from rich.console import Console

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.inspection.inspect import inspect_file
from edge_embed.inspection.render import render_file
from edge_embed.packed import load_tables


@pytest.fixture(scope="module", params=["library", "portable"])
def converted(request: pytest.FixtureRequest, made: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return the kind of operators, ``library`` or ``portable``, and the path of the file."""
    folder = tmp_path_factory.mktemp(request.param)
    shutil.copy(made / "model.onnx", folder)
    library = edge_embed.get_library_path() if request.param == "library" else None
    convert_onnx_models_to_ort(
        folder / "model.onnx", optimization_styles=[OptimizationStyle.Fixed], custom_op_library_path=library
    )
    return request.param, folder / "model.ort"


def test_ort_file_lists_tables_and_operators(converted):
    way, path = converted
    report = inspect_file(path, verify=True)
    assert (report.kind, report.exit_code, report.differences) == ("ort", 0, [])
    assert {table.name: table.hash_status for table in report.tables} == {"token": "matches", "topic": "matches"}
    assert all(table.stored_bytes == table.total_inference_bytes for table in report.tables)
    assert all(0 < table.share < 1 for table in report.tables)
    assert [port.name for port in (*report.inputs, *report.outputs)] == ["ids", "logits"]
    assert "ORT format" in report.notes[0]
    assert "so they have no stored hash" in report.notes[1]  # the part that --verify cannot check
    assert len(inspect_file(path).notes) == 1
    (warning,) = report.warnings
    operators = [(item.op_type, item.nodes, item.body) for item in report.onnx.operators]
    if way == "library":
        assert operators == [("DPQEmbedding", 3, False)]
        assert "the file needs the operator library" in warning
    else:
        assert operators == []
        assert "slow path only" in warning
        assert "--custom_op_library" in warning


def test_ort_file_is_printed_as_ort_format(converted):
    _, path = converted
    file = io.StringIO()
    report = inspect_file(path)
    render_file(report, Console(file=file))
    assert file.getvalue().startswith(f"{path}: model in ORT format, ")
    assert report.to_json()["warnings"] == report.warnings


def test_verify_finds_bit_flip_in_table(converted, made, tmp_path):
    content = bytearray(converted[1].read_bytes())
    content[content.index(load_tables(made / "tables.safetensors")["topic"].values.tobytes())] ^= 1
    (tmp_path / "changed.ort").write_bytes(content)
    assert inspect_file(tmp_path / "changed.ort").exit_code == 0
    report = inspect_file(tmp_path / "changed.ort", verify=True)
    assert report.exit_code == 3
    assert report.differences[0].startswith("table 'topic': values differ")


@pytest.mark.parametrize("kept", [8, 40, 400, 0.25, 0.5, 0.9])
def test_truncated_ort_file_is_refused(converted, tmp_path, kept):
    content = converted[1].read_bytes()
    size = kept if isinstance(kept, int) else int(kept * len(content))
    (tmp_path / "cut.ort").write_bytes(content[:size])
    with pytest.raises(BadInputError, match="damaged or not a model in ORT format"):
        inspect_file(tmp_path / "cut.ort", verify=True)


def test_changed_bytes_raise_no_other_error(converted, tmp_path):
    content = converted[1].read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(200):
        changed = bytearray(content)
        for at in rng.integers(8, len(content), 20):
            changed[at] = rng.integers(256)
        (tmp_path / "changed.ort").write_bytes(changed)
        with contextlib.suppress(BadInputError):
            inspect_file(tmp_path / "changed.ort", verify=True)
