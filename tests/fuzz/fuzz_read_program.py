"""Fuzz target for the reader of ``model.pt``: whatever the bytes, only BadInputError may come out.

    python tests/fuzz/fuzz_read_program.py --seconds 300 --seed 1
    python tests/fuzz/fuzz_read_program.py --iterations 5000
    python tests/fuzz/fuzz_read_program.py --atheris -max_total_time=300   # coverage-guided, where installed
    python tests/fuzz/fuzz_read_program.py --replay finding.pt

Seeds are good files and every known attack (`attacks.py`). Half of the mutants change the description (the
JSON inside, the archive rewritten with right checksums, so that they get past them), a quarter other
members, a quarter the raw bytes. A finding is: another exception, an effect (a file opened for writing, a
process, a socket, code compiled from the file: seen by an audit hook), or more memory than a small file
is worth. Findings are written to ``--findings`` (default: the working folder) and the exit status is 1.
"""

import argparse
import json
import random
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attacks

from edge_embed.errors import BadInputError
from edge_embed.program.reader import read_program

_JSON = (attacks.MODEL, attacks.WEIGHTS, attacks.CONSTANTS, attacks.EXTRA)
_MEMORY = 4 << 30  # address space above the start; the mutants are a few 10 KB
_RESIDENT = 1 << 30
_EFFECTS = (
    "os.", "shutil.", "subprocess.", "socket.", "urllib.", "ctypes.dlopen", "webbrowser.", "pty.",
)  # fmt: skip
_HARMLESS = ("os.listdir", "os.scandir", "os.fwalk", "os.walk")
_VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 7, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 1e308, 0.5, "", "x", "ids", "NaN",
    "../../x", "/etc/passwd", "a.b.c", "__class__", "forward", "\ud800", "\x00", "x" * 300, [], {}, [[]], [None],
    {"as_none": True}, {"as_int": 2**62}, {"as_int": -1}, {"as_tensor": {"name": "ids"}}, {"as_name": "ids"},
    {"as_expr": {"expr_str": "Symbol('s0')"}}, {"as_expr": {"expr_str": "__import__('os')"}}, {"as_ints": [2**62] * 3},
    "torch.ops.aten.relu.default", "torch.ops.aten.add.Tensor", "torch.ops.aten.split.Tensor", "_operator.mul",
    "torch.ops.edge_embed.dpq_trainable_rows.default", "torch.ops.higher_order.cond", "os.system",
]  # fmt: skip


class Finding(Exception):
    """A file did what no file may do."""


class Effects:
    """Raises at the first effect while it is armed."""

    def __init__(self) -> None:
        self.armed = False
        sys.addaudithook(self._seen)

    def _seen(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.armed:
            return
        writes = event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+")
        effect = event.startswith(_EFFECTS) and event not in _HARMLESS
        if writes or effect or (event == "import" and args[0] == attacks.IMPORTED):
            self.armed = False
            raise Finding(f"{event} {args!r:.200}")


def seeds() -> list[attacks.Members]:
    """Good archives and hostile ones."""
    canary = Path("canary")
    found = [attacks.clean() for _ in range(8)]
    for attack in (attacks.REFUSED | attacks.IGNORED).values():
        members = attacks.clean()
        attack(members, canary)
        found.append(members)
    return found


def mutant(random_: random.Random, pool: list[attacks.Members]) -> bytes:
    """One file; the same generator state gives the same bytes."""
    members = dict(random_.choice(pool))
    kind = random_.random()
    if kind < 0.5:
        for _ in range(random_.choice((1, 1, 1, 2, 4))):
            _change_json(random_, members, pool)
        return attacks.pack(members)
    if kind < 0.75:
        _change_member(random_, members, pool)
        return attacks.pack(members, random_.choice(("archive/", "archive/", "archive/", "", "/", "../", "a/b/")))
    return _change_bytes(random_, attacks.pack(members))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) below ``value``."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        pairs = list(item.items()) if isinstance(item, dict) else list(enumerate(item))
        for key, child in pairs:
            yield item, key
            if isinstance(child, dict | list):
                waiting.append(child)


def _change_json(random_: random.Random, members: attacks.Members, pool: list[attacks.Members]) -> None:
    name = random_.choice((attacks.MODEL, *_JSON))
    try:
        content = json.loads(members[name])
    except (KeyError, ValueError):
        return
    places = list(_places(content))
    if not places:
        return
    owner, key = random_.choice(places)
    action = random_.randrange(6)
    if action == 0:
        del owner[key]
    elif action == 1:
        owner[key] = random_.choice(_VALUES)
    elif action == 2:
        other, other_key = random_.choice(places)
        owner[key] = json.loads(json.dumps(other[other_key]))
    elif action == 3 and isinstance(owner, list):
        owner.insert(key, json.loads(json.dumps(random_.choice(owner))))
    elif action == 4 and isinstance(owner, dict):
        owner[str(random_.choice(_VALUES))] = owner.pop(key)
    elif isinstance(owner[key], int):
        owner[key] += random_.choice((-1, 1, 2, 1000))
    members[name] = json.dumps(content).encode()


def _change_member(random_: random.Random, members: attacks.Members, pool: list[attacks.Members]) -> None:
    name = random_.choice([*members, attacks.SAMPLES, attacks.EXTRA])
    action = random_.randrange(5)
    if action == 0:
        members.pop(name, None)
    elif action == 1:
        members[name] = random_.choice(list(random_.choice(pool).values()))
    elif action == 2:
        members[random_.choice(("../x", "/x", "a\\b", "models//model.json", "é", "x/"))] = members.pop(name, b"")
    else:
        members[name] = _change_bytes(random_, members.get(name, b"{}"))


def _change_bytes(random_: random.Random, data: bytes) -> bytes:
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


def check(data: bytes, path: Path, effects: Effects) -> bool:
    """Read ``data``; True if it was accepted.

    Raises:
        Finding: if it did anything but read, or be refused.
    """
    path.write_bytes(data)
    before = sorted(path.parent.iterdir())
    effects.armed = True
    try:
        read_program(path)
        accepted = True
    except BadInputError as error:
        if any(isinstance(cause, Finding | MemoryError) for cause in _causes(error)):
            raise Finding("an effect, or a huge allocation, was turned into BadInputError") from error
        accepted = False
    except BaseException as error:
        raise Finding(f"{type(error).__name__}: {error}") from error
    finally:
        effects.armed = False
    if sorted(path.parent.iterdir()) != before:
        raise Finding("a file appeared")
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > _start_bytes + _RESIDENT:
        raise Finding("memory")
    return accepted


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _drive(arguments: argparse.Namespace, target: Callable[[bytes], bool]) -> int:
    random_, pool = random.Random(arguments.seed), seeds()
    begin, count, accepted = time.monotonic(), 0, 0
    while count < arguments.iterations and time.monotonic() - begin < arguments.seconds:
        data = mutant(random_, pool)
        try:
            accepted += target(data)
        except Finding:
            traceback.print_exc()
            kept = Path(arguments.findings) / f"finding-{arguments.seed}-{count}.pt"
            kept.write_bytes(data)
            print(f"finding after {count} files: {kept}")
            return 1
        count += 1
    print(f"{count} files, {accepted} accepted, no finding, {time.monotonic() - begin:.0f} s")
    return 0


def _atheris(target: Callable[[bytes], bool], options: list[str]) -> None:
    import atheris

    atheris.instrument_all()
    atheris.Setup([sys.argv[0], *options], lambda data: target(data) and None)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--iterations", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", default=".")
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--atheris", action="store_true")
    arguments, rest = parser.parse_known_args()
    effects = Effects()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"

        def target(data: bytes) -> bool:
            return check(data, path, effects)

        target(attacks.pack(attacks.clean()))  # whatever torch imports lazily is imported now
        if arguments.replay:
            print("accepted" if target(arguments.replay.read_bytes()) else "refused")
            return 0
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, resource.RLIM_INFINITY))
        if arguments.atheris:
            _atheris(target, rest)
            return 0
        return _drive(arguments, target)


_start_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

if __name__ == "__main__":
    sys.exit(main())
