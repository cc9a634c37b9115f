"""How much memory it takes to compress a large table."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("faiss", reason="faiss is not installed (extra edge-embed[compress])")

DIM, PARTS = 64, 100
SIZES = ("--num-codes", "16", "--num-groups", "8")
# Rows, what they are compressed to, and the most bytes that may be resident, those of the file too that the system may
# drop at any time. A copy of the smaller table would take 512 MB.
LIMITS = [
    (2_000_000, SIZES, 1_500_000_000),
    pytest.param(10_000_000, ("--ratio", "20"), 4_000_000_000, marks=pytest.mark.long),
]


@pytest.fixture
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """256 bytes a row, float32 around 2,000 centres, in a safetensors file: its library would want all at once."""
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


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident memory is read as Linux counts it")
@pytest.mark.parametrize(("table", "goal", "most"), LIMITS, ids=["two million", "ten million"], indirect=["table"])
def test_compress_takes_little_more_memory_than_the_table(
    table: Path, goal: tuple[str, ...], most: int, tmp_path: Path
) -> None:
    output, report = tmp_path / "small.pt", tmp_path / "report.json"
    command = [sys.executable, "-P", "-c", "from edge_embed.cli import run; run()", "compress", str(table)]
    command += ["--module", "words", "--method", "dpq", *goal, "--checkpoint", str(tmp_path / "parts")]
    with report.open("wb") as to, subprocess.Popen([*command, "-o", str(output), "--json"], stdout=to) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    (found,) = json.loads(report.read_text(encoding="utf-8"))["tables"]
    assert found["fidelity"]["ratio"] >= 20
    assert output.stat().st_size < table.stat().st_size / 20 + 1_000_000
    print(f"{used.ru_maxrss * 1024:,} bytes were resident")
    assert used.ru_maxrss * 1024 < most
