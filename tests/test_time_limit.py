"""Time limits: a step of a command that takes longer than its limit is ended and leaves no files."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
import torch

import edge_embed
from edge_embed.errors import TimeLimitError
from edge_embed.steps import STEP
from edge_embed.validation.options import ValidationOptions

from .endless import make_endless

COMMAND = [sys.executable, "-P", "-c", "from edge_embed.cli import run; run()"]
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no timers that end a process")

# Kinds of endless models, each with the step that never ends: in Python code, or in native code.
STEPS = {"reference": "the reference evaluator runs", "native": "portable body: the example"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("endless")
    torch.manual_seed(0)
    edge_embed.save(edge_embed.DPQEmbedding(50, 8, num_codes=4, num_groups=2), folder / "model.pt", torch.tensor([1]))
    edge_embed.export(folder / "model.pt", "onnx", folder / "sound.onnx")
    for name in STEPS:
        make_endless(folder / "sound.onnx", folder / f"{name}.onnx", in_reference=name == "reference")
    return folder


def run(tmp_path, *arguments):
    """Run a command with a temporary folder of its own, and check that the folder is empty afterwards."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [*COMMAND, *arguments, "--json"],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert not list(temporary.iterdir())
    temporary.rmdir()
    return done


# 10 s, because a valid step takes seconds when other tests run at the same time.
@posix
@pytest.mark.slow
@pytest.mark.parametrize("where", STEPS)
def test_validate_ends_step_over_time_limit(files, tmp_path, where):
    page = ["--html", tmp_path / "report.html"]
    limits = ["--iterations", "2", "--time-limit", "10"]
    done = run(tmp_path, "validate", files / "model.pt", files / f"{where}.onnx", *limits, *page)
    assert done.returncode == 1
    message = f"step {STEPS[where]!r} took more than 10 s, the time limit, and was ended; raise --time-limit"
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)["error"].startswith(message)
    assert not list(tmp_path.iterdir())


@posix
@pytest.mark.slow
def test_check_ends_step_over_time_limit_of_budget(files, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(files / "native.onnx", project / "model.onnx")
    (project / "edge-embed.toml").write_text("[targets]\ntime_limit = 10\n")
    reports = [part for form in ("output", "junit") for part in (f"--{form}", tmp_path / form)]
    done = run(
        tmp_path, "check", files / "model.pt", project / "model.onnx", "--budget", project / "edge-embed.toml", *reports
    )
    assert done.returncode == 1
    assert f"step {STEPS['native']!r} took more than 10 s" in done.stderr
    assert "in a budget time_limit under [targets]" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["project"]


@pytest.mark.slow
def test_validate_in_python_raises_over_time_limit(files):
    options = ValidationOptions(iterations=0, time_limit=10)
    with pytest.raises(TimeLimitError, match=r"step 'portable body: the example' took more than 10 s"):
        edge_embed.validate(files / "model.pt", files / "native.onnx", options=options)


TARGET = """
import numpy as np, torch
from pathlib import Path
from types import SimpleNamespace
from edge_embed.steps import limit_steps
from edge_embed.targets.catalog import make_target
from edge_embed.targets.target import RunOptions, Subject

def endless(*inputs):
    while True:
        pass

ids = SimpleNamespace(name="ids", holds_texts=False)
program = SimpleNamespace(output_names=["output"], inputs=[ids], module=endless)
with make_target("NAME").prepare(Subject(Path("FILE"), program), RunOptions()) as prepared, limit_steps(0.5):
    prepared.run([{"ids": np.ones(1, np.int64)}], RunOptions())
"""


@posix
@pytest.mark.parametrize(
    ("target", "what"),
    [("reference", "the reference evaluator runs"), ("torch-cpu", "the training form runs on cpu")],
)
@pytest.mark.slow
def test_targets_in_process_are_ended_over_time_limit(files, tmp_path, target, what):
    step = tmp_path / "step"
    step.touch()
    code = TARGET.replace("NAME", target).replace("FILE", str(files / "reference.onnx"))
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, STEP: str(step)}, capture_output=True, check=False, timeout=300
    )
    assert done.returncode == -signal.SIGALRM, done.stderr.decode()
    assert step.read_text() == f"{what}\n0.5"


@pytest.mark.slow
def test_validate_without_time_limit_sets_no_timer(files):
    """A timer would end the process, which belongs to the user."""
    assert edge_embed.validate(files / "model.pt", files / "sound.onnx").passed
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
