"""Interface of all targets: list missing parts, prepare a model, run it on given inputs, clean up.

    target = make_target("arm64:cortex-a53")
    target.lacks()                                  # missing parts, and the command that installs each
    with target.prepare(subject) as prepared:       # copied, built, started
        run = prepared.run(cases, options)          # outputs, timings, counters, versions

A result is *executed-native* (on the processor that the target names), *executed-emulated*, or *statically-checked*. A
target that cannot run states why (`NotRunError`) and never counts as passed. A target on which the model fails counts
as failed.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from numpy.typing import NDArray

from edge_embed.errors import EdgeEmbedError
from edge_embed.report.results.targets import Evidence, Problem, TargetTimes

if TYPE_CHECKING:  # builds for other platforms need no torch
    from edge_embed.program.program import Program

# Treatment of a tokenizer in the file: the library of onnxruntime-extensions runs it; the target has no such library;
# or the target runs the training form on ids.
Tokenizer = Literal["runs", "cannot run", "is not used"]
Feeds = Mapping[str, NDArray[Any]]


class NotRunError(Exception):
    """Raised when a target cannot run here, with the reason; it never counts as passed."""


class RunFailedError(EdgeEmbedError):
    """Raised when a model fails on a target: it crashed, refused the file, gave no result, or never ended."""


@dataclass(frozen=True)
class Subject:
    """Exported model and the program that it was made from.

    Attributes:
        model: the exported file, external data beside it.
        program: the training form that it was made from.
        data: the files of external data, in the folder of the model or below it.
        from_texts: whether it contains a tokenizer; else its inputs are those of the training form.
    """

    model: Path
    program: "Program"
    data: Sequence[Path] = ()
    from_texts: bool = False


@dataclass(frozen=True)
class RunOptions:
    """Options of a run on a target.

    Attributes:
        iterations: timed calls of the first case, after one cold call.
        threads: threads of one operator; 0 leaves their number to the runtime.
        time_limit: most seconds of each step (copying, building, running); then the step is ended.
    """

    iterations: int = 10
    threads: int = 1
    time_limit: float = 600.0


@dataclass(frozen=True)
class TargetRun:
    """Results of a run on a target.

    Attributes:
        outputs: outputs of each case, in the order of the model's outputs.
        versions: versions of what ran: runtime, processor, browser.
        times: None if time has no meaning, as under an emulator.
        counters: whole numbers that repeat exactly or nearly: bytes of memory, instructions, copies.
        evidence: kind of evidence, where only the run shows it; None for that of the target.
    """

    outputs: Sequence[Sequence[NDArray[Any]]]
    versions: Mapping[str, str]
    times: TargetTimes | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    evidence: Evidence | None = None


class Prepared(Protocol):
    """A model in place."""

    def run(self, cases: Sequence[Feeds], options: RunOptions) -> TargetRun:
        """Run all cases.

        Raises:
            NotRunError: if the target cannot run models of this kind, or is gone.
            RunFailedError: if the model fails there, or exceeds the time limit.
        """


class Target(Protocol):
    """One place to run a model.

    Attributes:
        name: name on the command line, with its argument: ``arm64:cortex-a53``.
        evidence: kind of evidence that its results give.
        tokenizer: treatment of a tokenizer in the file.
    """

    @property
    def name(self) -> str:
        """Return the name on the command line."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the treatment of a tokenizer in the file."""

    @property
    def evidence(self) -> Evidence:
        """Return the kind of evidence that its results give."""

    def lacks(self) -> list[Problem]:
        """List missing parts with the command that installs each; empty if it can run. Never raises."""

    def prepare(self, subject: Subject, options: RunOptions) -> AbstractContextManager[Prepared]:
        """Put the model in place; everything that was started or copied is gone when the context ends.

        Raises:
            NotRunError: if something is missing.
        """
