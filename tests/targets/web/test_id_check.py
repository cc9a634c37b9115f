"""Files with a check of ids in WebAssembly and on WebGPU, whose own `Gather` does not check indices."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import edge_embed
from edge_embed.exporters.onnx.export import export_onnx
from edge_embed.targets.catalog import make_target
from edge_embed.targets.target import NotRunError, RunFailedError, RunOptions, Subject
from edge_embed.targets.web.package import WASM, WEBGPU, fetch_runtime

N = 20
IDS = np.array([[1, 2, 3], [4, 5, 0]])
OFFSETS = np.array([0, 2, 6])
OPTIONS = RunOptions(iterations=0, time_limit=300)


class Tables(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(N, 6, num_codes=4, num_groups=3, padding_idx=0)
        self.stems = edge_embed.TTEmbedding(N, 6, rank=2)
        self.dense = nn.Embedding(N, 6)
        self.bags = edge_embed.ANTEmbeddingBag(N, 6, 4, mode="mean")

    def forward(self, ids: Tensor, offsets: Tensor) -> tuple[Tensor, ...]:
        return self.words(ids), self.stems(ids), self.dense(ids), self.bags(ids.reshape(-1), offsets)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    torch.manual_seed(0)
    lowered = edge_embed.lower(Tables().eval(), (torch.from_numpy(IDS), torch.from_numpy(OFFSETS)))
    found = {name: tmp_path_factory.mktemp("checked") / "model.onnx" for name in ("nan", "error")}
    for id_check, path in found.items():
        export_onnx(replace(lowered, id_check=id_check), path)
    return found


@pytest.fixture(params=["node", "browser-webgpu"])
def target(request) -> Any:
    found = make_target(request.param)
    if lacks := found.lacks():
        pytest.skip("; ".join(f"{problem.what}: {problem.remedy}" for problem in lacks))
    try:
        fetch_runtime(300, WEBGPU if request.param == "browser-webgpu" else WASM)
    except NotRunError as error:
        pytest.skip(str(error))
    return found


def run(target: Any, path: Path, *cases: np.ndarray) -> Any:
    subject = Subject(path, SimpleNamespace(output_names=[f"output_{at}" for at in range(4)]))
    with target.prepare(subject, OPTIONS) as prepared:
        return prepared.run([{"ids": ids, "offsets": OFFSETS} for ids in cases], OPTIONS).outputs


def with_id(wrong: int) -> np.ndarray:
    ids = IDS.copy()
    ids[0, 1] = wrong
    return ids


@pytest.mark.slow
def test_wrong_ids_give_nan_in_their_rows_and_bags(target, files):
    plain, *marked = run(target, files["nan"], IDS, with_id(N), with_id(-1), with_id(2**32 + 1))
    assert all(np.isfinite(values).all() for values in plain)
    is_wrong = np.array([[0, 1, 0], [0, 0, 0]], bool)
    for *rows, bags in marked:
        for found, right in zip(rows, plain, strict=False):
            assert np.isnan(found[is_wrong]).all()
            np.testing.assert_array_equal(found[~is_wrong], right[~is_wrong])
        assert np.isnan(bags[0]).all()
        np.testing.assert_array_equal(bags[1], plain[3][1])


@pytest.mark.slow
def test_wrong_id_is_error_that_names_bounds(target, files):
    with pytest.raises(RunFailedError, match=f"expected ids 0 to {N - 1}"):
        run(target, files["error"], IDS, with_id(N))
