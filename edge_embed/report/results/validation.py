"""Result of `edge-embed validate`, for people and for programs.

``failed`` marks a check that differs or that must run and does not. ``not run`` has a reason and never counts as
passed. Errors and ratios that are not finite are None, so that the JSON is valid everywhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from edge_embed.errors import ParityError
from edge_embed.methods.words import method_words
from edge_embed.report.results.byte_parts import SizePart
from edge_embed.report.results.fidelity import Fidelity
from edge_embed.report.results.session_growth import SessionGrowth
from edge_embed.report.results.shown import Shown
from edge_embed.report.results.targets import Evidence, TargetTimes
from edge_embed.report.results.text_predictions import TextPredictions

SCHEMA_VERSION = 1
KIND = "edge-embed validate"

ERROR_EDGES = tuple(10.0**power for power in range(-10, 3))

Status = Literal["passed", "failed", "not run"]


@dataclass(frozen=True)
class Check:
    """One statement about the file, with its outcome."""

    name: str
    status: Status
    detail: str


@dataclass(frozen=True)
class TableResult:
    """One compressed table.

    Attributes:
        name: name of the table in the user's model.
        method: ``dpq``, ...
        num_embeddings: rows n.
        embedding_dim: columns d.
        dense_bytes: bytes of the float32 table that it replaces, 4nd.
        packed_bytes: bytes of all its tensors.
        compression_ratio: by the formula of the method's paper.
        checks: checks of the stored table: node, body, manifest and every row.
        paths: the same ids through every path, compared bit by bit.
        fidelity: fidelity of its rows if the file was compressed in place; else None.
        settings: settings of the method: ``num_codes``, ``ranks``, ``value_type``, ``padding_idx``, ...
    """

    name: str
    method: str
    num_embeddings: int
    embedding_dim: int
    dense_bytes: int
    packed_bytes: int
    compression_ratio: float
    checks: tuple[Check, ...]
    paths: tuple[Check, ...]
    fidelity: Fidelity | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def method_words(self) -> str:
        """Return the name of the method in reports."""
        return method_words(self.method, self.embedding_dim, self.settings)


@dataclass(frozen=True)
class OutputChange:
    """Change of one output by compression, over all cases. It never fails validation; None marks undefined figures.

    Attributes:
        name: name of the output.
        relative_error: ||compressed - original|| / ||original||.
        cosine: mean over the vectors along the last axis.
        top1: share of these vectors whose largest number has the same position.
        divergence: mean KL divergence of the softmax of logits from that of the original, in nats.
        equal: share of equal values, for an output that holds no floats.
    """

    name: str
    relative_error: float | None
    cosine: float | None
    top1: float | None
    divergence: float | None
    equal: float | None

    def figures(self) -> tuple[str, ...]:
        """Return all figures as texts; empty for undefined ones."""
        shares = ("" if share is None else f"{share:.1%}" for share in (self.top1, self.equal))
        top1, equal = shares
        error, cosine, divergence = (
            "" if value is None else f"{value:.4g}" for value in (self.relative_error, self.cosine, self.divergence)
        )
        return error, cosine, top1, divergence, equal


@dataclass(frozen=True)
class OutputResult:
    """One output of the model on one path, compared with the training form over all cases.

    Attributes:
        name: name of the output.
        status: ``passed`` if |a - b| <= atol + rtol |b| everywhere and everything is finite.
        max_abs_error: None for the training form itself, and if a value is not finite.
        mean_abs_error: as ``max_abs_error``.
        quantile_abs_error: the 99.9 % quantile, as ``max_abs_error``.
        atol: absolute tolerance that was applied.
        rtol: relative tolerance that was applied.
        values: number of compared values.
        detail: the outcome as a text; the first case that failed, and how.
        histogram: number of values with an error of exactly 0, up to each of `ERROR_EDGES`, and above; empty if no
            value could be compared.
        worst_case: inputs with the largest error in multiples of the tolerance; empty if there is no error.
    """

    name: str
    status: Status
    max_abs_error: float | None
    mean_abs_error: float | None
    quantile_abs_error: float | None
    atol: float
    rtol: float
    values: int
    detail: str
    histogram: tuple[int, ...] = ()
    worst_case: str = ""


@dataclass(frozen=True)
class PathResult:
    """The whole model on one path."""

    name: str
    status: Status
    detail: str
    outputs: tuple[OutputResult, ...]


@dataclass(frozen=True)
class TargetResult(PathResult):
    """The whole model on a target.

    Attributes:
        evidence: whether it ran on the processor that the target names.
        versions: versions of the software that ran.
        times: None if time has no meaning on the target, or if it did not run.
        counters: figures that the target counts: bytes of memory, instructions, copies.
    """

    evidence: Evidence
    versions: Mapping[str, str]
    times: TargetTimes | None
    counters: Mapping[str, int]


@dataclass(frozen=True)
class ModelResult:
    """The whole model.

    Attributes:
        cases: descriptions of the inputs (sizes and distribution of ids).
        left_out: inputs on which the training form itself does not run, and the reason.
        paths: one entry per path, the training form first.
        kernel: whether kernel and body each ran on their path.
        changes: changes relative to the original that was compressed in place; one entry per output.
        texts: predictions of the next token on texts; None if no texts were given.
    """

    cases: tuple[str, ...]
    left_out: tuple[str, ...]
    paths: tuple[PathResult, ...]
    kernel: Check
    changes: tuple[OutputChange, ...] = ()
    texts: TextPredictions | None = None


@dataclass(frozen=True)
class OriginalSize:
    """Bytes of the file that was compressed in place.

    Attributes:
        files: bytes of every file, by name.
        on_disk: all files together.
        zipped: all files, each deflated.
        resident: growth of a fresh process's memory from before the session to after its first run; None if it was not
            measured.
    """

    files: Mapping[str, int]
    on_disk: int
    zipped: int
    resident: int | None


@dataclass(frozen=True)
class LoadedSize:
    """All initializers of the model as a session holds it after optimisation.

    Attributes:
        level: optimisation level of ONNX Runtime.
        library: whether the operator library was registered.
        initializer_bytes: bytes of all initializers, of every type.
    """

    level: str
    library: bool
    initializer_bytes: int


@dataclass(frozen=True)
class SizeResult:
    """Sizes in bytes.

    Attributes:
        files: bytes of every file, by name.
        dense_equivalent: bytes of the files if every compressed table were dense float32.
        on_disk: all files together.
        zipped: all files, each deflated.
        resident: growth of a fresh process's memory from before the session to after its first run.
        resident_reason: why ``resident`` is None.
        initializer_bytes: all initializers in the file.
        packed_bytes: initializers of compressed tables.
        session_bytes: most session memory with the operator library.
        loaded: all initializers after loading.
        parts: parts of the files, by table and kind; they add up to ``on_disk``.
        library: bytes of the operator library, for TFLite of the delegate; None if there is none.
        original: size of the file that was compressed in place; None if there is none.
        memory: memory of a session with the operator library and of one without it; empty for TFLite.
    """

    files: Mapping[str, int]
    dense_equivalent: int
    on_disk: int
    zipped: int
    resident: int | None
    resident_reason: str
    initializer_bytes: int
    packed_bytes: int
    session_bytes: int
    loaded: tuple[LoadedSize, ...]
    parts: tuple[SizePart, ...]
    library: int | None
    original: OriginalSize | None = None
    memory: tuple[SessionGrowth, ...] = ()


@dataclass(frozen=True)
class LatencyResult:
    """Time of the custom op, or of the lookup of a TFLite file / time of a peer: below 1 the peer is slower.

    Attributes:
        subject: ``table <name>``, for TFLite also ``table <name>, delegate``, or ``model``.
        ids: ids per call, None for the whole model.
        distribution: distribution of the ids.
        peer: ``dense Gather``, ``portable body`` or ``empty call``; for TFLite ``dense GATHER``.
        ratio: median over rounds, None if it was not measured.
        low: lower end of its 95 % bootstrap interval.
        high: upper end of the interval.
        microseconds: median of the custom op; depends on the machine and the day.
        reason: why it was not measured.
        samples: the ratio of each round.
    """

    subject: str
    ids: int | None
    distribution: str
    peer: str
    ratio: float | None
    low: float | None
    high: float | None
    microseconds: float | None
    reason: str
    samples: tuple[float, ...] = ()

    @property
    def title(self) -> str:
        """Return the subject, ids and distribution, without the peer."""
        ids = "" if self.ids is None else f", {self.ids:,} ids"
        return f"{self.subject}{ids}, {self.distribution}"


@dataclass(frozen=True)
class LatencySection:
    """Latency and the machine that it was measured on.

    Attributes:
        machine: processor, cores and versions.
        method: clock, threads, order and state of the caches, as a text.
        results: one entry per subject, ids and peer.
    """

    machine: Mapping[str, str]
    method: str
    results: tuple[LatencyResult, ...]


@dataclass(frozen=True, repr=False)
class ValidationReport(Shown):
    """Report of `validate`.

    Attributes:
        file: the exported file.
        seed: seed of the random ids and inputs.
        structure: checks of the file as a whole.
        tables: one entry per compressed table.
        model: the whole model.
        sizes: sizes on disk and loaded.
        latency: ratios; they are informational and never fail validation.
        targets: the whole model on the requested targets.
        original: the file that was compressed in place, None if the file was exported from a model.
        cause: common cause of many failures, and its remedy; empty if unknown.
    """

    file: str
    seed: int
    structure: tuple[Check, ...]
    tables: tuple[TableResult, ...]
    model: ModelResult
    sizes: SizeResult
    latency: LatencySection
    targets: tuple[TargetResult, ...] = ()
    original: str | None = None
    cause: str = ""
    view = "edge_embed.report.views.validation:render"

    def outcomes(self) -> Iterator[tuple[str, Check | PathResult]]:
        """Yield every check that can fail, with its owner: ``file``, ``table <name>``, ``model`` or ``target``."""
        yield from (("file", check) for check in self.structure)
        for table in self.tables:
            yield from ((f"table {table.name}", check) for check in (*table.checks, *table.paths))
        yield from (("model", path) for path in self.model.paths)
        yield "model", self.model.kernel
        yield from (("target", target) for target in self.targets)

    @property
    def passed(self) -> bool:
        """Return whether nothing failed; `complete` covers checks that did not run."""
        return all(check.status != "failed" for _, check in self.outcomes())

    @property
    def complete(self) -> bool:
        """Return whether everything ran."""
        return all(check.status != "not run" for _, check in self.outcomes())

    @property
    def exit_code(self) -> int:
        """Return 3 (as for `ParityError`) if a check failed, 1 if a requested target could not run, else 0."""
        if not self.passed:
            return ParityError.exit_code
        return 1 if any(target.status == "not run" for target in self.targets) else 0

    def failures(self) -> list[str]:
        """Return a sentence for every check that failed, and for every target that did not run."""
        return [
            f"{owner}: {check.name}: {check.detail}"
            for owner, check in self.outcomes()
            if check.status == "failed" or (owner == "target" and check.status == "not run")
        ]

    @property
    def verdict(self) -> tuple[Status, str]:
        """Return the outcome as a status and as a few words."""
        if not self.passed:
            cause = f"; {self.cause}" if self.cause else ""
            return "failed", f"{len(self.failures())} check(s) failed{cause}"
        if not self.complete:
            return "not run", "all checks that ran passed; some did not run"
        return "passed", "all checks passed"

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
        }
