"""Export, validation and comparison of models that differ in their embedding table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from torch import Tensor, nn

import edge_embed
from edge_embed.report.results.validation import ValidationReport
from edge_embed.validation.options import ValidationOptions


@dataclass(frozen=True)
class Result:
    """One line of the comparison.

    Attributes:
        method: ``dense``, or the name of the compressed model.
        scores: scores by name, in the order of the columns.
        ratio: bytes of the dense float32 tables / bytes of these.
        table_bytes: bytes of all tables.
        file_bytes: bytes of the ONNX file; for the dense model those of the first other file with float32 tables.
        times: time of the operator / of a dense table, by use: the worst of all tables, for the largest batches.
        validation: ``passed``, ``failed`` or ``incomplete``; empty for the dense model.
        failures: failures of the validation.
    """

    method: str
    scores: Mapping[str, float]
    ratio: float
    table_bytes: int
    file_bytes: int
    times: Mapping[str, float]
    validation: str
    failures: Sequence[str] = ()


class Comparison:
    """Results of one sample, the dense model first.

    Args:
        folder: folder for ``<method>.pt`` and ``<method>.onnx``, which are overwritten.
        example: example ids of the exported models.
        quick: whether to measure less exactly.
        prefix: prefix of the methods in the results, for a sample that compares several models.
    """

    def __init__(self, folder: Path, example: Tensor | tuple[Tensor, ...], quick: bool, prefix: str = "") -> None:
        self._folder, self._example, self._prefix = folder, example, prefix
        self._options = ValidationOptions(iterations=10, warmup=2) if quick else ValidationOptions()
        self._dense: Mapping[str, float] = {}
        self.results: list[Result] = []

    def add(self, method: str, model: nn.Module, scores: Mapping[str, float]) -> None:
        """Save, export and validate a model; of the dense model only the scores are stored at first."""
        if method == "dense":
            self._dense = scores
            return
        stem = f"{self._prefix}{method}".replace(" ", "_")
        saved, exported = (self._folder / f"{stem}{ending}" for ending in (".pt", ".onnx"))
        edge_embed.save(model, saved, self._example, force=True)
        edge_embed.export(saved, "onnx", exported, force=True)
        report = edge_embed.validate(saved, exported, options=self._options)
        for failure in report.failures():
            click.echo(f"{method}: {failure}", err=True)
        if not self.results:
            self.results.append(_dense_result(f"{self._prefix}dense", report, self._dense))
        self.results.append(_result(f"{self._prefix}{method}", report, scores))


def _dense_result(name: str, report: ValidationReport, scores: Mapping[str, float]) -> Result:
    """Return the result of the dense model: its sizes are those of a compressed one with float32 tables."""
    tables = sum(table.dense_bytes for table in report.tables)
    return Result(name, scores, 1.0, tables, report.sizes.dense_equivalent, {}, "")


def _result(name: str, report: ValidationReport, scores: Mapping[str, float]) -> Result:
    dense, packed = (sum(getattr(table, name) for table in report.tables) for name in ("dense_bytes", "packed_bytes"))
    validation = "failed" if not report.passed else "passed" if report.complete else "incomplete"
    sizes = dense / packed, packed, report.sizes.on_disk
    return Result(name, scores, *sizes, _times(report), validation, tuple(report.failures()))


def _times(report: ValidationReport) -> dict[str, float]:
    """Return the time of the operator / of a dense table, by use: the worst of all tables, for the largest batches."""
    measured = [result for result in report.latency.results if "dense" in result.peer and result.ratio is not None]
    times: dict[str, dict[int, float]] = {}
    for result in measured:
        _, _, use = result.subject.partition(", ")
        by_size = times.setdefault(use or "rows", {})
        by_size[result.ids or 0] = max(by_size.get(result.ids or 0, 0.0), result.ratio or 0.0)
    return {use: by_size[max(by_size)] for use, by_size in times.items()}
