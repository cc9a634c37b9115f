"""Large tables in one run: time and memory of a compression, ratios that are used up, and a portable output layer.

``python tests/benchmarks/large_tables.py --data FOLDER`` prints:

1. the CPU time of all threads and the peak memory of ``edge-embed compress --method dpq --ratio 8``, for random tables
   of bfloat16 in the sizes of language models. Memory is that above the same command for a small table, in tables of
   float32;
2. the table of `used_up_ratio`;
3. ``edge-embed bench`` of an output layer: the operator, its portable body and a dense MatMul, in turns.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import click
import torch
import used_up_ratio
from safetensors.torch import save_file

_SIZES = (151_936, 896), (262_144, 640)
_SMALL = 2_000, 64
_FACTORS = 128  # of the part of the rows that is not noise
_COMMAND = Path(sys.executable).with_name("edge-embed")
_LAYER = "--method dpq --use logits --rows 151936 --dim 512 --codes 16 --batch 1 --peers onnxruntime --rounds 10"


class _Used(NamedTuple):
    seconds: float
    peak: int  # bytes


@click.command()
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True)
@click.pass_context
def main(context: click.Context, data: Path) -> None:
    """Print the figures."""
    least = _compressed(*_SMALL)
    for rows, columns in _SIZES:
        used = _compressed(rows, columns)
        share = (used.peak - least.peak) / (4 * rows * columns)
        print(f"dpq, 8x, {rows:,} x {columns}: {used.seconds:.0f} s of CPU time, {share:.2f} tables", flush=True)
    context.invoke(used_up_ratio.main, data=data)
    subprocess.run([_COMMAND, "bench", *_LAYER.split()], check=True)


def _compressed(rows: int, columns: int) -> _Used:
    """Return what the command uses for a table of this size."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "words.safetensors")
        _save(path, rows, columns)
        given = "--module", "words", "--method", "dpq", "--ratio", "8", "--quiet"
        command = [_COMMAND, "compress", path, "-o", Path(folder, "small.pt"), *given]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise click.ClickException(f"compress ended with {process.returncode}")
    return _Used(usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss)


def _save(path: Path, rows: int, columns: int) -> None:
    """Save rows with a part of low rank and noise, bfloat16."""
    random = torch.Generator().manual_seed(0)
    factors = torch.randn(_FACTORS, columns, generator=random) / 8
    sizes = torch.linspace(1, 0.2, _FACTORS)
    parts = (
        torch.randn(count, _FACTORS, generator=random) * sizes @ factors
        + torch.randn(count, columns, generator=random) / 2
        for count in [4096] * (rows // 4096) + [rows % 4096]
    )
    save_file({"words": torch.cat([(part / 50).bfloat16() for part in parts])}, path)


if __name__ == "__main__":
    main()
