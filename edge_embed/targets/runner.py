"""C++ runner (``runtime_ops/runner``): it runs a model through the C interface of ONNX Runtime, as an app would.

The same program serves this machine, an emulator and devices; a `Place` states where it runs.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Protocol

import onnxruntime as ort
from numpy.typing import NDArray

from edge_embed.errors import EdgeEmbedError
from edge_embed.report.results.targets import Evidence, Problem, TargetTimes
from edge_embed.runtime.library import installed_program
from edge_embed.targets.process import run_program
from edge_embed.targets.target import Feeds, NotRunError, RunFailedError, RunOptions, TargetRun
from edge_embed.targets.tensors import read_tensors, write_tensors


@dataclass(frozen=True)
class RunnerFiles:
    """Files that run a model, for one processor and system.

    Attributes:
        runner: the program.
        runtime: the shared library of ONNX Runtime.
        libraries: operator libraries, ours first; without ours the portable bodies run.
    """

    runner: PurePath
    runtime: PurePath
    libraries: Sequence[PurePath]


@dataclass(frozen=True)
class Ran:
    """Facts about a run that a place reports beside the results.

    Attributes:
        versions: versions of the software that ran, besides ONNX Runtime.
        counters: figures that were counted from outside.
        evidence: kind of evidence, where only the run shows it; None for that of the target.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    evidence: Evidence | None = None


class Place(Protocol):
    """Place where the runner runs: it copies files there, and brings results back."""

    def execute(self, folder: Path, options: RunOptions) -> Ran:
        """Run the runner on the cases in the local ``folder``, and leave its results there.

        Raises:
            NotRunError: if the place is gone.
            RunFailedError: if the model fails there, or takes too long.
        """

    @property
    def times_mean_something(self) -> bool:
        """Return whether times and memory are those of a real processor."""


@dataclass(frozen=True)
class RunnerModel:
    """A model that is ready for the runner.

    Attributes:
        output_names: names of the model's outputs, in order.
        place: where it runs.
    """

    output_names: Sequence[str]
    place: Place

    def run(self, cases: Sequence[Feeds], options: RunOptions) -> TargetRun:
        """Run all cases in one process.

        Raises:
            NotRunError: if the place is gone.
            RunFailedError: if the model fails there.
        """
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for number, feeds in enumerate(cases):
                write_tensors(folder / f"{number}.in", feeds)
            ran = self.place.execute(folder, options)
            try:
                result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
                outputs = [self._outputs(folder / f"{number}.out") for number in range(len(cases))]
            except (OSError, ValueError, KeyError) as error:
                raise RunFailedError(f"the runner succeeded, but its results cannot be read: {error}") from error
        # Apart from its times, a result holds texts (versions) and whole numbers (counters).
        versions = {name: value for name, value in result.items() if isinstance(value, str)}
        versions.update(ran.versions)
        if not self.place.times_mean_something or ran.evidence == "executed-emulated":
            return TargetRun(outputs, versions, counters=ran.counters, evidence=ran.evidence)
        counters = {name: value for name, value in result.items() if isinstance(value, int)}
        return TargetRun(outputs, versions, _times(result), {**counters, **ran.counters}, ran.evidence)

    def _outputs(self, path: Path) -> list[NDArray[Any]]:
        tensors = read_tensors(path)
        return [tensors[name] for name in self.output_names]


def _times(result: Any) -> TargetTimes:
    create, first, *calls = (times["wall_ns"] / 1e9 for times in (result["create"], result["first"], *result["calls"]))
    return TargetTimes(create, first, tuple(calls))


@dataclass(frozen=True)
class ThisMachine:
    """The runner as a process on this machine.

    Attributes:
        model: the exported file.
        libraries: operator libraries, ours first; without ours the portable bodies run.
        preloaded: a library that one of them needs and does not name, None if there is none.
    """

    model: Path
    libraries: Sequence[Path]
    preloaded: Path | None = None
    times_mean_something: bool = True

    def execute(self, folder: Path, options: RunOptions) -> Ran:
        """Run the runner in a process."""
        command = runner_command(own_files(self.libraries), self.model, folder, options)
        preloaded = {} if self.preloaded is None else {"LD_PRELOAD": str(self.preloaded)}
        run_program(command, options.time_limit, what="the runner", environment=preloaded)
        return Ran()


def runner_command(files: RunnerFiles, model: PurePath, folder: PurePath, options: RunOptions) -> list[str]:
    """Return the command of the runner; all paths are those of the machine where it runs."""
    numbers = (options.iterations, options.threads)
    return [str(part) for part in (files.runner, files.runtime, model, folder, *numbers, *files.libraries)]


def own_files(libraries: Sequence[Path]) -> RunnerFiles:
    """Return the files of this machine, with the given operator libraries.

    Raises:
        EdgeEmbedError: if this package is not installed completely.
        NotRunError: if ONNX Runtime has no shared library.
    """
    return RunnerFiles(installed_program("edge_embed_runner"), _runtime_library(), libraries)


def runner_lacks() -> list[Problem]:
    """List what this machine lacks to run the runner."""
    steps: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: installed_program("edge_embed_runner"), "install edge-embed again (`make install` in a checkout)"),
        (_runtime_library, "python -m pip install --force-reinstall onnxruntime"),
    )
    found = []
    for step, remedy in steps:
        try:
            step()
        except (EdgeEmbedError, NotRunError) as error:
            found.append(Problem(str(error), remedy))
    return found


def _runtime_library() -> Path:
    """Return the shared library of ONNX Runtime in its Python package."""
    folder = Path(ort.__file__).parent / "capi"
    libraries = sorted(folder.glob("libonnxruntime.so*")) + sorted(folder.glob("libonnxruntime*.dylib"))
    if not libraries:
        raise NotRunError(f"{folder} has no shared library of ONNX Runtime {ort.__version__}")
    return libraries[0]


@contextmanager
def runner_model(output_names: Sequence[str], place: Place) -> Iterator[RunnerModel]:
    """Yield a model that needs no preparation and no cleaning up."""
    yield RunnerModel(output_names, place)
