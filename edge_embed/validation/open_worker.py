"""Worker program: opens a model once with each runtime that applies, and prints their error messages.

    open_worker.py onnx MODEL LIBRARY EXTENSIONS  ->  {"runtime": "ONNX Runtime ...", "errors": {"portable body": ""}}
    open_worker.py tflite MODEL                   ->  {"runtime": "LiteRT ...", "errors": {"built-in operators": ""}}

Nothing of this package is imported, so that the process starts fast. If memory runs out, the system ends this process
first.
"""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

_FATAL_ONLY = 4


def open_onnx(model: str, library: str, extensions: str) -> dict[str, Any]:
    """Open a model in ONNX Runtime, with the operator library, if there is one, and without."""
    import onnxruntime as ort  # noqa: PLC0415

    def session(libraries: list[str]) -> None:
        options = ort.SessionOptions()
        options.log_severity_level = _FATAL_ONLY
        options.intra_op_num_threads = 1
        for path in filter(None, libraries):
            options.register_custom_ops_library(path)
        ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    ways: dict[str, Callable[[], None]] = {"portable body": lambda: session([extensions])}
    if library:
        ways = {"operator library": lambda: session([library, extensions]), **ways}
    return {"runtime": f"ONNX Runtime {ort.__version__}", "errors": {way: _error(ways[way]) for way in ways}}


def open_tflite(model: str) -> dict[str, Any]:
    """Open a model in LiteRT with its built-in operators only."""
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415

    version = metadata.version("ai-edge-litert")
    error = _error(lambda: Interpreter(model_path=model).allocate_tensors())
    return {"runtime": f"LiteRT {version}", "errors": {"built-in operators": error}}


def _error(attempt: Callable[[], None]) -> str:
    try:
        attempt()
    except Exception as error:  # the runtimes' exceptions share no base class
        return f"{error}" or type(error).__name__
    return ""


def _be_first_to_end() -> None:
    """Make this process the first that the system ends without memory, and fail an allocation before that."""
    with suppress(OSError, ImportError, StopIteration, ValueError):  # only Linux has these
        Path("/proc/self/oom_score_adj").write_text("1000")
        import resource  # noqa: PLC0415

        lines = Path("/proc/meminfo").read_text().splitlines()
        available = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
        resource.setrlimit(resource.RLIMIT_DATA, (available, available))


if __name__ == "__main__":
    _be_first_to_end()
    _OPEN: dict[str, Callable[..., dict[str, Any]]] = {"onnx": open_onnx, "tflite": open_tflite}
    sys.stdout.write(json.dumps(_OPEN[sys.argv[1]](*sys.argv[2:])))
