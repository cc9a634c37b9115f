"""Result of `edge-embed check`, for people, for programs, and as the baseline of later checks.

`CheckReport.to_json` is the schema, version 1; the class docstrings below explain every key:

    schema_version, kind        1, "edge-embed check"
    passed, complete, exit_code whether nothing failed; whether everything ran; exit code of the command
    failures                    a sentence for each cause of an exit code other than 0
    budget                      edge-embed.toml as it was read
    environment                 versions, processor, operator library
    findings                    [Finding]
    baseline                    the path of the earlier report, or null
    base                        BaseResult or null
    metric                      MetricResult or null
    validation                  the output of `edge-embed validate --json`
    grown                       bytes now less bytes in the baseline, by name of the size
    warnings                    entries of the replaced report that this report lacks
    changes                     [Change] of settings, tables and versions since the baseline
    accept                      the command that makes this state the baseline, empty without a baseline
    acceptance                  outcome of a replacement of the baseline, empty without one

Every number is finite or null. A later version of the schema may add keys. `schema_version` changes when a key changes
its meaning or is removed.
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
MODEL = "model"  # subject of a comparison of the whole model

# Order of precedence: wrong results come before size, and size before latency.
EXIT_CODES: Mapping[Requirement, int] = {
    "parity": ParityError.exit_code,
    "size": SizeError.exit_code,
    "latency": LatencyError.exit_code,
}


@dataclass(frozen=True)
class Side:
    """A model measured in a process of its own, for information: no requirement uses these figures.

    Attributes:
        name: ``base`` or ``candidate``.
        file: the exported file.
        library: SHA-256 of the operator library, or of the delegate for TFLite.
        resident: growth of resident memory in bytes, from before the session to after its first run.
        peak: largest growth of resident memory in bytes within that time.
        open_seconds: wall time to create the session.
        first_call_seconds: wall time of the first run.
        reason: why it was not measured; the four figures are None then.
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
        items: ids or states per call, None for the whole model.
        cpu: ratio of CPU times, which decides; None if not measured.
        wall: ratio of wall times.
        base_microseconds: median CPU time of a call of the base; depends on the machine and the day.
        candidate_microseconds: median CPU time of a call of the candidate.
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
        """Return the subject with its number of items."""
        return self.subject if self.items is None else f"{self.subject}, {self.items:,} a call"


@dataclass(frozen=True)
class BaseResult:
    """Comparison of the exported file with an earlier one, in one process.

    Attributes:
        method: clock, threads, order and inputs, as a text.
        sides: base and candidate, each in a process of its own.
        comparisons: the whole model, and every table.
    """

    method: str
    sides: tuple[Side, ...]
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True)
class MetricResult:
    """Values of the metric; higher is better.

    Attributes:
        function: ``package.module:function``.
        exported: value of the exported file.
        model: value of the training form.
        base: value of the base, None without a base.
    """

    function: str
    exported: float
    model: float
    base: float | None


@dataclass(frozen=True, repr=False)
class CheckReport(Shown):
    """Report of `check`.

    Attributes:
        budget: the budget file as it was read.
        environment: versions, processor and operator library.
        findings: one entry for each requirement and each subject of it.
        baseline: path of the earlier report that sizes are compared with; None if none was given.
        base: latency compared with an earlier file; None if none was given.
        metric: None if the budget names none.
        validation: report of `validate`.
        grown: bytes now less bytes in the baseline, by size; a removed part is negative.
        warnings: entries of the replaced report that this report lacks.
        changes: changed settings, tables and versions since the baseline.
        accept: command that makes this state the baseline; empty without a baseline.
        acceptance: outcome of a replacement of the baseline, as a text; empty without one.
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
        """Return whether nothing failed; `complete` covers findings that did not run."""
        return all(finding.status != "failed" for finding in self.findings)

    @property
    def complete(self) -> bool:
        """Return whether everything ran."""
        return all(finding.status != "not run" for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """Return the code of the most severe outcome.

        The first that applies decides: 3 for failed parity, 4 for a failed size, 5 for failed latency, 1 for a required
        check that did not run. Without any of them, the code is 0.
        """
        failed = {finding.requirement for finding in self.findings if finding.status == "failed"}
        missing = any(finding.is_missing for finding in self.findings)
        return next((code for requirement, code in EXIT_CODES.items() if requirement in failed), int(missing))

    def failures(self) -> list[str]:
        """Return a sentence for each finding that failed, and for each required one that did not run."""
        return [finding.sentence() for finding in self.findings if finding.status == "failed" or finding.is_missing]

    def shown(self) -> list[Finding]:
        """Return the findings for people: all failed growth is one finding, with its cause and remedy."""
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
        """Describe growth beyond the limits, its cause and the command that accepts it; empty if nothing failed."""
        failed = [finding for finding in self.findings if is_growth(finding)]
        return growth_words(failed, self.changes, self.grown, self.accept) if failed else ""

    def reasons(self) -> list[str]:
        """Return the likely cause and the sentences of `failures` for the findings that people see."""
        found = [finding.sentence() for finding in self.shown() if finding.status == "failed" or finding.is_missing]
        return [*self._cause, *found]

    @property
    def note(self) -> str:
        """Return the likely cause of failures, and the changed settings unless a finding states them."""
        is_stated = any(map(is_growth, self.findings)) or not self.changes
        since = self.acceptance if is_stated else f"changed since the baseline: {changed(self.changes)}"
        return ". ".join([*self._cause, *([since] if since else [])])

    @property
    def _cause(self) -> list[str]:
        return [self.validation.cause] if self.validation.cause else []

    @property
    def verdict(self) -> str:
        """Return the outcome in one line."""
        counts = Counter(finding.status for finding in self.shown())
        missing = sum(finding.is_missing for finding in self.findings)
        must = f", {missing} of them required" if missing else ""
        return f"{counts['failed']} failed, {counts['passed']} passed, {counts['not run']} not run{must}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data with stable keys, ready for ``json.dumps``."""
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

    def show(self, console: "Console", verbose: bool = False) -> None:
        """Print on a console; in a log every finding stays one line, to search it and copy its command."""
        console.print(self.render(verbose=verbose), soft_wrap=not console.is_terminal)
