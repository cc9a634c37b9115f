"""Known attacks on a saved program: no code runs, and an unreadable file is refused by name."""

import subprocess
import sys
from pathlib import Path

import attacks
import pytest
import torch

from edge_embed.errors import BadInputError
from edge_embed.program.reader import read_program

# The payloads below work; otherwise the tests could pass because an attack is broken.
_STRONGEST = ("expr_str_runs_code", "samples_hold_a_pickle", "weight_is_a_pickle", "tree_specs_import_modules")


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


def written(tmp_path: Path, attack: attacks.Attack, canary: Path) -> Path:
    path = tmp_path / "model.pt"
    path.write_bytes(attacks.hostile(attack, canary))
    return path


@pytest.mark.parametrize("name", attacks.REFUSED)
def test_attack_is_refused_by_name(name: str, tmp_path: Path, canary: Path) -> None:
    path = written(tmp_path, attacks.REFUSED[name], canary)
    with pytest.raises(BadInputError, match=str(path)):
        read_program(path)
    assert sorted(tmp_path.iterdir()) == [path], "the payload ran"


@pytest.mark.parametrize("name", attacks.IGNORED)
def test_attack_in_unread_field_is_ignored(name: str, tmp_path: Path, canary: Path) -> None:
    """Unread fields change nothing: the program equals the one without them, and runs."""
    path = written(tmp_path, attacks.IGNORED[name], canary)
    clean = tmp_path / "clean.pt"
    clean.write_bytes(attacks.pack(attacks.clean()))
    hostile, good = read_program(path), read_program(clean)
    for got, expected in zip(hostile.run(*hostile.example_inputs), good.run(*good.example_inputs), strict=True):
        assert torch.equal(got, expected)
    assert not canary.exists(), "the payload ran"
    assert attacks.IMPORTED not in sys.modules, "the file chose a module to import"


@pytest.mark.slow
def test_torch_export_load_would_run_attacks(tmp_path: Path) -> None:
    """Attacks that torch executes are the reason for this reader; it may become simpler if torch mends them."""
    for name in _STRONGEST:
        data = attacks.hostile((attacks.REFUSED | attacks.IGNORED)[name], tmp_path / name)
        (tmp_path / f"{name}.pt2").write_bytes(data)
    code = (
        "import sys, torch, edge_embed.ops.dpq\n"
        "for path in sys.argv[1:]:\n"
        "    try: torch.export.load(path)\n"
        "    except Exception: pass\n"
        f"print('imported' if {attacks.IMPORTED!r} in sys.modules else '')"
    )
    files = sorted(tmp_path.iterdir())
    done = subprocess.run(
        [sys.executable, "-c", code, *files], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.endswith("imported\n"), done.stderr
    for name in _STRONGEST:
        assert (tmp_path / name).exists() or name == "tree_specs_import_modules", (name, done.stderr)


@pytest.mark.parametrize(
    ("attack", "named"),
    [
        ("operator_writes_files", "aten.from_file.default"),
        ("higher_order_operator", "control flow"),
        ("buffer_is_changed", "'scale'"),
        ("weight_is_a_pickle", "pickle"),
        ("target_system", "os.system"),
        ("target_in_place", "changes a tensor in place"),
    ],
)
def test_offending_field_is_named(attack: str, named: str, tmp_path: Path, canary: Path) -> None:
    with pytest.raises(BadInputError, match=named):
        read_program(written(tmp_path, attacks.REFUSED[attack], canary))
