"""Target ``ssh:HOST``: a Linux machine that ssh reaches with a key."""

import shlex
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from edge_embed.report.results.targets import Evidence, Problem
from edge_embed.targets.arm64_files import arm64_files, arm64_lacks
from edge_embed.targets.process import run_tool
from edge_embed.targets.remote import files_of_this_machine, remote_model, run_there
from edge_embed.targets.runner import RunnerFiles, RunnerModel, runner_lacks
from edge_embed.targets.target import NotRunError, RunOptions, Subject, Tokenizer

# ssh asks no questions, and does not wait forever for a machine that was switched off.
_OPTIONS = "-T -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15 -o ServerAliveCountMax=4".split()


@dataclass(frozen=True)
class SshTransport:
    """Connection to a host through ssh.

    Attributes:
        host: argument of ssh: ``user@host``, or a name from its configuration.
    """

    host: str
    parent: str = '"${TMPDIR:-/tmp}"'

    @property
    def place(self) -> str:
        """Return a description for messages."""
        return f"host {self.host}"

    def shell(self, text: str) -> list[str]:
        """Return the command; it runs sh, so that the user's own shell does not matter."""
        return ["ssh", *_OPTIONS, "--", self.host, f"exec sh -c {shlex.quote(text)}"]

    def push(self, folder: Path, to: PurePosixPath, time_limit: float) -> None:
        """Copy through tar, so that names can hold any character."""
        quoted = shlex.quote(str(to))
        with subprocess.Popen(
            ["tar", "--create", "--dereference", "--file=-", "--directory", folder, "."],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # the tar at the other end reports missing files
        ) as tar:
            assert tar.stdout is not None
            text = f"mkdir -p {quoted} && tar -xof - -C {quoted}"
            done = run_there(
                self, text, time_limit, what="the connection ended while files were copied", stdin=tar.stdout
            )
        if done.status != 0:
            raise NotRunError(f"{self.place}: files cannot be copied there: tar {done.ending}")
        if tar.returncode != 0:
            raise NotRunError(f"{folder}: tar cannot read all files to copy to {self.place}")

    def pull(self, names: Sequence[str], folder: PurePosixPath, to: Path, time_limit: float) -> None:
        """Fetch through tar, and unpack only files with these names."""
        with tempfile.TemporaryFile() as packed:
            command = self.shell(f"cd {shlex.quote(str(folder))} && tar -cf - {shlex.join(names)}")
            run_tool(command, time_limit, what=f"{self.place}: fetching the results: ssh", stdout=packed)
            packed.seek(0)
            _unpack(packed, names, to)


def _unpack(packed: IO[bytes], names: Sequence[str], to: Path) -> None:
    try:
        with tarfile.open(fileobj=packed) as archive:
            for name in names:
                content = archive.extractfile(name)
                if content is not None:
                    with (to / name).open("wb") as file:
                        shutil.copyfileobj(content, file)
    except (tarfile.TarError, KeyError) as error:
        raise NotRunError(f"the results are incomplete: {error}") from error


@dataclass(frozen=True)
class Ssh:
    """A host.

    Attributes:
        host: argument of ssh.
    """

    host: str
    evidence: Evidence = "executed-native"
    tokenizer: Tokenizer = "cannot run"

    @property
    def name(self) -> str:
        """Return the name on the command line."""
        return f"ssh:{self.host}"

    def lacks(self) -> list[Problem]:
        """List what is missing on this machine; the host is not contacted."""
        tools = (("ssh", "openssh-client"), ("tar", "tar"))
        missing = [
            Problem(f"{tool} is missing", f"apt-get install {package}")
            for tool, package in tools
            if not shutil.which(tool)
        ]
        return missing + runner_lacks()

    def prepare(self, subject: Subject, options: RunOptions) -> AbstractContextManager[RunnerModel]:
        """Copy runner and model to the host."""
        return remote_model(SshTransport(self.host), lambda system: _files_for(system, options), subject, options)


def _files_for(system: str, options: RunOptions) -> RunnerFiles:
    own = files_of_this_machine(system)
    if own is not None:
        return own
    if system != "Linux aarch64":
        raise NotRunError(f"got {system}, expected Linux aarch64, or the system of this machine if it is Linux")
    if lacks := arm64_lacks():
        raise NotRunError("; ".join(f"{problem.what}: {problem.remedy}" for problem in lacks))
    return arm64_files(options.time_limit)
