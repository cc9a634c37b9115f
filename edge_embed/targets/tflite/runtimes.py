"""Targets ``litert`` and ``tflite-runtime``: the current runtime, and the last under the old name, common in apps."""

import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import EdgeEmbedError
from edge_embed.report.results.targets import Evidence, Problem, TargetTimes
from edge_embed.runtime.library import get_delegate_path
from edge_embed.targets.cache import cached_folder, fetch_once
from edge_embed.targets.pinned import PIP, UNBOUND, Pinned, pip_options
from edge_embed.targets.process import run_program
from edge_embed.targets.target import Feeds, NotRunError, RunFailedError, RunOptions, Subject, TargetRun, Tokenizer
from edge_embed.targets.tflite import worker
from edge_embed.text_arrays import without_objects

# The last release, built for numpy 1; files for Python 3.11 on x86-64 and arm.
_OLD = Pinned("tflite-runtime", "2.14.0", (
    "195ab752e7e57329a68e54dd3dd5439fad888b9bff1be0f0dc042a3237a90e4d",
    "ce9fa5d770a9725c746dcbf6f59f3178233b3759f09982e8b2db8d2234c333b0",
    "c4e66a74165b18089c86788400af19fa551768ac782d231a9beae2f6434f7949",
))  # fmt: skip
_ITS_NUMPY = Pinned("numpy", "1.26.4", (
    "666dbfb6ec68962c033a450943ded891bed2d54e6755e35e5835d63f4f6931d5",
    "7ab55401287bfec946ced39700c053796e7cc0e3acbef09993a9ad2adba6ca6e",
))  # fmt: skip
_OLD_PYTHON = (3, 11)  # the Python version of its wheels

Outcome = Sequence[NDArray[Any]] | str


@dataclass(frozen=True)
class OpenedModel:
    """A model that is ready to run in a runtime.

    Attributes:
        model: the file.
        python: interpreter and options with which the runtime can be imported.
        environment: environment variables of the interpreter.
        delegate: delegate that the runtime loads, None for none.
    """

    model: Path
    python: Sequence[str]
    environment: Mapping[str, str]
    delegate: Path | None = None

    def run(self, cases: Sequence[Feeds], options: RunOptions) -> TargetRun:
        """Run all cases in one process.

        Raises:
            NotRunError: if it takes too long.
            RunFailedError: if the model fails there.
        """
        outcomes, result = self.attempt(cases, options)
        outputs = []
        for number, outcome in enumerate(outcomes):
            if isinstance(outcome, str):
                raise RunFailedError(f"case {number}: {outcome}")
            outputs.append(outcome)
        first, *calls = result["calls"]
        return TargetRun(outputs, result["versions"], TargetTimes(result["create"], first, tuple(calls)))

    def attempt(self, cases: Sequence[Feeds], options: RunOptions) -> tuple[list[Outcome], Any]:
        """Run all cases; a case that the runtime refuses has the message as its outcome.

        Raises:
            NotRunError: if it takes too long, or the delegate is loaded and has nothing to do.
            RunFailedError: if the process fails.
        """
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "inputs.json").write_text(json.dumps(list(cases[0]) if cases else []), encoding="utf-8")
            for number, feeds in enumerate(cases):
                np.savez(folder / f"{number}.in.npz", *map(without_objects, feeds.values()))
            numbers = str(options.iterations), str(options.threads)
            command: list[str | Path] = [*self.python, worker.__file__, self.model, folder, *numbers]
            command += [] if self.delegate is None else [self.delegate]
            run_program(command, options.time_limit, what="the runtime", environment=self.environment)
            result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
            if self.delegate is not None and not result["kernels"]:
                raise NotRunError("the delegate has no kernel for any operator of the file")
            return [_outcome(folder, number) for number in range(len(cases))], result


def _outcome(folder: Path, number: int) -> Outcome:
    refused = folder / f"{number}.error"
    if refused.exists():
        return refused.read_text(encoding="utf-8").strip() or "refused without a message"
    with np.load(folder / f"{number}.out.npz", allow_pickle=False) as found:
        return [found[f"arr_{at}"] for at in range(len(found))]


@dataclass(frozen=True)
class TfliteTarget:
    """Runtime for TFLite files.

    Attributes:
        name: name on the command line.
        lacking: lists the missing parts.
        absent: returns why a download is needed first, empty if none is.
        installed: downloads the runtime once within a time limit; returns interpreter, options and variables.
        delegated: whether it loads the delegate of this package.
    """

    name: str
    lacking: Callable[[], list[Problem]]
    absent: Callable[[], str]
    installed: Callable[[float], tuple[Sequence[str], Mapping[str, str]]]
    delegated: bool = False
    evidence: Evidence = "executed-native"
    tokenizer: Tokenizer = "cannot run"

    def lacks(self) -> list[Problem]:
        """List the missing parts, without those that are downloaded on demand."""
        return [*self.lacking(), *(_delegate_lacks() if self.delegated else ())]

    def with_delegate(self) -> "TfliteTarget":
        """Return the same runtime with the delegate."""
        return replace(self, name=f"{self.name} with the delegate", delegated=True)

    def reason_against(self) -> str:
        """Return why it cannot run without a download, empty if it can."""
        return "; ".join(f"{problem.what}: {problem.remedy}" for problem in self.lacks()) or self.absent()

    @contextmanager
    def prepare(self, subject: Subject, options: RunOptions) -> Iterator[OpenedModel]:
        """Download the runtime once, if it is not installed here."""
        yield self.open(subject.model, options.time_limit)

    def open(self, model: Path, time_limit: float = RunOptions.time_limit) -> OpenedModel:
        """Return a file, ready to run.

        Raises:
            NotRunError: if the runtime cannot be downloaded.
        """
        return OpenedModel(model, *self.installed(time_limit), get_delegate_path() if self.delegated else None)


def _delegate_lacks() -> list[Problem]:
    try:
        get_delegate_path()
    except EdgeEmbedError as error:
        return [Problem("the delegate cannot be loaded", str(error))]
    return []


def _litert_lacks() -> list[Problem]:
    if importlib.util.find_spec("ai_edge_litert"):
        return []
    return [Problem("the package ai-edge-litert is not installed", 'pip install "edge-embed[tflite]"')]


def _litert(time_limit: float) -> tuple[Sequence[str], Mapping[str, str]]:
    return [sys.executable, "-P"], {"TF_CPP_MIN_LOG_LEVEL": "3"}


def _old_folder() -> str:
    return f"{_OLD.name}-{_OLD.version}-python{sys.version_info.major}.{sys.version_info.minor}"


def _old_absent() -> str:
    if cached_folder(_old_folder()).is_dir():
        return ""
    return "it is not downloaded yet: --target tflite-runtime downloads it once"


def _old_lacks() -> list[Problem]:
    if not _old_absent():
        return []
    if sys.version_info[:2] > _OLD_PYTHON:
        return [Problem(f"{_OLD.requirement} has no wheel for this Python", "use an environment of Python 3.11")]
    if importlib.util.find_spec("pip") is None:
        return [Problem(f"pip is missing, which downloads {_OLD.requirement}", "python -m ensurepip")]
    return []


def _old(time_limit: float) -> tuple[Sequence[str], Mapping[str, str]]:
    """Return the runtime in a folder of its own, isolated from the packages of this environment."""
    folder = fetch_once(_old_folder(), lambda folder: _download_old(folder, time_limit))
    return [sys.executable, "-P", "-S", "-B"], {"PYTHONPATH": str(folder)}  # nothing is added to the folder


def _download_old(folder: Path, time_limit: float) -> None:
    with pip_options([_OLD, _ITS_NUMPY]) as chosen:
        try:
            run_program([*PIP, "install", *chosen, "--target", folder], time_limit, what="pip", environment=UNBOUND)
        except RunFailedError as error:
            raise NotRunError(f"{_OLD.requirement} cannot be downloaded; check the connection: {error}") from error


LITERT = TfliteTarget("litert", _litert_lacks, lambda: "", _litert)
TFLITE_RUNTIME = TfliteTarget("tflite-runtime", _old_lacks, _old_absent, _old)
TARGETS = (LITERT, TFLITE_RUNTIME)
# Every way to run a file: each runtime with its own operators, and with the delegate.
WAYS = (*TARGETS, *(target.with_delegate() for target in TARGETS))
