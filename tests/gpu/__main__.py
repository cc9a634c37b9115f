"""Runs everything that needs a GPU and writes one report: ``make gpu-check``, or ``python -m tests.gpu``.

With ``--device cpu`` the same code runs on the processor, which shows no more than that the checks themselves run.
"""

import argparse
import datetime
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import torch

from tests.gpu import latency, layers, models
from tests.gpu.table import Table

TARGETS = {
    "cuda": ("torch-cuda", "onnxruntime-cuda", "onnxruntime-cuda:library"),
    "cpu": ("torch-cpu", "portable", "local"),
}
PARTS = ("layers", "models", "ids", "latency")


def main(arguments: Sequence[str]) -> int:
    """Run the chosen parts, write the report, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("--device", choices=TARGETS, default="cuda")
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all")
    parser.add_argument("--rows", type=int, default=latency.Sizes().rows, help="rows of the tables that are timed")
    parser.add_argument("--report", type=Path, default=Path("tests/GPU.md"))
    chosen = parser.parse_args(arguments)
    if chosen.device == "cuda" and not torch.cuda.is_available():
        print(f"torch {torch.__version__} found no GPU: expected one, with torch built for it", file=sys.stderr)
        return 2
    tables = []
    with tempfile.TemporaryDirectory() as folder:
        for work in _works(chosen, Path(folder)):
            start = time.perf_counter()
            try:
                found = work()
            except Exception as error:  # the other parts are still to run
                traceback.print_exc()
                found = [Table("A part that ended early", ["error"], [[f"FAILED: {error!s:.300}"]])]
            tables += found
            print(f"{time.perf_counter() - start:6.1f} s", *(each.title for each in found), sep="  ", flush=True)
            chosen.report.write_text(
                _report(arguments, chosen.device, tables)
            )  # after each part: a later one may end the process
    failures = sum(each.failures for each in tables)
    print(f"{failures} results failed: {chosen.report}" if failures else f"all results passed: {chosen.report}")
    return int(failures > 0)


def _works(chosen: argparse.Namespace, folder: Path) -> list[Callable[[], list[Table]]]:
    device, sizes = chosen.device, latency.Sizes(rows=chosen.rows)
    works: dict[str, list[Callable[[], list[Table]]]] = {
        "layers": [
            lambda: [layers.parity(device)],
            lambda: [layers.training(device)],
            lambda: [layers.uses_of_a_device(device)],
        ],
        "models": [lambda: [models.targets(TARGETS[device], folder)]],
        "ids": [lambda: [models.wrong_ids(device, folder)]],
        "latency": [lambda: _latency(device, sizes, folder)],
    }
    return [work for part in chosen.part or PARTS for work in works[part]]


def _latency(device: str, sizes: latency.Sizes, folder: Path) -> list[Table]:
    held = latency.tables(sizes)
    found = latency.torch_latency(device, sizes, held)
    if device == "cpu" or "CUDAExecutionProvider" in ort.get_available_providers():
        found += latency.onnx_latency(device, sizes, held, folder)
    return found


def _report(arguments: Sequence[str], device: str, tables: list[Table]) -> str:
    shown = " ".join(("python -m tests.gpu", *arguments)).partition(" --report")[0]
    command = f"`{shown}`"
    text = f"# Checks on a GPU\n\nWritten by {command} on {datetime.date.today():%d %B %Y}.\n\n{_machine(device)}\n"
    return text + "".join(f"\n{each.markdown()}" for each in tables)


def _machine(device: str) -> str:
    card = f"{torch.cuda.get_device_name()}, driver {_driver()}" if device == "cuda" else "no GPU"
    cuda = f" (CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()})" if device == "cuda" else ""
    versions = [f"torch {torch.__version__}{cuda}", f"ONNX Runtime {ort.__version__}", f"onnx {onnx.__version__}"]
    versions += [f"numpy {np.__version__}", f"Python {platform.python_version()}"]
    return f"Machine: {card}; {', '.join(versions)}. TF32 was off in validation and latency."


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    except OSError:
        return "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
