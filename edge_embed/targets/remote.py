"""Another machine: runner and model are copied into a temporary folder there, which is removed at the end.

A shell on the other machine makes the folder and then reads until its input ends. The input ends when we close it, when
this process is killed, or when the connection breaks. The shell then ends the runner, removes the folder and exits.
"""

import os
import platform
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from edge_embed.runtime.library import get_library_path
from edge_embed.targets.build import RUNNER
from edge_embed.targets.process import Finished, check_run, end_group, finish_program, last_line
from edge_embed.targets.runner import Ran, RunnerFiles, RunnerModel, own_files, runner_command
from edge_embed.targets.target import NotRunError, RunOptions, Subject

_WORD = "edge-embed"  # prefix of our lines; a login may print others
_RUNTIME = "libonnxruntime.so"
_PASSED_ON = ("EDGE_EMBED_FORCE_ISA",)
_GOODBYE_SECONDS = 15


class Transport(Protocol):
    """Connection to another machine.

    Attributes:
        place: description for messages: ``host pi``.
        parent: parent of temporary folders there, as its shell writes it.
    """

    @property
    def place(self) -> str:
        """Return a description for messages."""

    @property
    def parent(self) -> str:
        """Return the parent of temporary folders."""

    def shell(self, text: str) -> list[str]:
        """Return the local command that runs a shell script there."""

    def push(self, folder: Path, to: PurePosixPath, time_limit: float) -> None:
        """Copy all files of a local folder, following links, into a remote one.

        Raises:
            NotRunError: if that fails.
        """

    def pull(self, names: Sequence[str], folder: PurePosixPath, to: Path, time_limit: float) -> None:
        """Copy files of a remote folder into a local one.

        Raises:
            NotRunError: if that fails.
        """


def run_there(
    transport: Transport, text: str, time_limit: float, *, what: str, stdin: IO[bytes] | None = None
) -> Finished:
    """Run a shell script there to its end; the status is that of the script.

    Raises:
        NotRunError: if the connection breaks.
    """
    done = finish_program(
        transport.shell(f"( {text} ); echo {_WORD} $?"), time_limit, what=transport.place, stdin=stdin
    )
    if done.status is None:
        return done
    word, _, status = last_line(done.printed).partition(" ")
    if word != _WORD or not status.strip().isdigit():
        raise NotRunError(f"{transport.place}: {what}: {_reason(done.complaints)}")
    code = int(status)
    return Finished(128 - code if code > 128 else code, "", done.complaints, time_limit)


@dataclass(frozen=True)
class RemoteFolder:
    """Temporary folder on another machine.

    Attributes:
        transport: connection to the machine.
        path: path of the folder.
        system: system of the machine, as ``uname -sm`` prints it: ``Linux aarch64``.
    """

    transport: Transport
    path: PurePosixPath
    system: str


@contextmanager
def remote_folder(transport: Transport, time_limit: float) -> Iterator[RemoteFolder]:
    """Make a remote folder; it and the process in it are gone when the context ends, however it ends.

    Raises:
        NotRunError: if there is no connection, or no folder can be made.
    """
    keep = (
        f'umask 077; folder=$(mktemp -d {transport.parent}/edge-embed-XXXXXX) || exit; trap "" HUP INT TERM PIPE; '
        f'echo "{_WORD}|$(uname -sm)|$folder"; cat >/dev/null; '
        '[ -f "$folder/pid" ] && kill -9 "$(cat "$folder/pid")"; rm -rf "$folder"'
    )
    with tempfile.TemporaryFile() as complaints:
        try:
            keeper = subprocess.Popen(
                transport.shell(keep),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # Ctrl-C is for us; the keeper ends when we close its input
            )
        except OSError as error:
            raise NotRunError(f"{transport.place}: {error.strerror or error}") from error
        try:
            line = _greeting(keeper, time_limit)
            if line is None:
                complaints.seek(0)
                raise NotRunError(f"{transport.place}: {_reason(complaints.read().decode(errors='replace'))}")
            _, system, path = line.strip().split("|", 2)
            yield RemoteFolder(transport, PurePosixPath(path), system)
        finally:
            _dismiss(keeper)


def _greeting(keeper: "subprocess.Popen[str]", time_limit: float) -> str | None:
    """Return our line of the keeper; None if its output ends without one, or time runs out."""
    assert keeper.stdout is not None
    timer = threading.Timer(time_limit, keeper.kill)
    timer.start()
    try:
        return next((line for line in keeper.stdout if line.startswith(f"{_WORD}|")), None)
    finally:
        timer.cancel()


def _dismiss(keeper: "subprocess.Popen[str]") -> None:
    try:
        keeper.communicate(timeout=_GOODBYE_SECONDS)  # closes its input; it ends when the folder is removed
    except (subprocess.TimeoutExpired, OSError):
        pass
    finally:
        end_group(keeper)


@dataclass(frozen=True)
class Remote:
    """The runner on another machine.

    Attributes:
        folder: folder with the copies of files and model.
        model: name of the exported file.
        libraries: names of the operator libraries.
    """

    folder: RemoteFolder
    model: str
    libraries: Sequence[str]
    times_mean_something: bool = True

    def execute(self, folder: Path, options: RunOptions) -> Ran:
        """Copy the cases there, run the runner, and fetch the results."""
        there, transport = self.folder.path, self.folder.transport
        cases = there / "cases"
        names = [path.name for path in folder.glob("*.in")]
        transport.push(folder, cases, options.time_limit)
        files = RunnerFiles(there / RUNNER, there / _RUNTIME, [there / name for name in self.libraries])
        command = shlex.join(runner_command(files, there / "model" / self.model, cases, options))
        # ONNX Runtime leaves a file in the folder for temporary files.
        values = {"TMPDIR": str(there), **{name: os.environ[name] for name in _PASSED_ON if name in os.environ}}
        variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items())
        # The file with the process number exists only while the process runs: later the number may be another's.
        text = (
            f"cd {shlex.quote(str(there))} && chmod 700 {RUNNER} || exit; {variables} {command} & echo $! >pid; "
            "wait $!; status=$?; rm -f pid; exit $status"
        )
        done = run_there(transport, text, options.time_limit, what="the connection ended while the model ran")
        check_run(done, f"the runner on {transport.place}")
        results = ["result.json", *(f"{name.removesuffix('.in')}.out" for name in names)]
        transport.pull(results, cases, folder, options.time_limit)
        return Ran({"system": self.folder.system})


@contextmanager
def remote_model(
    transport: Transport, files_for: Callable[[str], RunnerFiles], subject: Subject, options: RunOptions
) -> Iterator[RunnerModel]:
    """Prepare a model on another machine.

    Args:
        transport: connection to the machine.
        files_for: returns the runner's files for a system such as ``Linux aarch64``.
        subject: the model.
        options: options with the time limit.

    Raises:
        NotRunError: if there is no connection, or no files for that machine, or they cannot be copied.
    """
    with remote_folder(transport, options.time_limit) as folder:
        files = files_for(folder.system)
        with tempfile.TemporaryDirectory() as name:
            stage = Path(name)
            libraries = {library.name: library for library in files.libraries}
            for link, program in {RUNNER: files.runner, _RUNTIME: files.runtime, **libraries}.items():
                (stage / link).symlink_to(program)
            for file in (subject.model, *subject.data):
                place = stage / "model" / file.relative_to(subject.model.parent)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(file.resolve())
            transport.push(stage, folder.path, options.time_limit)
        yield RunnerModel(subject.program.output_names, Remote(folder, subject.model.name, list(libraries)))


def files_of_this_machine(system: str) -> RunnerFiles | None:
    """Return the files of this machine if the other one has the same system, else None."""
    if sys.platform == "linux" and system == f"Linux {platform.machine()}":
        return own_files([get_library_path()])
    return None


def _reason(complaints: str) -> str:
    return last_line(complaints) or "no answer"
