"""A TFLite file in LiteRT, in this process."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import edge_embed
from edge_embed.targets.tflite.litert import LiteRtModel

pytest.importorskip("ai_edge_litert", reason="the extra edge-embed[tflite] is not installed")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("litert") / "model.tflite"
    edge_embed.export(edge_embed.DPQEmbedding(20, 8, 4, 2), "tflite", path, torch.tensor([[1, 2]]))
    return path


def test_a_call_takes_inputs_of_any_size_and_no_others(path):
    model = LiteRtModel(path)
    for ids in (np.array([[1, 2, 3]]), np.array([[3]], np.int32)):
        (rows,) = model.call({"ids": ids})
        assert rows.shape == (*ids.shape, 8)
    with pytest.raises(ValueError, match="got inputs words, expected ids"):
        model.call({"words": np.array([[1]])})
    with pytest.raises(RuntimeError, match="gather"):
        model.call({"ids": np.array([[20]])})


@pytest.mark.parametrize("method", ["call", "resize"])
def test_nothing_is_written_to_stderr(path, method):
    """LiteRT tells once of the delegate that it makes, so this takes a process of its own."""
    program = (
        "import pathlib, sys, numpy; from edge_embed.targets.tflite.litert import LiteRtModel; "
        f"LiteRtModel(pathlib.Path(sys.argv[1])).{method}({{'ids': numpy.array([[1]])}}); print('out', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert done.stderr == "out\n"
