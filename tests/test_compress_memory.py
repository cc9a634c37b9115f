"""Resident memory while a large table is compressed."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DIM, PARTS = 64, 100
SIZES = ("--method", "dpq", "--num-codes", "16", "--num-groups", "8")
TIERED = ("--method", "tiered", "--ratio", "20", "--counts")  # a file of counts follows
# A process counts the memory that its parent had resident when it was started, so a small process stands between them.
MEASURED = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""
# Rows, goal of the compression, and limit of resident bytes. They include pages of the mapped file, which the system
# may drop at any time. A copy of the smaller table would take 512 MB.
LIMITS = [
    (2_000_000, SIZES, 1_600_000_000),
    pytest.param(10_000_000, TIERED, 4_000_000_000, marks=pytest.mark.long),
    pytest.param(10_000_000, ("--method", "dpq", "--ratio", "20"), 4_000_000_000, marks=pytest.mark.long),
]


@pytest.fixture
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Write a table of float32 rows around 2,000 centres part by part; the safetensors library would need all rows."""
    rows: Any = request.param
    if shutil.disk_usage(tmp_path).free < 2 * 4 * rows * DIM:
        pytest.skip(f"too little space for a table of {4 * rows * DIM:,} bytes")
    random, path = np.random.default_rng(0), tmp_path / "words.safetensors"
    centres = random.standard_normal((2000, DIM), dtype=np.float32)
    header = {"words": {"dtype": "F32", "shape": [rows, DIM], "data_offsets": [0, 4 * rows * DIM]}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _ in range(PARTS):
            noise = 0.4 * random.standard_normal((rows // PARTS, DIM), dtype=np.float32)
            file.write((centres[random.integers(0, len(centres), rows // PARTS)] + noise).tobytes())
    yield path
    path.unlink()


def _counts(table: Path, folder: Path) -> Path:
    """Write counts by Zipf's law, in random order."""
    rows = table.stat().st_size // (4 * DIM)
    path = folder / "counts.npy"
    np.save(path, np.random.default_rng(0).permutation(rows // np.arange(1, rows + 1)))
    return path


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident memory is read as Linux counts it")
@pytest.mark.parametrize(
    ("table", "goal", "most"),
    LIMITS,
    ids=["two million", "ten million, tiered", "ten million"],
    indirect=["table"],
)
def test_compress_memory_stays_below_limit(table: Path, goal: tuple[str, ...], most: int, tmp_path: Path) -> None:
    output = tmp_path / "small.pt"
    counts = [f"words={_counts(table, tmp_path)}"] if goal[-1] == "--counts" else []
    command = [sys.executable, "-P", "-c", "from edge_embed.cli import run; run()", "compress", str(table)]
    command += ["--module", "words", *goal, *counts, "--checkpoint", str(tmp_path / "parts")]
    done = subprocess.run(
        [sys.executable, "-S", "-c", MEASURED, *command, "-o", str(output), "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    resident = 1024 * int(done.stderr.split()[-1])
    (found,) = json.loads(done.stdout)["tables"]
    assert found["fidelity"]["ratio"] >= 20
    assert output.stat().st_size < table.stat().st_size / 20 + 1_000_000
    print(f"{resident:,} bytes were resident")
    assert resident < most
