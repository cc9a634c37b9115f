"""`torchrun ... edge-embed compress`: two processes write the file of one process, and report an error once."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed, nn

import edge_embed

pytestmark = pytest.mark.skipif(not distributed.is_gloo_available(), reason="torch is built without gloo")
COMMAND = str(Path(sysconfig.get_path("scripts"), "edge-embed"))
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]


def save(rows: int, folder: Path) -> Path:
    weight = torch.randn(rows, 32, generator=torch.Generator().manual_seed(0))
    return edge_embed.save(nn.Sequential(nn.Embedding.from_pretrained(weight)), folder / "model.pt", torch.tensor([1]))


def compress(before: list[str], folder: Path, output: str, *options: object) -> subprocess.CompletedProcess[str]:
    command = [*before, COMMAND, "compress", "model.pt", "-o", output, *map(str, options)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


def tensors(path: Path) -> dict[str, np.ndarray]:
    (table,) = edge_embed.lower(path).tables.values()
    return table.tensors()


def assert_same_table(path: Path, other: Path) -> None:
    expected = tensors(other)
    assert all(np.array_equal(array, expected[name]) for name, array in tensors(path).items())


SIZES = ("--method", "dpq", "--num-codes", 16, "--num-groups", 8)


@pytest.mark.slow
def test_torchrun_writes_table_of_one_process_and_one_report(tmp_path: Path) -> None:
    save(2000, tmp_path)
    two = compress(TORCHRUN, tmp_path, "two.pt", *SIZES, "--plot", "tried.svg", "--json")
    assert two.returncode == 0, two.stderr
    one = compress([], tmp_path, "one.pt", *SIZES, "--json")
    assert json.loads(two.stdout) == json.loads(one.stdout)
    assert_same_table(tmp_path / "two.pt", tmp_path / "one.pt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pt", "one.pt", "tried.svg", "two.pt"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--ratio", "few"), "Error: Invalid value for '--ratio': 'few' is not a valid float."),
        (("--ratio", 9999), "Error: table 0: no tested setting fits into"),
    ],
)
def test_torchrun_reports_mistake_once(options: tuple[object, ...], message: str, tmp_path: Path) -> None:
    save(2000, tmp_path)
    ended = compress(TORCHRUN, tmp_path, "small.pt", *options)
    assert ended.returncode != 0
    assert message in ended.stderr
    assert ended.stderr.count("Error: ") - ended.stderr.count("ChildFailedError: ") == 1, ended.stderr
    assert "edge_embed/" not in ended.stderr  # no traceback of the package
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the processes that torchrun starts are found in /proc")
def test_compress_resumes_parts_of_killed_processes(tmp_path: Path) -> None:
    save(100_000, tmp_path)
    goal = (*SIZES, "--checkpoint", "kept")
    arguments = [COMMAND, "compress", "model.pt", "-o", "killed.pt", *map(str, goal)]
    torchrun = subprocess.Popen([*TORCHRUN, *arguments], cwd=tmp_path, stderr=subprocess.DEVNULL)
    while torchrun.poll() is None and not list(tmp_path.glob("kept/*/codes 0.safetensors")):
        time.sleep(0.01)
    children = Path(f"/proc/{torchrun.pid}/task/{torchrun.pid}/children").read_text(encoding="utf-8").split()
    for process in (torchrun.pid, *map(int, children)):
        os.kill(process, signal.SIGKILL)
    torchrun.wait()
    assert len(children) == 2
    assert not (tmp_path / "killed.pt").exists()
    assert list(tmp_path.glob("kept/*/codes 0.safetensors"))
    resumed = compress([], tmp_path, "resumed.pt", *goal)  # one process resumes from the parts that two have kept
    assert resumed.returncode == 0, resumed.stderr
    assert not (tmp_path / "kept").exists()
    compress([], tmp_path, "one.pt", *SIZES)
    assert_same_table(tmp_path / "resumed.pt", tmp_path / "one.pt")


@pytest.mark.slow
def test_process_without_its_peers_reports_environment(tmp_path: Path) -> None:
    environment = {**os.environ, "WORLD_SIZE": "2", "RANK": "0"}
    environment.pop("MASTER_ADDR", None)
    command = [COMMAND, "compress", "model.pt", "-o", "small.pt", "--ratio", "8"]
    ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("Error: got WORLD_SIZE=2 in the environment, but not all processes connected")
    assert ended.stderr.count("\n") == 1
