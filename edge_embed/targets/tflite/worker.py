"""Run a TFLite model on the cases in a folder: ``worker.py MODEL FOLDER ITERATIONS THREADS [DELEGATE]``.

The script requires numpy and one of the two runtimes, and nothing of edge_embed: tflite-runtime has an environment of
its own. A case that the runtime refuses leaves its message in place of outputs; the other cases still run. Of several
signatures the one whose inputs have the sizes of the case runs. Integers may have a wider type than the model has.
"""

import json
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np


def main(model: str, folder: Path, iterations: int, threads: int, delegate: str = "") -> None:
    """Run all cases, and time the first."""
    package, runtime = find_runtime()
    inputs = json.loads((folder / "inputs.json").read_text(encoding="utf-8"))
    begin = time.perf_counter()
    interpreter = open_model(runtime, model, delegate, num_threads=threads or None)
    create = time.perf_counter() - begin
    names = list(find_inputs(interpreter))
    if unknown := [name for name in inputs if name not in names]:
        sys.exit(f"got inputs {', '.join(names)}, expected {', '.join(unknown)} too: export the model again")
    run = find_run(interpreter)
    times: list[float] = []
    for number in range(len(list(folder.glob("*.in.npz")))):
        with np.load(folder / f"{number}.in.npz", allow_pickle=False) as case:
            feeds = {name: case[f"arr_{at}"] for at, name in enumerate(inputs)}
        try:
            seconds = []
            for _ in range(1 if times else 1 + iterations):
                elapsed, outputs = run(feeds)
                seconds.append(elapsed)
        except (RuntimeError, ValueError) as error:
            (folder / f"{number}.error").write_text(str(error), encoding="utf-8")
        else:
            times = times or seconds
            np.savez(folder / f"{number}.out.npz", *map(_plain, outputs))
    result = {"versions": {package: metadata.version(package), "numpy": np.__version__}, "create": create}
    result["kernels"] = _count_kernels(runtime, model, delegate)
    (folder / "result.json").write_text(json.dumps({**result, "calls": times}), encoding="utf-8")


def find_runtime() -> tuple[str, Any]:
    """Return the package and the module of the installed runtime."""
    try:
        from ai_edge_litert import interpreter  # noqa: PLC0415
    except ImportError:
        from tflite_runtime import interpreter  # type: ignore[import-not-found] # noqa: PLC0415

        return "tflite-runtime", interpreter
    return "ai-edge-litert", interpreter


def open_model(runtime: Any, model: str, delegate: str, **options: Any) -> Any:
    """Return an interpreter, with the delegate unless its path is empty."""
    delegates = [runtime.load_delegate(delegate)] if delegate else None
    return runtime.Interpreter(model_path=model, experimental_delegates=delegates, **options)


def _count_kernels(runtime: Any, model: str, delegate: str) -> int:
    """Count the kernels of our delegate in the model, without the delegate that runtimes apply by themselves."""
    if not delegate:
        return 0
    resolver = runtime.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    operators = open_model(runtime, model, delegate, experimental_op_resolver_type=resolver)._get_ops_details()
    return sum(operator["op_name"] == "DELEGATE" for operator in operators)


def find_inputs(interpreter: Any) -> dict[str, Any]:
    """Return the inputs by their names in calls: names of tensors; of several signatures, the names of the first.

    Tensors without a name get one, by the rule of `edge-embed compress`.
    """
    signatures = list(interpreter.get_signature_list())
    if len(signatures) > 1:
        found: dict[str, Any] = interpreter.get_signature_runner(signatures[0]).get_input_details()
        return found
    named: dict[str, Any] = {}
    for detail in interpreter.get_input_details():
        wanted = detail["name"] or "input"
        names = (f"{wanted}_{count}" if count else wanted for count in range(len(named) + 1))
        named[next(name for name in names if name not in named)] = detail
    return named


Run = Callable[[dict[str, Any]], tuple[float, list[Any]]]  # inputs by name -> seconds of a call, outputs in order


def find_run(interpreter: Any) -> Run:
    """Return the function that calls the model."""
    return _signatures(interpreter) if len(interpreter.get_signature_list()) > 1 else _whole(interpreter)


def _whole(interpreter: Any) -> Run:
    """Return a function that calls the only signature through its tensors, whose sizes may vary."""
    inputs = find_inputs(interpreter)

    def run(feeds: dict[str, Any]) -> tuple[float, list[Any]]:
        values = {inputs[name]["index"]: fitted(value, inputs[name]["dtype"]) for name, value in feeds.items()}
        for index, value in values.items():
            interpreter.resize_tensor_input(index, value.shape)
        interpreter.allocate_tensors()
        for index, value in values.items():
            interpreter.set_tensor(index, value)
        begin = time.perf_counter()
        interpreter.invoke()
        seconds = time.perf_counter() - begin
        return seconds, [_output(interpreter, detail) for detail in interpreter.get_output_details()]

    return run


def _signatures(interpreter: Any) -> Run:
    """Return a function that calls the signature whose fixed input sizes match."""
    runners = {name: interpreter.get_signature_runner(name) for name in interpreter.get_signature_list()}
    keys = {detail["name"]: key for runner in runners.values() for key, detail in runner.get_output_details().items()}
    order = [keys[detail["name"]] for detail in interpreter.get_output_details()]  # the first has the order of all
    inputs = {name: runner.get_input_details() for name, runner in runners.items()}

    def run(feeds: dict[str, Any]) -> tuple[float, list[Any]]:
        but = ""
        for name, details in inputs.items():
            if all(tuple(details[key]["shape"]) == value.shape for key, value in feeds.items()):
                own = runners[name].get_output_details()
                if own.keys() != {*order}:
                    but = f" with outputs {', '.join(order)}; {name} has {', '.join(own)}"
                    continue
                values = {key: fitted(value, details[key]["dtype"]) for key, value in feeds.items()}
                begin = time.perf_counter()
                outputs = runners[name](**values)
                seconds = time.perf_counter() - begin
                return seconds, [outputs[key] for key in order]
        got = ", ".join(f"{key} {list(value.shape)}" for key, value in feeds.items())
        raise ValueError(f"got {got}, expected the sizes of a signature{but}")

    return run


def fitted(values: Any, dtype: Any) -> Any:
    """Convert integers to the type of the model, if all of them fit."""
    if values.dtype == dtype or values.dtype.kind != "i":
        return values
    converted = values.astype(dtype)
    if (converted != values).any():
        raise ValueError(f"got an integer that exceeds {np.dtype(dtype).name}, the type of the model")
    return converted


def _output(interpreter: Any, detail: dict[str, Any]) -> Any:
    """Return a result; an empty one, which a runtime may refuse to return, is made from its shape."""
    (now,) = (found for found in interpreter.get_output_details() if found["index"] == detail["index"])
    if 0 in now["shape"]:
        return np.empty(now["shape"], now["dtype"])
    return interpreter.get_tensor(detail["index"])


def _plain(values: Any) -> Any:
    """Convert texts, which runtimes return as objects, to arrays of fixed-length strings, which files can hold."""
    if values.dtype.kind != "O":
        return values
    texts = [value.decode("utf-8", "surrogateescape") for value in values.reshape(-1)]
    return np.array(texts, dtype=str).reshape(values.shape)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
