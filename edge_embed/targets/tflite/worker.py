"""Runs a TFLite model on the cases in a folder: ``worker.py MODEL FOLDER ITERATIONS THREADS``.

Needs numpy and one of the two runtimes, and nothing of edge_embed: tflite-runtime has an environment of its own. A case
that the runtime refuses leaves its message in place of outputs; the others run all the same.
"""

import json
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np


def main(model: str, folder: Path, iterations: int, threads: int) -> None:
    """Run all cases, and time the first."""
    package, interpreter_class = _runtime()
    inputs = json.loads((folder / "inputs.json").read_text(encoding="utf-8"))
    begin = time.perf_counter()
    interpreter = interpreter_class(model_path=model, num_threads=threads or None)
    indices = {detail["name"]: detail["index"] for detail in interpreter.get_input_details()}
    create = time.perf_counter() - begin
    times: list[float] = []
    for number in range(len(list(folder.glob("*.in.npz")))):
        with np.load(folder / f"{number}.in.npz", allow_pickle=False) as case:
            feeds = {indices[name]: case[f"arr_{at}"] for at, name in enumerate(inputs)}
        try:
            seconds = [_run(interpreter, feeds) for _ in range(1 if times else 1 + iterations)]
            outputs = [_output(interpreter, detail) for detail in interpreter.get_output_details()]
        except (RuntimeError, ValueError) as error:
            (folder / f"{number}.error").write_text(str(error), encoding="utf-8")
        else:
            times = times or seconds
            np.savez(folder / f"{number}.out.npz", *outputs)
    result = {"versions": {package: metadata.version(package), "numpy": np.__version__}, "create": create}
    (folder / "result.json").write_text(json.dumps({**result, "calls": times}), encoding="utf-8")


def _runtime() -> tuple[str, Any]:
    try:
        from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415
    except ImportError:
        from tflite_runtime import interpreter  # type: ignore[import-not-found] # noqa: PLC0415

        return "tflite-runtime", interpreter.Interpreter
    return "ai-edge-litert", Interpreter


def _run(interpreter: Any, feeds: dict[int, Any]) -> float:
    """One call, in seconds."""
    for index, values in feeds.items():
        interpreter.resize_tensor_input(index, values.shape)
    interpreter.allocate_tensors()
    for index, values in feeds.items():
        interpreter.set_tensor(index, values)
    begin = time.perf_counter()
    interpreter.invoke()
    return time.perf_counter() - begin


def _output(interpreter: Any, detail: dict[str, Any]) -> Any:
    """A result; one without numbers, which a runtime may not hand out, by its shape."""
    (now,) = (found for found in interpreter.get_output_details() if found["index"] == detail["index"])
    if 0 in now["shape"]:
        return np.empty(now["shape"], now["dtype"])
    return interpreter.get_tensor(detail["index"])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
