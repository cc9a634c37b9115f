"""Both runtimes of TFLite, each in a process of its own, which a crash ends."""

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_embed.runtime.library import get_delegate_path
from edge_embed.targets.target import NotRunError
from edge_embed.targets.tflite.runtimes import TfliteTarget

_PROGRAM = Path(__file__).with_name("run_tflite.py")


@dataclass(frozen=True)
class Results:
    """Results of one model's runs: outputs by run, and the number of kernels of the delegate."""

    outputs: list[list[np.ndarray]]
    replaced: int


class TfliteRuntime:
    """A Python interpreter that has a runtime."""

    def __init__(self, python: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [*python, _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment},
        )

    def close(self) -> None:
        self._process.communicate()

    def run(self, model: Path, *runs: list[np.ndarray], delegate: bool = True) -> Results:
        answer = self._ask(model, runs, delegate, {})
        assert "error" not in answer, answer["error"]
        with np.load(self._folder / "outputs.npz") as found:
            outputs = [
                [found[f"a{run}_{number}"] for number in range(sum(key.startswith(f"a{run}_") for key in found))]
                for run in range(len(runs))
            ]
        return Results(outputs, answer["replaced"])

    def refuses(
        self,
        model: Path,
        message: str,
        *runs: list[np.ndarray],
        delegate: bool = True,
        options: dict[str, str] | None = None,
    ) -> None:
        """Assert that the runtime raises an error with this message."""
        answer = self._ask(model, runs, delegate, options or {})
        assert re.search(message, answer.get("error", "no error")), answer

    def _ask(
        self, model: Path, runs: tuple[list[np.ndarray], ...], delegate: bool, options: dict[str, str]
    ) -> dict[str, Any]:
        inputs = {f"a{run}_{number}": array for run, arrays in enumerate(runs) for number, array in enumerate(arrays)}
        np.savez(self._folder / "inputs.npz", **inputs)
        path = str(get_delegate_path()) if delegate else ""
        order = {"model": str(model), "delegate": path, "options": options, "folder": str(self._folder)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, f"the runtime crashed with status {self._process.wait()}"
        return json.loads(answer)


def start(target: TfliteTarget, folder: Path) -> TfliteRuntime:
    """Start a runtime; that of another environment is downloaded once."""
    if lacks := target.lacks():
        pytest.skip("; ".join(f"{lack.what}: {lack.remedy}" for lack in lacks))
    try:
        return TfliteRuntime(*target.installed(600), folder)
    except NotRunError as error:
        pytest.skip(str(error))
