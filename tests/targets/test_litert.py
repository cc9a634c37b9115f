"""A TFLite file in LiteRT, in this process and in a process of its own."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import edge_embed
from edge_embed.targets.target import RunFailedError, RunOptions, Subject
from edge_embed.targets.tflite.litert import LiteRtModel
from edge_embed.targets.tflite.runtimes import LITERT

pytest.importorskip("ai_edge_litert", reason="the extra edge-embed[tflite] is not installed")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("litert") / "model.tflite"
    edge_embed.export(edge_embed.DPQEmbedding(20, 8, 4, 2), "tflite", path, torch.tensor([[1, 2]]))
    return path


def test_call_accepts_ids_of_any_size_and_no_other_inputs(path):
    model = LiteRtModel(path)
    for ids in (np.array([[1, 2, 3]]), np.array([[3]], np.int32)):
        (rows,) = model.call({"ids": ids})
        assert rows.shape == (*ids.shape, 8)
    with pytest.raises(ValueError, match="got inputs words, expected ids"):
        model.call({"words": np.array([[1]])})
    with pytest.raises(RuntimeError, match="gather"):
        model.call({"ids": np.array([[20]])})


def test_target_with_time_limit_runs_in_its_own_process(path):
    """Most other tests run LiteRT in this process (conftest.py)."""
    options = RunOptions(time_limit=300)
    with LITERT.with_delegate().prepare(Subject(path, None), options) as prepared:
        run = prepared.run([{"ids": np.array([[1, 2]])}], options)
        with pytest.raises(RunFailedError, match="case 0: edge_embed: got id 20"):
            prepared.run([{"ids": np.array([[20]])}], options)
    assert run.outputs[0][0].shape == (1, 2, 8)
    assert "ai-edge-litert" in run.versions
    with (
        LITERT.prepare(Subject(path, None), options) as prepared,
        pytest.raises(RunFailedError, match=r"the runtime ended with status 1: .*expected words"),
    ):
        prepared.run([{"words": np.array([[1]])}], options)


@pytest.mark.parametrize("method", ["call", "resize"])
def test_litert_prints_nothing_to_stderr(path, method):
    """LiteRT prints once that it creates the delegate, which requires a process of its own here."""
    program = (
        "import pathlib, sys, numpy; from edge_embed.targets.tflite.litert import LiteRtModel; "
        f"LiteRtModel(pathlib.Path(sys.argv[1])).{method}({{'ids': numpy.array([[1]])}}); print('out', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert done.stderr == "out\n"
