"""TFLite file in tflite-runtime: its environment requires a process of its own, which reports its times.

Each model has a process. All of them wait while one runs, so between two readings of the clocks only that one adds to
them.
"""

import json
import os
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.runtime.library import get_delegate_path
from edge_embed.targets.process import last_line
from edge_embed.targets.target import RunFailedError
from edge_embed.targets.tflite import worker
from edge_embed.targets.tflite.runtimes import TFLITE_RUNTIME
from edge_embed.validation.timing import Feeds

_WORKER = Path(__file__).with_name("tflite_worker.py")
_COMPLAINTS = "complaints"
_TIME_LIMIT = 600.0  # time limit of the download


@dataclass
class Clocks:
    """Total run time of all processes in nanoseconds, and bytes to write before the next run to empty the caches."""

    cpu: int = 0
    wall: int = 0
    evict: int = 0


CLOCKS = Clocks()


class WorkerModel:
    """Model in a process of its own, which ends when the model is dropped.

    Args:
        path: path of the file, which is read at once.
        delegate: whether it runs with the delegate.
        threads: threads of one operator.

    Raises:
        NotRunError: tflite-runtime cannot be downloaded.
        RunFailedError: it refuses the file.
    """

    def __init__(self, path: Path, delegate: bool, threads: int) -> None:
        python, variables = TFLITE_RUNTIME.installed(_TIME_LIMIT)
        places = os.pathsep.join((variables["PYTHONPATH"], str(Path(worker.__file__).parent)))
        folder = tempfile.TemporaryDirectory()
        self._folder = Path(folder.name)
        command: list[str | Path] = [*python, _WORKER, path, self._folder, str(threads)]
        command += [get_delegate_path()] if delegate else []
        with (self._folder / _COMPLAINTS).open("w", encoding="utf-8") as complaints:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                env={**os.environ, **variables, "PYTHONPATH": places},
            )
        weakref.finalize(self, _end, self._process, folder)
        self._answer()

    def ask(self, order: str, **values: int) -> dict[str, int]:
        """Send an order and wait for its answer.

        Raises:
            RunFailedError: the process has ended.
        """
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # then there is no answer
            print(json.dumps({"order": order, **values}), file=self._process.stdin, flush=True)
        return self._answer()

    def write_inputs(self, feeds: Sequence[Feeds]) -> None:
        """Write the inputs of all calls."""
        arrays = {f"{call}_{name}": value for call, one in enumerate(feeds) for name, value in one.items()}
        np.savez(self._folder / "inputs.npz", allow_pickle=False, **arrays)
        self.ask("inputs")

    def read_results(self) -> tuple[NDArray[Any], ...]:
        """Read the results of the last call."""
        self.ask("results")
        with np.load(self._folder / "results.npz", allow_pickle=False) as found:
            return tuple(found[f"arr_{at}"] for at in range(len(found)))

    def _answer(self) -> dict[str, int]:
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            answer: dict[str, int] = json.loads(line)
            return answer
        status = self._process.wait()
        reason = last_line((self._folder / _COMPLAINTS).read_text(encoding="utf-8", errors="replace"))
        raise RunFailedError(f"tflite-runtime ended with status {status}: {reason}")


def _end(process: subprocess.Popen[str], folder: tempfile.TemporaryDirectory[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()
    process.wait()
    folder.cleanup()


class WorkerCalls:
    """Model in another process with its inputs in place."""

    def __init__(self, model: WorkerModel, feeds: Feeds, calls: int) -> None:
        self._model, self._calls = model, calls
        self.set_inputs([feeds] * calls)

    @property
    def calls(self) -> int:
        """Return the number of calls that `run` makes."""
        return self._calls

    def set_inputs(self, feeds: Sequence[Feeds]) -> None:
        """Set new values, one set for every call."""
        self._model.write_inputs(feeds)

    def run(self) -> None:
        """Make all calls, one after the other; add their times to `CLOCKS`."""
        took = self._model.ask("run", evict=CLOCKS.evict)
        CLOCKS.cpu += took["cpu"]
        CLOCKS.wall += took["wall"]

    def results(self) -> tuple[NDArray[Any], ...]:
        """Return the outputs of the last call."""
        return self._model.read_results()
