"""A table that is larger than the memory it takes to compress it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("faiss", reason="faiss is not installed (extra edge-embed[compress])")

ROWS, DIM, PARTS = 10_000_000, 64, 100
MOST = 4_000_000_000  # bytes that are resident, those of the file too that the system may drop at any time


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Path]:
    """2.56 GB of float32 rows around 2,000 centres, in a safetensors file: its library would want them at once."""
    if shutil.disk_usage(tmp_path).free < 2 * 4 * ROWS * DIM:
        pytest.skip("too little space for a table of 2.56 GB")
    random, path = np.random.default_rng(0), tmp_path / "words.safetensors"
    centres = random.standard_normal((2000, DIM), dtype=np.float32)
    header = {"words": {"dtype": "F32", "shape": [ROWS, DIM], "data_offsets": [0, 4 * ROWS * DIM]}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _ in range(PARTS):
            noise = 0.4 * random.standard_normal((ROWS // PARTS, DIM), dtype=np.float32)
            file.write((centres[random.integers(0, len(centres), ROWS // PARTS)] + noise).tobytes())
    yield path
    path.unlink()


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident memory is read as Linux counts it")
def test_ten_million_rows_take_less_than_four_gigabytes(table: Path, tmp_path: Path) -> None:
    output, report = tmp_path / "small.pt", tmp_path / "report.json"
    command = [sys.executable, "-P", "-c", "from edge_embed.cli import run; run()", "compress", str(table)]
    command += ["--module", "words", "--method", "dpq", "--ratio", "20", "--checkpoint", str(tmp_path / "parts")]
    with report.open("wb") as to, subprocess.Popen([*command, "-o", str(output), "--json"], stdout=to) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    (found,) = json.loads(report.read_text(encoding="utf-8"))["tables"]
    assert found["fidelity"]["ratio"] >= 20
    assert output.stat().st_size < table.stat().st_size / 20 + 1_000_000
    assert used.ru_maxrss * 1024 < MOST
