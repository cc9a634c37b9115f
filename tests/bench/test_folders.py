"""Benchmark of folders of ONNX Runtime GenAI: figures, ratios and refused inputs."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

import edge_embed
from edge_embed import workflow
from edge_embed.bench.folders import BODY, LIBRARY, FolderGrid, bench_folders
from edge_embed.bench.prompts import prompt_feeds
from edge_embed.cli import main
from edge_embed.errors import BadInputError
from edge_embed.importers.genai_folder import read_genai
from edge_embed.validation import resident_worker

from ..error_line import error_line
from ..genai.folders import CONFIG, DIM, made_folder

TINY = FolderGrid(rounds=2, prompt_tokens=3, new_tokens=2)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["bench", *map(str, arguments)])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a dense folder, and one with packed tables."""
    folder = tmp_path_factory.mktemp("folders")
    dense, small = made_folder(folder / "dense"), folder / "small"
    workflow.compress(dense, "rows", output=small, bits=8)
    return dense, small


@pytest.mark.skipif(not resident_worker.STATUS.exists(), reason="memory is read from /proc")
def test_compressed_folder_is_measured_with_library_and_body_beside_dense_one(folders: tuple[Path, Path]) -> None:
    pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is missing: pip install 'edge-embed[genai]'")
    report = bench_folders(folders, TINY)
    dense, small = map(str, folders)
    assert [(one.folder, one.operators) for one in report.sessions] == [(dense, ""), (small, LIBRARY), (small, BODY)]
    baseline, library, body = report.sessions
    assert baseline.token.cpu_ratio is None
    assert library.bytes - body.bytes == edge_embed.get_library_path().stat().st_size
    assert body.bytes_ratio == body.bytes / baseline.bytes
    for one in report.sessions:
        assert not one.memory.reason
        for timed in (one.token, one.first_token):
            assert timed.wall_seconds.low <= timed.wall_seconds.median <= timed.wall_seconds.high
    assert body.private_ratio == (body.memory.private or 0) / (baseline.memory.private or 1)
    shown = str(report)
    for text in (LIBRARY, BODY, "private", "prompt of 3 tokens", "with 2 tokens"):
        assert text in " ".join(shown.split()), text
    assert json.loads(json.dumps(report.to_json()))["sessions"][2]["operators"] == BODY


def test_prompt_fills_buffers_and_widths_that_file_does_not_declare(folders: tuple[Path, Path]) -> None:
    """The model builder writes Gemma3 so."""
    folder = read_genai(folders[0])
    folder.decoder["sliding_window"] = {"window_size": 64}
    ids, kind = ["batch_size", "sequence_length"], TensorProto.INT64
    state = ["batch_size", 1, "past_sliding_length", "kv_cache_dim"]
    inputs = [helper.make_tensor_value_info(name, kind, ids) for name in ("input_ids", "position_ids")]
    inputs += [helper.make_tensor_value_info("attention_mask", kind, ["batch_size", "total_sequence_length"])]
    inputs += [helper.make_tensor_value_info("past_key_values.0.key", TensorProto.FLOAT16, state)]
    model = helper.make_model(helper.make_graph([], "decoder", inputs, []))
    feeds = prompt_feeds(folder, model, np.array([7, 5, 6]))
    assert feeds["input_ids"].tolist() == [[7, 5, 6]]
    assert feeds["position_ids"].tolist() == [[0, 1, 2]]
    assert feeds["attention_mask"].tolist() == [[1, 1, 1]]
    states = feeds["past_key_values.0.key"]
    assert (states.shape, states.dtype, states.any()) == ((1, 1, 64, DIM), np.float16, False)


def with_config(folder: Path, change: dict[str, Any]) -> Path:
    return made_folder(folder, {**CONFIG, "model": {**CONFIG["model"], **change}})


def test_folders_that_cannot_be_compared_are_refused(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    dense, small = folders
    other = with_config(tmp_path / "other", {"vocab_size": 97})
    foreign = {**CONFIG["model"]["decoder"], "session_options": {"custom_ops_library": "theirs.so"}}
    theirs = with_config(tmp_path / "theirs", {"decoder": foreign})
    for given, message in (
        ([dense], "got one folder, expected the baseline first"),
        ([dense, tmp_path / "nothing"], "nothing: does not exist"),
        ([dense / "model.onnx", small], "has no genai_config.json"),
        ([dense, small, dense], "got the folder twice"),
        ([dense, other], "got a vocabulary of 97, expected 96 as in"),
        ([dense, theirs], "runs no library of others"),
    ):
        with pytest.raises(BadInputError, match=message):
            bench_folders(given, TINY)
    with pytest.raises(BadInputError, match="got 203 tokens, expected at most its context length 128"):
        bench_folders(folders, FolderGrid(prompt_tokens=200, new_tokens=2))


def test_folders_without_runtime_are_refused_with_extra(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime_genai", None)
    result = run(*folders)
    assert result.exit_code == 1
    assert 'onnxruntime-genai, which is not installed: python -m pip install "edge-embed[genai]"' in error_line(result)


def test_options_of_tables_are_refused_with_folders(folders: tuple[Path, Path]) -> None:
    for option, value in (("--batch", "3"), ("--preset", "lookup"), ("--module", "words")):
        assert error_line(run(*folders, option, value)).startswith(f"{option}: got a value and folders")
    assert error_line(run(*folders, "--threads", "1,2")) == "--threads: got '1,2', expected one number for folders"
    assert error_line(run("--new-tokens", "3")).startswith("--new-tokens: got a value without folders")
