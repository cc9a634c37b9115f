"""Driver of all fuzz targets: mutations, definition of a finding, and the loop.

A finding is one of these:

- an exception that the reader does not document,
- an effect that an audit hook sees: a file opened for writing, a process, a socket, a hostile import,
- a file that appears,
- more memory or time than the limits for a small file.

Findings are written to ``--findings`` (default: the working folder), and the exit status is 1. The exit status is also
1 if fewer than half of the files pass the checks of their container, such as the checksums of an archive. Such a run
would test little else. ``--atheris``, followed by its own options, runs coverage-guided where atheris is installed.
"""

import argparse
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

_MEMORY = 4 << 30  # of address space beyond the start; mutants have some 10 KB
_RESIDENT = 1 << 30
_SECONDS = 120  # of wall time; a file usually takes milliseconds
_LEAST_PASSING = 0.5
_EFFECTS = (
    "os.", "shutil.", "subprocess.", "socket.", "urllib.", "ctypes.dlopen", "webbrowser.", "pty.",
)  # fmt: skip
_HARMLESS = ("os.listdir", "os.scandir", "os.fwalk", "os.walk")

# Replacements of JSON values.
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 7, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 1e308, 0.5, "", "x", "ids", "NaN",
    "../../x", "/etc/passwd", "a.b.c", "__class__", "forward", "\ud800", "\x00", "x" * 300, [], {}, [[]], [None],
]  # fmt: skip


class Finding(Exception):
    """A file caused an effect, an error or a use of resources that no file may cause."""


class Effects:
    """Audit hook that raises at the first effect while it is armed."""

    def __init__(self, hostile_import: str = "") -> None:
        self.armed = False
        self._hostile_import = hostile_import
        sys.addaudithook(self._seen)

    def _seen(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.armed:
            return
        writes = event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+") and args[0] != os.devnull
        effect = event.startswith(_EFFECTS) and event not in _HARMLESS
        if writes or effect or (event == "import" and args[0] == self._hostile_import):
            self.armed = False
            raise Finding(f"{event} {args!r:.200}")


@dataclass(frozen=True)
class Reader:
    """The target of fuzzing.

    Attributes:
        name: name of the file that it reads.
        read: function that reads the file.
        refusals: errors that it may raise.
        mutant: function that makes a file; the same generator state gives the same bytes.
        sound: a file that it accepts.
        hostile_import: a module that reading must not import.
        passes: function that returns whether the checks of the container, such as its checksums, accept a file.
        beside: other files of the same folder, by name.
    """

    name: str
    read: Callable[[Path], object]
    refusals: tuple[type[Exception], ...]
    mutant: Callable[[random.Random], bytes]
    sound: bytes
    hostile_import: str = ""
    passes: Callable[[bytes], bool] | None = None
    beside: Mapping[str, bytes] = field(default_factory=dict)


def change_bytes(random_: random.Random, data: bytes) -> bytes:
    """Change, remove or insert some bytes."""
    changed = bytearray(data)
    for _ in range(random_.choice((1, 1, 2, 8, 32))):
        at = random_.randrange(len(changed) + 1)
        action = random_.randrange(5)
        if action == 0:
            del changed[at:]
        elif action == 1:
            del changed[at : at + random_.randrange(64)]
        elif action == 2:
            changed[at:at] = random_.randbytes(random_.randrange(1, 9))
        elif action == 3:
            changed[at : at + 4] = random_.choice((b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x00\x00\x00\x80"))
        elif at < len(changed):
            changed[at] ^= 1 << random_.randrange(8)
    return bytes(changed)


def change_values(random_: random.Random, content: Any, values: list[Any] = VALUES) -> None:
    """Change, delete, repeat or rename one value of nested lists and dicts in place."""
    places = list(_places(content))
    if not places:
        return
    owner, key = random_.choice(places)
    action = random_.randrange(6)
    if action == 0:
        del owner[key]
    elif action == 1:
        owner[key] = _copy(random_.choice(values))
    elif action == 2:
        other, other_key = random_.choice(places)
        owner[key] = _copy(other[other_key])
    elif action == 3 and isinstance(owner, list):
        owner.insert(key, _copy(random_.choice(owner)))
    elif action == 4 and isinstance(owner, dict):
        owner[str(random_.choice(values))] = owner.pop(key)
    elif isinstance(owner[key], int):
        owner[key] += random_.choice((-1, 1, 2, 1000))


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (container, key) below ``value``."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        pairs = list(item.items()) if isinstance(item, dict) else list(enumerate(item))
        for key, child in pairs:
            yield item, key
            if isinstance(child, dict | list):
                waiting.append(child)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def check(reader: Reader, data: bytes, path: Path, effects: Effects, most_bytes: float = inf) -> bool:
    """Read ``data``, and return whether the reader accepts it.

    Raises:
        Finding: the reader did something else than accept or refuse the file.
    """
    path.write_bytes(data)
    before = sorted(path.parent.iterdir())
    signal.alarm(_SECONDS)
    effects.armed = True
    try:
        reader.read(path)
        accepted = True
    except reader.refusals as error:
        if any(isinstance(cause, Finding | MemoryError) for cause in _causes(error)):
            raise Finding("an effect, or a huge allocation, was turned into a refusal") from error
        accepted = False
    except BaseException as error:
        raise Finding(f"{type(error).__name__}: {error}") from error
    finally:
        effects.armed = False
        signal.alarm(0)
    if sorted(path.parent.iterdir()) != before:
        raise Finding("a file appeared")
    if _peak() > most_bytes:
        raise Finding("memory")
    return accepted


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _drive(arguments: argparse.Namespace, reader: Reader, target: Callable[[bytes], bool]) -> int:
    random_ = random.Random(arguments.seed)
    begin, count, accepted, passed = time.monotonic(), 0, 0, 0
    while count < arguments.iterations and time.monotonic() - begin < arguments.seconds:
        data = reader.mutant(random_)
        try:
            accepted += target(data)
        except Finding:
            traceback.print_exc()
            kept = Path(arguments.findings) / f"finding-{arguments.seed}-{count}{Path(reader.name).suffix}"
            kept.write_bytes(data)
            print(f"finding after {count} files: {kept}")
            return 1
        count += 1
        passed += reader.passes is not None and reader.passes(data)
    share = f"{passed / count:.0%} pass the container's checks, " if reader.passes is not None and count else ""
    print(f"{count} files, {accepted} accepted, {share}no finding, {time.monotonic() - begin:.0f} s")
    if share and passed < _LEAST_PASSING * count:
        print(f"expected at least {_LEAST_PASSING:.0%} that pass: change more of what is inside")
        return 1
    return 0


def _too_long(*_: object) -> None:
    raise Finding(f"took more than {_SECONDS} s")


def _atheris(target: Callable[[bytes], bool], options: list[str]) -> None:
    import atheris

    atheris.instrument_all()
    atheris.Setup([sys.argv[0], *options], lambda data: target(data) and None)
    atheris.Fuzz()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every fuzz target."""
    parser.add_argument("--seconds", type=float, default=inf)
    parser.add_argument("--iterations", "--count", type=float, default=inf)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", default=".")
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--atheris", action="store_true")


def run(reader: Reader, arguments: argparse.Namespace, rest: list[str]) -> int:
    """Fuzz a reader or replay a finding, and return the exit status."""
    effects = Effects(reader.hostile_import)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / reader.name

        def target(data: bytes) -> bool:
            return check(reader, data, path, effects, most_bytes)

        for name, content in reader.beside.items():
            (path.parent / name).write_bytes(content)
        signal.signal(signal.SIGALRM, _too_long)
        path.write_bytes(reader.sound)
        reader.read(path)  # triggers the lazy imports before the limits are set
        most_bytes = _peak() + _RESIDENT
        if arguments.replay:
            print("accepted" if target(arguments.replay.read_bytes()) else "refused")
            return 0
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, resource.RLIM_INFINITY))
        if arguments.atheris:
            _atheris(target, rest)
            return 0
        return _drive(arguments, reader, target)
