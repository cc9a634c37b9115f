"""Machines for the remote targets: this machine behind an ssh server, and behind a program like adb."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

SERVER = "/usr/sbin/sshd"


@dataclass
class Machine:
    """A machine that a test can reach.

    Attributes:
        target: its name on the command line.
        folder: place of its temporary folders.
        vanish: ends all connections to it, and refuses new ones.
        ssh_config: configuration of the client, if the machine is reached by ssh.
    """

    target: str
    folder: Path
    vanish: Callable[[], None]
    ssh_config: Path | None = None


@contextmanager
def ssh_machine(folder: Path, search_path: str) -> Iterator[tuple[Machine, str]]:
    """Start an ssh server on a free port with keys of its own, and put an ssh that knows them on the search path."""
    if not Path(SERVER).exists() or shutil.which("ssh") is None:
        pytest.skip(f"{SERVER} is missing (Debian: apt-get install openssh-server openssh-client)")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # the system makes it before it starts the server
    port, there = _free_port(), folder / "there"
    there.mkdir()
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        f"PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n"
        f"SetEnv TMPDIR={there}\n"
    )
    config = folder / "ssh_config"
    config.write_text(
        f"Host pi\n  HostName 127.0.0.1\n  Port {port}\n  User {getpass.getuser()}\n  IdentityFile {folder}/user\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {folder}/known\n  GlobalKnownHostsFile /dev/null\n"
    )
    programs = folder / "bin"
    programs.mkdir()
    _program(programs / "ssh", f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([SERVER, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)

    def vanish() -> None:
        for process in (server.pid, *_descendants(server.pid, "sshd")):
            _end(process)
        server.wait()

    try:
        _wait_for(port, server, folder / "log")
        yield Machine("ssh:pi", there, vanish, config), os.pathsep.join([str(programs), search_path])
    finally:
        if server.poll() is None:
            vanish()


def adb_machine(folder: Path, search_path: str) -> tuple[Machine, str]:
    """Write a program ``adb`` for a device whose /data/local/tmp is a folder here, until the file ``gone`` exists."""
    there, programs, gone = folder / "there", folder / "bin", folder / "gone"
    there.mkdir()
    programs.mkdir()
    _program(
        programs / "adb",
        f"#!{sys.executable} -IS\n"
        "import os, shutil, subprocess, sys\n"
        f"there, gone = {str(there)!r}, {str(gone)!r}\n"
        "option, serial, verb, *rest = sys.argv[1:]\n"
        "assert option == '-s', sys.argv\n"
        "if serial != 'pixel' or os.path.exists(gone):\n"
        "    sys.exit(f\"error: device '{serial}' not found\")\n"
        "rest = [text.replace('/data/local/tmp', there) for text in rest]\n"
        "if verb == 'get-state':\n"
        "    print('device')\n"
        "elif verb in ('push', 'pull'):\n"
        "    shutil.copy(*rest)\n"
        "    print('1 file copied')\n"
        "elif verb == 'shell' and rest[0] == '-T':\n"
        f"    with open({str(folder / 'clients')!r}, 'a') as clients:\n"
        "        print(os.getpid(), file=clients)\n"
        # The shell continues when this program is killed, as on a device; its output ends here.
        "    shell = subprocess.Popen(['sh', '-c', *rest[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE,\n"
        "                             start_new_session=True)\n"
        "    for line in shell.stdout:\n"
        "        sys.stdout.buffer.write(line)\n"
        "        sys.stdout.flush()\n"
        "    sys.stderr.buffer.write(shell.stderr.read())\n"
        "    sys.exit(shell.wait())\n"
        "else:\n"
        "    sys.exit(f'adb: unknown command {verb}')\n",
    )

    def vanish() -> None:
        gone.touch()
        for process in (folder / "clients").read_text().split():
            _end(int(process))

    return Machine("adb:pixel", there, vanish), os.pathsep.join([str(programs), search_path])


def _end(process: int) -> None:
    with suppress(ProcessLookupError):  # it has just ended by itself
        os.kill(process, signal.SIGKILL)


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(100):
        assert server.poll() is None, log.read_text()
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def _descendants(parent: int, name: str) -> list[int]:
    """Return the processes of a name that one has started, with their descendants."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            before, _, after = status.read_text().rpartition(")")
        except OSError:  # it has just ended
            continue
        if int(after.split()[1]) == parent and before.endswith(f"({name}"):
            child = int(status.parent.name)
            found += [child, *_descendants(child, name)]
    return found
