"""Time a TFLite model in an environment of its own: ``tflite_worker.py MODEL FOLDER THREADS [DELEGATE]``.

The script requires numpy, a runtime, and `edge_embed/targets/tflite/worker.py` on its path. Each line on stdin is an
order in JSON, and each line on stdout its answer. Arrays are exchanged in ``inputs.npz`` (``0_ids``, ... by call) and
``results.npz`` in the folder.

    {"order": "inputs"}                   ->  {}
    {"order": "run", "evict": bytes}      ->  {"cpu": nanoseconds, "wall": nanoseconds}, of all calls
    {"order": "results"}                  ->  {}, results of the last call

If a runtime refuses something, the process ends; the last line on stderr has the reason.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import worker  # type: ignore[import-not-found]


class Model:
    """A model and the inputs of its calls."""

    def __init__(self, model: str, folder: Path, threads: int, delegate: str = "") -> None:
        _, runtime = worker.find_runtime()
        self._folder, self._clock = folder, time.thread_time_ns if threads == 1 else time.process_time_ns
        self._interpreter = worker.open_model(runtime, model, delegate, num_threads=threads)
        self._indices = {detail["name"]: detail["index"] for detail in self._interpreter.get_input_details()}
        self._calls: list[dict[int, Any]] = []
        self._cache = np.zeros(0, np.uint8)

    def inputs(self) -> dict[str, int]:
        """Read the inputs of all calls, which have the same shapes."""
        with np.load(self._folder / "inputs.npz", allow_pickle=False) as found:
            calls = 1 + max(int(key.partition("_")[0]) for key in found)
            self._calls = [
                {index: found[f"{call}_{name}"] for name, index in self._indices.items()} for call in range(calls)
            ]
        for index, value in self._calls[0].items():
            self._interpreter.resize_tensor_input(index, value.shape)
        self._interpreter.allocate_tensors()
        self._set(self._calls[0])
        return {}

    def run(self, evict: int) -> dict[str, int]:
        """Make all calls, one after the other; the inputs of a single call are set before."""
        if evict:
            self._cache = self._cache if len(self._cache) == evict else np.zeros(evict, np.uint8)
            np.add(self._cache, 1, out=self._cache)
        wall, cpu = time.perf_counter_ns(), self._clock()
        if len(self._calls) == 1:
            self._interpreter.invoke()
        else:
            for feeds in self._calls:
                self._set(feeds)
                self._interpreter.invoke()
        return {"cpu": self._clock() - cpu, "wall": time.perf_counter_ns() - wall}

    def results(self) -> dict[str, int]:
        """Write the outputs of the last call."""
        details = self._interpreter.get_output_details()
        np.savez(self._folder / "results.npz", *(self._interpreter.get_tensor(detail["index"]) for detail in details))
        return {}

    def _set(self, feeds: dict[int, Any]) -> None:
        for index, value in feeds.items():
            self._interpreter.set_tensor(index, value)


def main(model: Model) -> None:
    """Answer orders until stdin ends."""
    orders: dict[str, Callable[..., dict[str, int]]]
    orders = {"inputs": model.inputs, "run": model.run, "results": model.results}
    _answer({})
    for line in sys.stdin:
        order = json.loads(line)
        _answer(orders[order.pop("order")](**order))


def _answer(values: dict[str, int]) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Model(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]))
