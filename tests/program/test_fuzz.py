"""A short run of the fuzz target: it works, and has no finding in a few thousand files."""

import random
import subprocess
import sys
from pathlib import Path

import fuzz_read_program
import pytest

_SCRIPT = Path(fuzz_read_program.__file__)


def test_seed_gives_same_files_again() -> None:
    pool = fuzz_read_program.seeds()
    assert [fuzz_read_program.mutant(random.Random(7), pool) for _ in range(3)] == [
        fuzz_read_program.mutant(random.Random(7), pool) for _ in range(3)
    ]


def test_effects_are_seen_by_hook(tmp_path: Path) -> None:
    """A run without findings proves nothing unless the hook works."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import driver as fuzz, os\n"
        "effects = fuzz.Effects()\n"
        "for effect in (lambda: open('x', 'w'), lambda: os.mkdir('y'), lambda: os.system('true')):\n"
        "    effects.armed = True\n"
        "    try: effect()\n"
        "    except fuzz.Finding: print('seen')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, _SCRIPT.parent],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == ["seen"] * 3, done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_fuzz_run_of_ten_seconds_has_no_finding(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, _SCRIPT, "--seconds", "10", "--seed", "20"],
        cwd=tmp_path, check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no finding" in done.stdout
