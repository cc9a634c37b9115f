"""Budget file ``edge-embed.toml``: limits of size, error and time. Every key is optional; an unknown key is an error.

    model = "model.pt"              paths are relative to the budget file
    exported = "model.onnx"         or a .tflite file
    baseline = "baseline.json"      report of an earlier `edge-embed check --output`
    tokenizer = "tokenizer.json"    tokenizer that the file was exported with, to compare ids
    allow_not_run = false           true: a limit of size or latency that cannot be measured passes; else exit code 1

    [size]                          largest sizes in bytes, as integers or as "460 KiB", "1.5 MB"
    on_disk = "460 KiB"             all files together
    zipped = "400 KiB"              all files, each deflated
    resident = "20 MiB"             growth of a process by session and first run; measured, so 1 MiB more still passes
    growth = "0 B"                  growth on disk, of each table and of each part, against the baseline; or "1 %"
    zipped_growth = "1 %"           growth of the zipped size, which retraining changes by a few bytes
    [size.tables]                   by name of the table
    words = "330 KiB"
    [size.parts]                    by part of the file (graph, bodies, dense, ...), tensor (codes, ...), or `library`
    graph = "20 KiB"

    [parity]                        |a - b| <= atol + rtol |b|, as in `edge-embed validate`
    atol = 1e-5                     absolute tolerance
    rtol = 1e-4                     relative tolerance
    max = 1e-5                      largest absolute error, on every path
    mean = 1e-6                     mean absolute error, on every path
    quantile = 1e-6                 99.9 % quantile of the absolute error, on every path
    changed_after_export = false    true: a tool changes the file on purpose; differences are reported and pass
    [parity.outputs.logits]         the same five limits for one output
    atol = 1e-6

    [rows]                          compressed rows against the dense rows, for a file that was compressed in place
    min_cosine = 0.95               lowest mean cosine of each table
    min_worst_cosine = 0.5          lowest cosine of the worst row of each table
    max_relative_error = 0.3        largest reconstruction error of each table

    [texts]                         next tokens of a text, for a compressed language model beside its original
    file = "texts.txt"              required here; the folder of the model has the tokenizer, or `tokenizer` names it
    original = "chat"               for an exported file: the model before compression
    max_divergence = 0.05           largest mean KL divergence from the original, in nats
    min_top1 = 0.95                 lowest share of predictions with the same most likely token
    min_acceptance = 0.95           lowest acceptance, the mean of sum_j min(p_j, q_j)

    [latency]
    iterations = 50                 number of measured rounds
    threshold = "10 %"              fails if the file is slower than the base by more than this, and significantly
    [latency.at_most]               largest ratio of times to each peer that `edge-embed validate` compares with
    "portable body" = 1.0           for a TFLite file: "dense GATHER"

    [targets]
    require = ["local", "arm64"]    the model must run and agree there; names as in `edge-embed validate --target`
    instructions = "1 %"            growth of exact instruction counts of targets, against the baseline
    time_limit = 600                seconds for each step, on targets and in the check itself

    [metric]                        your function receives run(feeds) -> outputs; higher is better
    function = "mytask.metrics:accuracy"
    drop = 0.01                     allowed drop against the training form, the base and the baseline

Names of tables, parts and outputs are those of the model. The check refuses a name that the model does not have.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from edge_embed.errors import BadInputError, located, suggested
from edge_embed.gate.quantities import (
    Growth,
    read_bound,
    read_bytes,
    read_cosine,
    read_fraction,
    read_growth,
    read_iterations,
    read_seconds,
    read_share,
    read_switch,
    read_text,
)
from edge_embed.gate.text_file import read_source
from edge_embed.targets.catalog import make_target

Reader = Callable[[Any], Any]
T = TypeVar("T")

_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class SizeBudget:
    """Largest sizes in bytes; None is no limit. ``growth`` applies if there is a baseline."""

    on_disk: int | None = None
    zipped: int | None = None
    resident: int | None = None
    growth: Growth = field(default_factory=Growth)
    zipped_growth: Growth | None = None
    tables: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ErrorBounds:
    """Largest absolute errors of an output; None defers to the next wider limit: all outputs, then the default."""

    atol: float | None = None
    rtol: float | None = None
    max: float | None = None
    mean: float | None = None
    quantile: float | None = None


@dataclass(frozen=True)
class ParityBudget(ErrorBounds):
    """Error limits of all outputs and of single outputs, and whether a tool may change the file after the export."""

    changed_after_export: bool = False
    outputs: Mapping[str, ErrorBounds] = field(default_factory=dict)

    def bound(self, output: str, statistic: str) -> float | None:
        """Return the largest ``max``, ``mean`` or ``quantile`` of one output."""
        own: float | None = getattr(self.outputs.get(output, ErrorBounds()), statistic)
        every: float | None = getattr(self, statistic)
        return every if own is None else own


@dataclass(frozen=True)
class RowsBudget:
    """Limits on the fidelity of packed rows; None is no limit."""

    min_cosine: float | None = None
    min_worst_cosine: float | None = None
    max_relative_error: float | None = None


@dataclass(frozen=True)
class TextsBudget:
    """Text that a compressed language model and its original predict, and limits on the difference."""

    file: Path
    original: Path | None = None
    max_divergence: float | None = None
    min_top1: float | None = None
    min_acceptance: float | None = None


@dataclass(frozen=True)
class LatencyBudget:
    """Limits on ratios of times: to the base, and to the peers by name."""

    iterations: int = 50
    threshold: Fraction = Fraction(1, 10)
    at_most: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TargetsBudget:
    """Targets on which the model must run, and the allowed growth of instructions against the baseline."""

    require: tuple[str, ...] = ()
    instructions: Growth = field(default_factory=Growth)
    time_limit: float = 600.0


@dataclass(frozen=True)
class MetricBudget:
    """Function of the user, and the allowed drop of its value."""

    function: str
    drop: float = 0.0


@dataclass(frozen=True)
class Budget:
    """Budget as it was read.

    Attributes:
        path: path of the budget file, None without a file.
        content: content of the file, as plain values.
        model: path of the saved model; None if not named.
        exported: path of the exported file; None if not named.
        baseline: path of the baseline; None if not named.
        tokenizer: path of the tokenizer; None if not named.
        allow_not_run: whether a limit of size or latency passes if it cannot be measured.
        size: limits of sizes.
        parity: limits of errors.
        rows: limits of the change of rows by compression.
        texts: limits of the change of predictions on texts, None without texts.
        latency: limits of times.
        targets: required targets.
        metric: metric of the user, None if there is none.
    """

    path: Path | None = None
    content: Mapping[str, Any] = field(default_factory=dict)
    model: Path | None = None
    exported: Path | None = None
    baseline: Path | None = None
    tokenizer: Path | None = None
    allow_not_run: bool = False
    size: SizeBudget = SizeBudget()
    parity: ParityBudget = ParityBudget()
    rows: RowsBudget = RowsBudget()
    texts: TextsBudget | None = None
    latency: LatencyBudget = LatencyBudget()
    targets: TargetsBudget = TargetsBudget()
    metric: MetricBudget | None = None

    @contextmanager
    def named(self) -> Iterator[None]:
        """Put the path of the budget before errors about its texts and their model."""
        try:
            yield
        except BadInputError as error:
            if self.path is None or self.texts is None:
                raise
            own = f"{self.texts.file}: ", "texts: ", "original: "
            if not str(error).startswith(own):
                raise
            raise BadInputError(f"{self.path}: {error}") from error


def read_budget(path: Path) -> Budget:
    """Read ``edge-embed.toml``.

    Raises:
        BadInputError: the file is missing or no TOML, or a key or value is invalid.
    """
    with located(str(path)):
        content = _content(path)
        return Budget(path, content, **_read(content, _readers(path.parent)))


def _content(path: Path) -> dict[str, Any]:
    text = read_source(path, _MOST_BYTES, "a budget, such as edge-embed.toml")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"is not valid TOML: {error}") from error


def _readers(folder: Path) -> Mapping[str, Reader]:
    def read_path(value: Any) -> Path:
        return folder / read_text(value)

    bounds = dict.fromkeys(("atol", "rtol", "max", "mean", "quantile"), read_bound)
    parity: dict[str, Reader] = bounds | {"changed_after_export": read_switch}
    size: dict[str, Reader] = {"on_disk": read_bytes, "zipped": read_bytes, "resident": read_bytes}
    size |= dict.fromkeys(("growth", "zipped_growth"), read_growth)
    targets = {"require": _read_targets, "instructions": read_growth, "time_limit": read_seconds}
    rows = {"min_cosine": read_cosine, "min_worst_cosine": read_cosine, "max_relative_error": read_bound}
    texts: dict[str, Reader] = {"file": read_path, "original": read_path, "max_divergence": read_bound}
    texts |= dict.fromkeys(("min_top1", "min_acceptance"), read_share)
    latency = {"iterations": read_iterations, "threshold": read_fraction, "at_most": _by_name(read_bound)}
    return {
        "model": read_path,
        "exported": read_path,
        "baseline": read_path,
        "tokenizer": read_path,
        "allow_not_run": read_switch,
        "size": _section(SizeBudget, size | {"tables": _by_name(read_bytes), "parts": _by_name(read_bytes)}),
        "parity": _section(ParityBudget, parity | {"outputs": _by_name(_section(ErrorBounds, bounds))}),
        "rows": _section(RowsBudget, rows),
        "texts": _section(_texts, texts),
        "latency": _section(LatencyBudget, latency),
        "targets": _section(TargetsBudget, targets),
        "metric": _section(_metric, {"function": read_text, "drop": read_bound}),
    }


def _read_targets(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise BadInputError(f"got {value!r:.80}, expected a list of targets, such as ['local', 'arm64']")
    names = tuple(dict.fromkeys(map(read_text, value)))  # once each
    for name in names:  # the kind of file that the target runs is checked later, with the file
        make_target(name)
    return names


def _metric(function: str | None = None, drop: float = 0.0) -> MetricBudget:
    if function is None:
        raise BadInputError("got no function, expected one such as 'mytask.metrics:accuracy'")
    return MetricBudget(function, drop)


def _texts(file: Path | None = None, original: Path | None = None, **limits: float) -> TextsBudget:
    if file is None:
        raise BadInputError("got no file, expected one such as 'texts.txt'")
    return TextsBudget(file, original, **limits)


def _section(make: Callable[..., T], readers: Mapping[str, Reader]) -> Callable[[Any], T]:
    return lambda value: make(**_read(_mapping(value), readers))


def _by_name(reader: Reader) -> Callable[[Any], dict[str, Any]]:
    """Return a reader of a TOML table whose keys are names in the model."""
    return lambda value: _read(_mapping(value), dict.fromkeys(_mapping(value), reader))


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadInputError(f"got {value!r:.80}, expected a table of keys")
    return value


def _read(content: Mapping[str, Any], readers: Mapping[str, Reader]) -> dict[str, Any]:
    found = {}
    for key, value in content.items():
        if key not in readers:
            raise BadInputError(
                f"unknown key {key!r:.80}: {suggested(key, readers)}expected one of {', '.join(readers)}"
            )
        with located(key):
            found[key] = readers[key](value)
    return found
