"""An interrupted compression resumes from its stored parts and gives the table of an uninterrupted one."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError, OutputError
from edge_embed.fitting import ant, centroids, dense_table, dpq
from edge_embed.fitting.checkpoints import NOTHING, Kept
from edge_embed.fitting.dense_table import DenseTable
from edge_embed.layers.table import CompressedEmbedding

WEIGHT = torch.randn(400, 8, generator=torch.Generator().manual_seed(0))
ONES = torch.ones(400, dtype=torch.float64)

Fit = Callable[..., CompressedEmbedding]
FITS: dict[str, Fit] = {
    "dpq": lambda **given: dpq.fit(WEIGHT, 16, 4, 2, **given),
    "ant": lambda **given: ant.fit(WEIGHT, 10, 2, 2, **given),
}


class Interrupted(Exception):
    """An interruption in place of a kill."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_table, "_BLOCK_NUMBERS", 8 * 100)


def arrays(layer: CompressedEmbedding) -> dict[str, np.ndarray[Any, Any]]:
    return layer.to_packed().tensors()


def read(monkeypatch: pytest.MonkeyPatch) -> list[slice]:
    """Return a list of the places at which rows are read from now on."""
    places = list[slice]()
    block = DenseTable.block
    monkeypatch.setattr(DenseTable, "block", lambda table, place: (places.append(place), block(table, place))[1])
    return places


@pytest.mark.parametrize("method", FITS)
@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_compression_resumes_after_any_block(
    method: str, blocks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = arrays(FITS[method]())

    def stop(done: int) -> None:
        if done >= 100 * blocks:
            raise Interrupted

    with pytest.raises(Interrupted), Kept(tmp_path / "kept") as kept:
        FITS[method](kept=kept, on_block=stop)
    uninterrupted, after = read(monkeypatch), list[int]()
    FITS[method]()
    reads = len(uninterrupted)
    uninterrupted.clear()
    with Kept(tmp_path / "kept") as kept:
        resumed = arrays(FITS[method](kept=kept, on_block=after.append))
    assert resumed.keys() == whole.keys()
    assert all(np.array_equal(resumed[name], array) for name, array in whole.items())
    assert after[-4:] == [100, 200, 300, 400]
    hashed = 4  # one pass over the table, to recognise it
    assert len(uninterrupted) <= reads + hashed - blocks
    assert not (tmp_path / "kept").exists()


def test_part_belongs_to_one_table_with_its_counts_and_sizes(tmp_path: Path) -> None:
    found = set[Path]()
    other = WEIGHT.clone()
    other[399, 7] += 1e-6
    for weight, counts, sizes in (
        (WEIGHT, ONES, (16, 4)),
        (other, ONES, (16, 4)),
        (WEIGHT, ONES * 0.5, (16, 4)),
        (WEIGHT, ONES, (16, 8)),
        (WEIGHT.reshape(800, 4), torch.ones(800, dtype=torch.float64), (16, 4)),
    ):
        Kept(tmp_path).of_table(DenseTable(weight, None), counts, *sizes)("part", lambda: {"x": np.zeros(1)})
        found |= set(tmp_path.glob("*/part.safetensors"))
    assert len(found) == 5


def test_part_is_made_once_and_restored_unchanged(tmp_path: Path) -> None:
    made = {"a": np.arange(6, dtype=np.int32).reshape(2, 3), "b": np.zeros(0, np.float16)}
    Kept(tmp_path)("part", lambda: made)
    part = Kept(tmp_path)("part", dict)
    assert all(part[name].dtype == array.dtype for name, array in made.items())
    assert all(np.array_equal(part[name], array) for name, array in made.items())
    assert NOTHING("part", dict) == {}


def test_part_that_fails_is_not_stored(tmp_path: Path) -> None:
    def fail() -> dict[str, Any]:
        raise Interrupted

    with pytest.raises(Interrupted):
        Kept(tmp_path)("part", fail)
    assert not list(tmp_path.iterdir())


def test_damaged_part_is_named_in_error(tmp_path: Path) -> None:
    (tmp_path / "part.safetensors").write_bytes(b"nothing")
    with pytest.raises(BadInputError, match=r"part\.safetensors: .* delete it, and begin again"):
        Kept(tmp_path)("part", dict)


def test_folder_that_cannot_be_made_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written"):
        edge_embed.compress(nn.Sequential(nn.Embedding(400, 8)), "dpq", ratio=4, checkpoint=tmp_path / "file")


@pytest.mark.parametrize("method", ["auto", "tt"])
@pytest.mark.slow
def test_success_leaves_files_of_others_in_folder(method: str, tmp_path: Path) -> None:
    (tmp_path / "own.txt").touch()
    model = nn.Sequential(nn.Embedding.from_pretrained(WEIGHT))
    small, _ = edge_embed.compress(model, method, ratio=3, checkpoint=tmp_path)
    plain, _ = edge_embed.compress(model, method, ratio=3)
    assert [path.name for path in tmp_path.iterdir()] == ["own.txt"]
    assert str(small) == str(plain)
    assert all(torch.equal(tensor, plain.state_dict()[name]) for name, tensor in small.state_dict().items())


def test_folder_of_others_is_kept(tmp_path: Path) -> None:
    edge_embed.compress(nn.Sequential(nn.Embedding.from_pretrained(WEIGHT)), "dpq", ratio=3, checkpoint=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_killed_command_resumes_in_next_run(tmp_path: Path) -> None:
    rows = torch.randn(100_000, 32, generator=torch.Generator().manual_seed(0))
    saved = edge_embed.save(nn.Sequential(nn.Embedding.from_pretrained(rows)), tmp_path / "model.pt", torch.tensor([1]))
    sizes = ("--method", "dpq", "--num-codes", "64", "--num-groups", "8", "--checkpoint", str(tmp_path / "kept"))

    def begin(output: str) -> subprocess.Popen[bytes]:
        run_it = [sys.executable, "-P", "-c", "from edge_embed.cli import run; run()"]
        command = [*run_it, "compress", str(saved), "-o", str(tmp_path / output), *sizes]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL)

    process = begin("killed.pt")
    while process.poll() is None and not list(tmp_path.glob("kept/*/codes 0.safetensors")):
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not (tmp_path / "killed.pt").exists()
    assert list(tmp_path.glob("kept/*/codes 0.safetensors"))
    assert begin("resumed.pt").wait() == 0
    assert not (tmp_path / "kept").exists()
    assert begin("whole.pt").wait() == 0
    tables = [edge_embed.lower(tmp_path / name).tables for name in ("resumed.pt", "whole.pt")]
    resumed, whole = (found["0"].tensors() for found in tables)
    assert all(np.array_equal(resumed[name], array) for name, array in whole.items())


def test_part_with_changed_numbers_is_refused(tmp_path: Path) -> None:
    Kept(tmp_path)("part", lambda: {"x": np.arange(1000)})
    path = tmp_path / "part.safetensors"
    stored = bytearray(path.read_bytes())
    stored[-100] ^= 1
    path.write_bytes(stored)
    with pytest.raises(BadInputError, match=r"part\.safetensors: is damaged: .* delete it, and begin again"):
        Kept(tmp_path)("part", dict)


def test_k_means_resumes_with_remaining_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.randn(400, 40, generator=torch.Generator().manual_seed(0))
    whole = arrays(dpq.fit(weight, 16, 40, runs=1))
    found, k_means = list[int](), centroids._by_k_means

    def stop(*those: Any) -> Any:
        if len(found) == 25:
            raise Interrupted
        found.append(1)
        return k_means(*those)

    monkeypatch.setattr(centroids, "_by_k_means", stop)
    with pytest.raises(Interrupted), Kept(tmp_path / "kept") as kept:
        dpq.fit(weight, 16, 40, runs=1, kept=kept)
    found.clear()
    with Kept(tmp_path / "kept") as kept:
        resumed = arrays(dpq.fit(weight, 16, 40, runs=1, kept=kept))
    assert len(found) < 25
    assert all(np.array_equal(resumed[name], array) for name, array in whole.items())
