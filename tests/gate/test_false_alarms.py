"""Evidence for the latency gate: it detects a slower kernel, and an unchanged model never fails.

The kernel looks every id up twice, so that the work of other processes does not decide. To measure how often the gate
detects one that is slower by 15 %, set the number of repetitions and print the results:

    EDGE_EMBED_REPETITIONS=100 pytest -s tests/gate/test_false_alarms.py
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import edge_embed
from edge_embed.gate.base_latency import base_findings, compare_times, sides_of
from edge_embed.gate.budget import LatencyBudget
from edge_embed.report.results.check import BaseResult
from edge_embed.runtime.library import ENVIRONMENT_NAME

pytestmark = pytest.mark.slow

SOURCES = Path(__file__).parents[2] / "runtime_ops"
REPETITIONS = int(os.environ.get("EDGE_EMBED_REPETITIONS", "4"))
# From the caches, looking 18 % of the ids up again takes 15 % longer.
AGAIN = 18 if "EDGE_EMBED_REPETITIONS" in os.environ else 100
CALL = "const ee_status status = kernel.run(table, ids, begin, end, rows, scratch, &bad);"
SLOWED = f"""{CALL}
      const size_t again = begin + (end - begin) * {AGAIN} / 100;
      if (again > begin) (void)kernel.run(table, ids, begin, again, rows, scratch, &bad);
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model whose lookups take most of its time."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("false_alarms")
    table = edge_embed.DPQEmbedding(20_000, 128, num_codes=16, num_groups=32, variant="vq")
    edge_embed.save(table, folder / "model.pt", torch.randint(0, 20_000, (16, 64)))
    edge_embed.export(folder / "model.pt", "onnx", folder / "model.onnx")
    return folder


@pytest.fixture(scope="module")
def slowed_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an operator library that looks some of the ids up twice."""
    folder = tmp_path_factory.mktemp("slowed")
    shutil.copytree(SOURCES, folder / "runtime_ops")
    adapter = folder / "runtime_ops" / "ort" / "rows.h"
    text = adapter.read_text()
    assert text.count(CALL) == 1
    adapter.write_text(text.replace(CALL, SLOWED))
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if cmake is None:
        pytest.skip("no cmake: install the package with its [dev] extra")
    options = ["-DEDGE_EMBED_TESTS=OFF", f"-DSKBUILD_PROJECT_VERSION={edge_embed.__version__}"]
    build = ["--build", folder / "build", "--target", "edge_embed_ops"]
    for command in (["-S", folder / "runtime_ops", "-B", folder / "build", *options], build):
        done = subprocess.run([cmake, *command], text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return next((folder / "build").glob("libedge_embed_ops.*"))


def failures(project: Path, base_library: Path, seed: int) -> list[str]:
    """Return the failed latency findings, with the candidate on the environment's library."""
    program = edge_embed.workflow.load(project / "model.pt")
    lowered = edge_embed.lower(project / "model.pt")
    sides = sides_of(project / "model.onnx", project / "model.onnx", base_library)
    budget = LatencyBudget()
    found = BaseResult("", (), compare_times(sides, program, lowered, budget, seed))
    print(seed, *(f"{comparison.title}: {comparison.cpu}" for comparison in found.comparisons), sep="; ")
    return [finding.name for finding in base_findings(found, budget.threshold) if finding.status == "failed"]


def test_unchanged_model_never_fails_latency(project: Path) -> None:
    copy = project / "libanother.so"
    shutil.copy(edge_embed.get_library_path(), copy)
    alarms = {seed: found for seed in range(REPETITIONS) if (found := failures(project, copy, seed))}
    print(f"{len(alarms)} false alarms in {REPETITIONS} runs: {alarms}")
    assert not alarms


def test_slower_kernel_is_detected(project: Path, slowed_library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = edge_embed.get_library_path()
    monkeypatch.setenv(ENVIRONMENT_NAME, str(slowed_library))
    seen = [bool(failures(project, good, seed)) for seed in range(REPETITIONS)]
    print(f"seen in {sum(seen)} of {REPETITIONS} runs")
    assert all(seen)


def test_command_for_slower_kernel_exits_with_5(project: Path, slowed_library: Path) -> None:
    good = edge_embed.get_library_path()
    command = [sys.executable, "-c", "from edge_embed.cli import main; main()", "check", "model.pt", "model.onnx"]
    options = ["--base", "model.onnx", "--base-library", str(good), "--quiet"]
    environment = {**os.environ, ENVIRONMENT_NAME: str(slowed_library)}
    done = subprocess.run(
        [*command, *options], cwd=project, env=environment, text=True, capture_output=True, check=False
    )
    assert done.returncode == 5, done.stderr
    assert "latency: table " in done.stderr
