"""What every target is: it says what it lacks, prepares a model, runs it on given inputs, and cleans up.

    target = make_target("arm64:cortex-a53")
    target.lacks()                                  # what is missing, and the command that installs it
    with target.prepare(subject) as prepared:       # copied, built, started
        run = prepared.run(cases, options)          # outputs, timings, counters, versions

A result is *executed-native* (on the processor it is for), *executed-emulated*, or *statically-checked*. A target that
cannot run says why (`NotRunError`) and never counts as passed; one on which the model fails has failed.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from numpy.typing import NDArray

from edge_embed.errors import EdgeEmbedError
from edge_embed.program.program import Program
from edge_embed.report.results.targets import Evidence, Problem, TargetTimes

# Of a file that has one: it runs by the library of onnxruntime-extensions; there is none for the target; or the target
# runs the training form, which takes ids.
Tokenizer = Literal["runs", "cannot run", "is not used"]
Feeds = Mapping[str, NDArray[Any]]


class NotRunError(Exception):
    """A target cannot run here; the message says why. Never counts as passed."""


class RunFailedError(EdgeEmbedError):
    """A target ran the model and failed: it crashed, refused the file, gave no result, or never ended."""


@dataclass(frozen=True)
class Subject:
    """What is to be run.

    Attributes:
        model: the exported file, external data beside it.
        program: the training form that it was made from.
        data: the files of external data, in the folder of the model or below it.
        from_texts: whether there is a tokenizer in it; else its inputs are those of the training form.
    """

    model: Path
    program: Program
    data: Sequence[Path] = ()
    from_texts: bool = False


@dataclass(frozen=True)
class RunOptions:
    """How a target runs.

    Attributes:
        iterations: timed calls of the first case, after one cold call.
        threads: of one operator; 0 leaves their number to the runtime.
        time_limit: seconds that each step may take (copying, building, running); then it is ended.
    """

    iterations: int = 10
    threads: int = 1
    time_limit: float = 600.0


@dataclass(frozen=True)
class TargetRun:
    """What a target gives back.

    Attributes:
        outputs: of each case, in the order of the model's outputs.
        versions: of what ran: runtime, processor, browser.
        times: None where time means nothing, as under an emulator.
        counters: whole numbers that repeat exactly or nearly: bytes of memory, instructions, copies.
    """

    outputs: Sequence[Sequence[NDArray[Any]]]
    versions: Mapping[str, str]
    times: TargetTimes | None = None
    counters: Mapping[str, int] = field(default_factory=dict)


class Prepared(Protocol):
    """A model in place."""

    def run(self, cases: Sequence[Feeds], options: RunOptions) -> TargetRun:
        """Run all cases.

        Raises:
            NotRunError: if the target cannot run models of this kind, or is gone.
            RunFailedError: if the model fails there, or takes longer than allowed.
        """


class Target(Protocol):
    """One place to run a model.

    Attributes:
        name: as on the command line, with its argument: ``arm64:cortex-a53``.
        evidence: what its results are worth.
        tokenizer: what becomes of a tokenizer there.
    """

    @property
    def name(self) -> str:
        """As on the command line."""

    @property
    def tokenizer(self) -> Tokenizer:
        """What becomes of a tokenizer there."""

    @property
    def evidence(self) -> Evidence:
        """What its results are worth."""

    def lacks(self) -> list[Problem]:
        """What is missing here, with the command that installs it; empty if it can run. Nothing is raised."""

    def prepare(self, subject: Subject, options: RunOptions) -> AbstractContextManager[Prepared]:
        """Put the model in place; whatever was started or copied is gone when the context ends.

        Raises:
            NotRunError: if something is missing.
        """
