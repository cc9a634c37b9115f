"""Cost of exporting a large table: ``python tests/benchmarks/export_cost.py`` prints time and peak memory.

Every export runs in a process of its own. Its peak memory is counted beyond that of a preceding 1,000-row export, which
is mostly imports, and is given as a multiple of the packed bytes. Time on a shared machine is only a rough figure.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROWS, DIM = 1_000_000, 256
LAYERS = {
    "DPQ K=16, D=64": ("DPQEmbedding", {"num_codes": 16, "num_groups": 64}),
    "DPQ K=256, D=32": ("DPQEmbedding", {"num_codes": 256, "num_groups": 32}),
    "ANT A=32, m=8": ("ANTEmbedding", {"num_anchors": 32}),
    "TT R=32": ("TTEmbedding", {"rank": 32}),
}
STATES = ("trained", "frozen")


@dataclass(frozen=True)
class Cost:
    """Cost of one export: seconds after imports, peak bytes beyond a small export, bytes of the packed table."""

    seconds: float
    peak: int
    packed: int

    @property
    def multiple(self) -> float:
        return self.peak / self.packed


def measure(layer: str, state: str, rows: int = ROWS) -> Cost:
    """Save and export a table of 1,000 rows and one of ``rows``, and return the cost of the second."""
    with tempfile.TemporaryDirectory() as folder:
        _child("save", folder, layer, state, "1000", str(rows))
        small, large = json.loads(_child("export", f"{folder}/1000.pt", f"{folder}/{rows}.pt"))
    return Cost(large["seconds"], large["peak"] - small["peak"], large["packed"])


def _child(*arguments: str) -> str:
    threads = {
        name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"
    }  # all threads, as for a user
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=threads)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def _save(folder: str, layer: str, state: str, *counts: str) -> None:
    for rows in counts:
        _save_table(Path(folder) / f"{rows}.pt", int(rows), layer, state)


def _save_table(path: Path, rows: int, layer: str, state: str) -> None:
    import torch

    import edge_embed
    from edge_embed.program.capture import write_archive

    name, options = LAYERS[layer]
    table = getattr(edge_embed, name)(rows, DIM, **options)
    if name == "ANTEmbedding":  # as if it were trained: 8 nonzeros a row
        with torch.no_grad():
            table.transform[:, 8:] = 0
    if state == "frozen":
        table.freeze()
    with open(path, "wb") as file:
        write_archive(table, file, torch.zeros(1, 1, dtype=torch.int64))


def _measured_export(path: str) -> dict[str, float]:
    from edge_embed.exporters.onnx.export import export_onnx
    from edge_embed.lowering.graph import lower_program
    from edge_embed.program.reader import read_program

    start = time.perf_counter()
    lowered = lower_program(read_program(Path(path)))
    written = export_onnx(lowered, Path(path).with_suffix(".onnx"))
    seconds = time.perf_counter() - start
    (table,) = lowered.tables.values()
    assert sum(file.stat().st_size for file in written.files) < 1.01 * table.nbytes + (32 << 10)
    return {"seconds": seconds, "peak": _peak_bytes(), "packed": table.nbytes}


def _peak_bytes() -> int:
    """Return the peak resident bytes of this process; ``ru_maxrss`` would include those of the parent process."""
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def main() -> None:
    print(f"export of {ROWS:,} x {DIM}; limits: trained 6, frozen 4 times the packed bytes")
    for layer in LAYERS:
        for state in STATES:
            print(f"{layer:15} {state:8} {describe(measure(layer, state))}", flush=True)


def describe(cost: Cost) -> str:
    return (
        f"{cost.seconds:5.1f} s, peak {cost.peak / 2**20:6.0f} MiB above a small export "
        f"= {cost.multiple:4.2f} x packed ({cost.packed / 2**20:.1f} MiB)"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["save"]:
        _save(*sys.argv[2:])
    elif sys.argv[1:2] == ["export"]:
        print(json.dumps([_measured_export(path) for path in sys.argv[2:]]))
    else:
        main()
