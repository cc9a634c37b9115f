"""Commands that open models report crashes and hangs of a runtime, and leave no files and no processes."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest
import torch

import edge_embed

from .endless import make_endless

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
COMMAND = [sys.executable, "-P", "-c", "import sys; from edge_embed.cli import run; run()"]

# An operator library of the package's version that ends the process, or never returns, when a session registers it.
HOSTILE = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((visibility("default"))) const char* ee_version(void) { return VERSION; }
__attribute__((visibility("default"))) void* RegisterCustomOps(void* options, const void* api) {
  (void)options, (void)api;
  WHAT;
  return 0;
}
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("supervised")
    torch.manual_seed(0)
    layer = edge_embed.DPQEmbedding(50, 8, num_codes=4, num_groups=2)
    edge_embed.save(layer, folder / "model.pt", torch.tensor([1, 2]))
    edge_embed.export(folder / "model.pt", "onnx", folder / "model.onnx")
    make_endless(folder / "model.onnx", folder / "endless.onnx", in_reference=True)
    return folder


@pytest.fixture
def library(tmp_path):
    def build(what):
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("no C compiler cc is found (Debian: apt-get install gcc)")
        source, path = tmp_path / "hostile.c", tmp_path / "libhostile.so"
        source.write_text(HOSTILE.replace("WHAT", what))
        version = f'-DVERSION="{metadata.version("edge-embed")}"'
        subprocess.run([compiler, "-shared", "-fPIC", version, source, "-o", path], check=True)
        return path

    return build


def environment(folder, library=None):
    chosen = {**os.environ, "TMPDIR": str(folder)}
    return chosen | ({"EDGE_EMBED_LIBRARY": str(library)} if library else {})


def validate(files, *options, exported="model.onnx"):
    return [*COMMAND, "validate", files / "model.pt", files / exported, "--iterations", "2", *options]


@pytest.mark.parametrize(
    ("what", "options", "how"),
    [
        ("abort()", [], "ended by signal SIGABRT in step 'custom op: [^']+ is opened': a runtime crashed"),
        pytest.param(
            "for (;;) sleep(1)",
            ["--time-limit", "20"],
            "step 'custom op: [^']+ is opened' took more than 20 s, the time limit, and was ended",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["crash", "never returns"],
)
@pytest.mark.slow
def test_crash_or_hang_of_library_is_named_and_leaves_no_files(files, library, tmp_path, what, options, how):
    temporary, output, hostile = tmp_path / "temporary", tmp_path / "output", library(what)
    temporary.mkdir()
    output.mkdir()
    command = validate(files, "--json", *options, "--html", output / "report.html")
    done = subprocess.run(
        command, env=environment(temporary, hostile), capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 1
    assert re.search(f"Error: {how}", done.stderr)
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)["exit_code"] == 1
    assert not list(temporary.iterdir())
    assert not list(output.iterdir())


def test_results_and_exit_codes_pass_through(files, tmp_path):
    inspect = [*COMMAND, "inspect", "--json"]
    done = subprocess.run([*inspect, files / "model.onnx"], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0
    assert [table["method"] for table in json.loads(done.stdout)["tables"]] == ["dpq"]
    done = subprocess.run([*inspect, tmp_path / "no.onnx"], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
@pytest.mark.slow
def test_child_process_ends_with_its_parent(files, library, tmp_path, how, code):
    temporary, registered = tmp_path / "tmp", tmp_path / "registered"
    temporary.mkdir()
    hostile = library(f'fclose(fopen("{registered}", "w")); for (;;) sleep(1)')
    process = subprocess.Popen(validate(files), env=environment(temporary, hostile), stdout=subprocess.PIPE)
    try:
        _wait_for(registered.exists)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert children
    finally:
        process.send_signal(how)
    assert process.wait(60) == code
    _wait_for(lambda: not any(_runs(child) for child in children))
    if how == signal.SIGTERM:
        assert not list(temporary.iterdir())


def _runs(pid):
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


def _wait_for(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


# A test run in the background may ignore these signals, and its children would inherit that.
HEEDING = ["env", "--default-signal=INT,HUP"]

IN_PYTHON, IN_NATIVE = "the reference evaluator runs", "custom op: "


@pytest.mark.parametrize(
    ("running", "how", "code", "message"),
    [
        pytest.param(IN_PYTHON, signal.SIGINT, 130, "Error: interrupted", marks=pytest.mark.long),
        (IN_NATIVE, signal.SIGINT, 130, f"Error: interrupted in step '{IN_NATIVE}"),
        (IN_PYTHON, signal.SIGTERM, 143, "Error: ended by SIGTERM"),
        pytest.param(IN_PYTHON, signal.SIGHUP, 129, "Error: ended by SIGHUP", marks=pytest.mark.long),
        pytest.param(IN_NATIVE, signal.SIGHUP, 129, "", marks=pytest.mark.long),
    ],
)
@pytest.mark.slow
def test_signal_to_parent_alone_ends_both_processes(files, library, tmp_path, running, how, code, message):
    """The model or the library never ends by itself, and native code does not react to signals."""
    temporary, output = tmp_path / "temporary", tmp_path / "output"
    temporary.mkdir()
    output.mkdir()
    endless = "endless.onnx" if running == IN_PYTHON else "model.onnx"
    hostile = None if running == IN_PYTHON else library("for (;;) sleep(1)")
    process = subprocess.Popen(
        [*HEEDING, *validate(files, "--html", output / "report.html", exported=endless)],
        env=environment(temporary, hostile),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _wait_for(lambda: any(running in path.read_text() for path in temporary.glob("*/step")))
        assert any(output.glob(".edge-embed-*"))
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    finally:
        process.send_signal(how)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == code
    assert message in said
    assert "Traceback" not in said
    assert not _runs(child)
    assert not list(temporary.iterdir())
    assert not list(output.iterdir())
