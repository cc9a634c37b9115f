"""Fuzz target for the reader of ``model.pt``: for any bytes, it may only accept or raise BadInputError.

    python tests/fuzz/fuzz_read_program.py --seconds 300 --seed 1
    python tests/fuzz/fuzz_read_program.py --iterations 5000
    python tests/fuzz/fuzz_read_program.py --atheris -max_total_time=300   # coverage-guided, where installed
    python tests/fuzz/fuzz_read_program.py --replay finding.pt

Seeds are valid files and every known attack (`attacks.py`). Half of the mutants change the description, which is JSON,
in an archive with right checksums. A quarter change other members, and a quarter the raw bytes. `driver.py` defines a
finding.
"""

import argparse
import json
import random
import sys
from functools import partial
from pathlib import Path
from typing import Any

import attacks
import containers
from driver import VALUES, Reader, add_options, change_bytes, change_values, run

from edge_embed.errors import BadInputError
from edge_embed.program.reader import read_program

_JSON = (attacks.MODEL, attacks.WEIGHTS, attacks.CONSTANTS, attacks.EXTRA)
_VALUES: list[Any] = [
    *VALUES,
    {"as_none": True}, {"as_int": 2**62}, {"as_int": -1}, {"as_tensor": {"name": "ids"}}, {"as_name": "ids"},
    {"as_expr": {"expr_str": "Symbol('s0')"}}, {"as_expr": {"expr_str": "__import__('os')"}}, {"as_ints": [2**62] * 3},
    "torch.ops.aten.relu.default", "torch.ops.aten.add.Tensor", "torch.ops.aten.split.Tensor", "_operator.mul",
    "torch.ops.edge_embed.dpq_trainable_rows.default", "torch.ops.higher_order.cond", "os.system",
]  # fmt: skip


def seeds() -> list[attacks.Members]:
    """Return valid and hostile archives."""
    canary = Path("canary")
    found = [attacks.clean() for _ in range(8)]
    for attack in (attacks.REFUSED | attacks.IGNORED).values():
        members = attacks.clean()
        attack(members, canary)
        found.append(members)
    return found


def mutant(random_: random.Random, pool: list[attacks.Members]) -> bytes:
    """Return a mutant; the same generator state gives the same bytes."""
    members = dict(random_.choice(pool))
    kind = random_.random()
    if kind < 0.5:
        for _ in range(random_.choice((1, 1, 1, 2, 4))):
            _change_json(random_, members, pool)
        return attacks.pack(members)
    if kind < 0.75:
        _change_member(random_, members, pool)
        return attacks.pack(members, random_.choice(("archive/", "archive/", "archive/", "", "/", "../", "a/b/")))
    return change_bytes(random_, attacks.pack(members))


def _change_json(random_: random.Random, members: attacks.Members, pool: list[attacks.Members]) -> None:
    name = random_.choice((attacks.MODEL, *_JSON))
    try:
        content = json.loads(members[name])
    except (KeyError, ValueError):
        return
    change_values(random_, content, _VALUES)
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
        members[name] = change_bytes(random_, members.get(name, b"{}"))


def reader() -> Reader:
    """Return the reader of saved programs."""
    sound, make = attacks.pack(attacks.clean()), partial(mutant, pool=seeds())
    return Reader("model.pt", read_program, (BadInputError,), make, sound, attacks.IMPORTED, containers.is_zip)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    return run(reader(), *parser.parse_known_args())


if __name__ == "__main__":
    sys.exit(main())
