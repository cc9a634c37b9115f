"""The result of `edge-embed check`, for people, for programs, and as the baseline of later checks.

`CheckReport.to_json` is the schema, version 1; the class docstrings below explain every key:

    schema_version, kind        1, "edge-embed check"
    passed, complete, exit_code whether nothing failed; whether everything ran; as the command ends
    failures                    a sentence for everything that makes it end so
    budget                      edge-embed.toml as it was read
    environment                 versions, processor, operator library
    findings                    [Finding]
    baseline                    the path of the earlier report, or null
    base                        BaseResult or null
    metric                      MetricResult or null
    validation                  what `edge-embed validate --json` prints
    grown                       bytes now less bytes in the baseline, by name of the size
    warnings                    what the report that was replaced by this one has, and this one has not
    changes                     [Change] of settings, tables and versions since the baseline
    accept                      the command that makes this state the baseline, empty without one
    acceptance                  what became of the baseline that was to be replaced, empty where none was

Every number is finite or null. A later version of the schema may add keys; it changes `schema_version` when one changes
its meaning or goes away.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from edge_embed.errors import LatencyError, ParityError, SizeError
from edge_embed.report.results.finding import Finding, Requirement
from edge_embed.report.results.growth import GROWTH_OF, Change, changed, growth_words, is_growth
from edge_embed.report.results.interval import Interval
from edge_embed.report.results.shown import Shown
from edge_embed.report.results.validation import ValidationReport

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA_VERSION = 1
KIND = "edge-embed check"
MODEL = "model"  # the subject of a comparison that is the whole model

# In this order: what is wrong is said before what is large or slow.
EXIT_CODES: Mapping[Requirement, int] = {
    "parity": ParityError.exit_code,
    "size": SizeError.exit_code,
    "latency": LatencyError.exit_code,
}


@dataclass(frozen=True)
class Side:
    """A model in a process of its own, for information: no requirement looks at it.

    Attributes:
        name: ``base`` or ``candidate``.
        file: the exported file.
        library: SHA-256 of the operator library it ran with, for TFLite of the delegate.
        resident: growth of resident memory, from before the session to after its first run, bytes.
        peak: the same, of the most that it was on the way.
        open_seconds: to make the session, wall time.
        first_call_seconds: of the first run, wall time.
        reason: why it was not measured; then the four are None.
    """

    name: str
    file: str
    library: str
    resident: int | None
    peak: int | None
    open_seconds: float | None
    first_call_seconds: float | None
    reason: str


@dataclass(frozen=True)
class Comparison:
    """Time of the candidate / time of the base: above 1 the candidate is slower.

    Attributes:
        subject: `MODEL`, or ``table <name>, <use>``.
        items: ids or states a call, None for the whole model.
        cpu: ratio of CPU times, which decides; None where it was not measured.
        wall: ratio of wall times.
        base_microseconds: median CPU time of a call of the base; depends on the machine and the day.
        candidate_microseconds: the same of the candidate.
        reason: why it was not measured.
    """

    subject: str
    items: int | None
    cpu: Interval | None
    wall: Interval | None
    base_microseconds: float | None
    candidate_microseconds: float | None
    reason: str

    @property
    def title(self) -> str:
        """The subject with its number of items."""
        return self.subject if self.items is None else f"{self.subject}, {self.items:,} a call"


@dataclass(frozen=True)
class BaseResult:
    """The exported file beside an earlier one, in one process.

    Attributes:
        method: clock, threads, order and inputs, in words.
        sides: base and candidate, each in a process of its own.
        comparisons: the whole model, and every table.
    """

    method: str
    sides: tuple[Side, ...]
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True)
class MetricResult:
    """What the metric gave; higher is better.

    Attributes:
        function: ``package.module:function``.
        exported: of the exported file.
        model: of the training form.
        base: of the base, None where there is none.
    """

    function: str
    exported: float
    model: float
    base: float | None


@dataclass(frozen=True, repr=False)
class CheckReport(Shown):
    """What `check` found.

    Attributes:
        budget: as it was read.
        environment: versions, processor and operator library.
        findings: one entry per requirement and thing it holds for.
        baseline: the earlier report that sizes were compared with, None if none was given.
        base: latency beside an earlier file, None if none was given.
        metric: None if the budget names none.
        validation: everything that `validate` found.
        grown: bytes now less bytes in the baseline, by size; what is gone is negative.
        warnings: what the report that is replaced by this one has, and this one has not.
        changes: of settings, tables and versions since the baseline.
        accept: the command that makes this state the baseline, empty without one.
        acceptance: what became of the baseline that was to be replaced, in words; empty where none was.
    """

    budget: Mapping[str, Any]
    environment: Mapping[str, str]
    findings: tuple[Finding, ...]
    baseline: str | None
    base: BaseResult | None
    metric: MetricResult | None
    validation: ValidationReport
    grown: Mapping[str, int]
    warnings: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    accept: str = ""
    acceptance: str = ""
    view = "edge_embed.report.views.check:render"

    @property
    def passed(self) -> bool:
        """Whether nothing failed; what did not run is for `complete` to tell."""
        return all(finding.status != "failed" for finding in self.findings)

    @property
    def complete(self) -> bool:
        """Whether everything ran."""
        return all(finding.status != "not run" for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """0; 3 where parity failed, else 4 where a size did, else 5; else 1 where something that must run has not."""
        failed = {finding.requirement for finding in self.findings if finding.status == "failed"}
        missing = any(finding.is_missing for finding in self.findings)
        return next((code for requirement, code in EXIT_CODES.items() if requirement in failed), int(missing))

    def failures(self) -> list[str]:
        """A sentence for everything that failed, or must run and has not."""
        return [finding.sentence() for finding in self.findings if finding.status == "failed" or finding.is_missing]

    def shown(self) -> list[Finding]:
        """The findings for people: everything that grew by too much is one, which says why and how to accept it."""
        failed = [finding for finding in self.findings if is_growth(finding)]
        if not failed:
            return list(self.findings)
        at = self.findings.index(failed[0])
        merged = Finding("size", GROWTH_OF.split()[0], "failed", self.growth())
        return [
            merged if place == at else finding
            for place, finding in enumerate(self.findings)
            if place == at or not is_growth(finding)
        ]

    def growth(self) -> str:
        """By how much the model grew beyond what is allowed, why, and how to accept it; empty where it did not."""
        failed = [finding for finding in self.findings if is_growth(finding)]
        return growth_words(failed, self.changes, self.grown, self.accept) if failed else ""

    def reasons(self) -> list[str]:
        """As `failures`, of what is shown to people."""
        found = [finding.sentence() for finding in self.shown() if finding.status == "failed" or finding.is_missing]
        return [*self._cause, *found]

    @property
    def note(self) -> str:
        """The likely cause of failures, and settings that changed since the baseline, where no finding says so."""
        told = any(map(is_growth, self.findings)) or not self.changes
        since = self.acceptance if told else f"changed since the baseline: {changed(self.changes)}"
        return ". ".join([*self._cause, *([since] if since else [])])

    @property
    def _cause(self) -> list[str]:
        return [self.validation.cause] if self.validation.cause else []

    @property
    def verdict(self) -> str:
        """The outcome in one line."""
        counts = Counter(finding.status for finding in self.shown())
        missing = sum(finding.is_missing for finding in self.findings)
        must = f", {missing} of them must" if missing else ""
        return f"{counts['failed']} failed, {counts['passed']} passed, {counts['not run']} not run{must}"

    def to_json(self) -> dict[str, Any]:
        """Plain data with stable keys, ready for ``json.dumps``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": KIND,
            "passed": self.passed,
            "complete": self.complete,
            "exit_code": self.exit_code,
            "failures": self.failures(),
            **asdict(self),
            "validation": self.validation.to_json(),
        }

    def show(self, console: "Console") -> None:
        """Print on a console; in a log every finding stays one line, to be searched and its command to be copied."""
        console.print(self.render(), soft_wrap=not console.is_terminal)
