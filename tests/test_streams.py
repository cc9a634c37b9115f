"""Standard streams that are closed, no longer read, full or ASCII only; file names that are no text; interrupts."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

import edge_embed
from edge_embed.inspection.inspect import inspect_file

COMMAND = [sys.executable, "-P", "-c", "from edge_embed.cli import run; run()"]


class Dense(nn.Module):
    def __init__(self, rows=400):
        super().__init__()
        self.words = nn.Embedding(rows, 32)

    def forward(self, ids):
        return self.words(ids)


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    path = tmp_path_factory.mktemp("dense") / "dense.pt"
    edge_embed.save(Dense(), path, (torch.tensor([[1, 2]]),))
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Return a file that is inspected without torch, which would take seconds to load in every process."""
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])
    graph = helper.make_graph([helper.make_node("Identity", ["ids"], ["same"])], "g", [ids], [
        helper.make_tensor_value_info("same", TensorProto.INT64, ["n"])
    ])  # fmt: skip
    path = tmp_path_factory.mktemp("small") / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def compress(dense, output, *more):
    return [*COMMAND, "compress", dense, "-o", output, "--method", "rows", "--bits", "8", *more]


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["1", "0 1 2"])
def test_file_is_written_when_streams_are_closed(dense, tmp_path, closed):
    shell = " ".join(['exec "$@"', *(f"{number}>&-" for number in closed.split())])
    output = tmp_path / "out.pt"
    command = ["sh", "-c", shell, "sh", *compress(dense, output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [table.method for table in inspect_file(output).tables] == ["dpq"]


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_exit_code_is_0_when_stdout_is_not_read(dense, tmp_path, more):
    reading, writing = os.pipe()
    os.close(reading)
    command = compress(dense, tmp_path / "out.pt", *more)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out.pt").is_file()


@pytest.mark.parametrize("arguments", [["--help"], ["compress", "--help"], ["inspect", "absent.pt"]])
def test_unread_messages_leave_exit_code(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*COMMAND, *arguments], stdout=writing, stderr=writing, check=False)
    os.close(writing)
    assert done.returncode == (2 if "absent.pt" in arguments else 0)


def test_full_disk_behind_stdout_exits_with_1(small):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, "inspect", small], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "Error: output: No space left on device\n"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["compress", "--help"]])
def test_help_on_full_disk_exits_with_1_without_traceback(arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "Error: output: No space left on device\n")


def test_removed_working_folder_is_named_in_error(small, tmp_path):
    (tmp_path / "gone").mkdir()
    script = f'cd {tmp_path}/gone && rmdir ../gone && exec "$@"'
    command = ["sh", "-c", script, "sh", *COMMAND, "inspect", small]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "Error: the working folder no longer exists: cd to another folder\n")


@pytest.mark.parametrize(("arguments", "code"), [(["no-command"], 2), (["inspect", "absent.pt"], 2), (["--help"], 0)])
def test_full_disk_behind_stderr_leaves_exit_code(arguments, code):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=full, check=False)
    assert done.returncode == code


@pytest.mark.parametrize("name", ["a\nError: b", "a\x1b[2J", b"a\xff", "ü\r"])
def test_odd_names_are_escaped_in_messages_and_unchanged_in_json(tmp_path, name):
    done = subprocess.run([*COMMAND, "inspect", name, "--json"], capture_output=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("Error: ")
    assert line.isprintable()
    assert json.loads(done.stdout)["error"].startswith(os.fsdecode(name))


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize("locale", [ASCII, {"PYTHONIOENCODING": "ascii"}])
@pytest.mark.parametrize("name", ["möbel.onnx", b"m\xff.onnx"])
def test_report_is_printed_in_any_locale(small, tmp_path, locale, name):
    path = os.path.join(os.fsencode(tmp_path), os.fsencode(name))
    Path(os.fsdecode(path)).write_bytes(small.read_bytes())
    done = subprocess.run([*COMMAND, "inspect", path], env={**os.environ, **locale}, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"ONNX model" in done.stdout


def test_missing_temporary_folder_names_variable(small):
    nowhere = "import tempfile; tempfile._candidate_tempdir_list = lambda: ['/proc']"
    command = [sys.executable, "-P", "-c", f"{nowhere}; {COMMAND[-1]}", "inspect", small]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "a temporary folder cannot be created" in done.stderr
    assert "TMPDIR" in done.stderr


# --- interrupts ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """Return a model that takes minutes to compress."""
    path = tmp_path_factory.mktemp("slow") / "slow.pt"
    edge_embed.save(Dense(40_000), path, (torch.tensor([[1, 2]]),))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "interrupted: nothing was written, and finished parts are lost: give --checkpoint FOLDER"),
        (["--checkpoint", "kept"], "interrupted: nothing was written; finished parts are kept in kept: the same"),
    ],
)
def test_interrupt_names_lost_and_kept_results(slow, tmp_path, more, message):
    done = interrupted(slow, tmp_path, signal.SIGINT, *more)
    assert done == (130, done[1])
    assert message in done[1]
    assert not [path for path in tmp_path.iterdir() if path.name != "kept"]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_termination_signal_is_named_and_leaves_no_files(slow, tmp_path, number, code):
    done = interrupted(slow, tmp_path, number)
    assert done == (code, done[1])
    assert f"ended by {signal.Signals(number).name}: nothing was written" in done[1]
    assert not list(tmp_path.iterdir())


def interrupted(slow, folder, number, *more):
    """Return exit code and stderr of a run that receives a signal while it works."""
    grid = ["--method", "dpq", "--num-codes", "256", "--num-groups", "32", *more]
    process = subprocess.Popen(
        ["env", "--default-signal=INT,HUP", *COMMAND, "compress", slow, "-o", "out.pt", *grid],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=folder,
    )
    end = time.monotonic() + 120
    while time.monotonic() < end and slow.name not in mapped(process.pid):
        time.sleep(0.05)
    os.killpg(process.pid, number)
    said = process.communicate(timeout=120)[1]
    assert "Traceback" not in said
    return process.returncode, said


def mapped(parent):
    """Return the list of files that the child of a process has mapped."""
    try:
        (child,) = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return Path(f"/proc/{child}/maps").read_text()
    except (OSError, ValueError):
        return ""


@pytest.mark.slow
def test_file_truncated_while_read_ends_command_with_message(slow, tmp_path):
    cut = tmp_path / "cut.pt"
    cut.write_bytes(slow.read_bytes())
    grid = ["--method", "dpq", "--num-codes", "256", "--num-groups", "32"]
    command = [*COMMAND, "compress", cut, "-o", tmp_path / "out.pt", *grid]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 120
    while time.monotonic() < end and cut.name not in mapped(process.pid):
        time.sleep(0.05)
    os.truncate(cut, 5000)
    said = process.communicate(timeout=240)[1]
    assert process.returncode == 2
    assert (
        "a file became shorter" in said or "damaged" in said
    )  # the second when the reader checks before it touches the mapped bytes
    assert [path.name for path in tmp_path.iterdir()] == ["cut.pt"]
