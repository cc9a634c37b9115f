"""Baseline: the exact figures of an earlier report of `edge-embed check`: sizes, instructions, and the metric."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_embed.errors import located
from edge_embed.gate.earlier_report import saved_report, take_list, take_number, take_object, take_size, take_text
from edge_embed.report.results.byte_parts import SizePart
from edge_embed.report.results.check import KIND, SCHEMA_VERSION
from edge_embed.report.results.targets import INSTRUCTIONS

_REMEDY = "create it with `edge-embed check --accept`, or in pytest with --edge-embed-update-baseline"


@dataclass(frozen=True)
class Baseline:
    """Figures of an earlier report.

    Attributes:
        path: path of the report.
        on_disk: bytes of all files.
        zipped: bytes of all files, each deflated.
        zlib: version of the library that deflated them.
        parts: parts of the files.
        metrics: value of each metric for the exported file, by function.
        targets: targets on which it ran.
        instructions: instructions counted on targets, by name.
        tables: settings of each table, by name; earlier versions report only method, rows and columns.
        environment: versions, as far as the report has them.
    """

    path: Path
    on_disk: int
    zipped: int
    zlib: str
    parts: tuple[SizePart, ...]
    metrics: Mapping[str, float]
    targets: tuple[str, ...]
    instructions: Mapping[str, int]
    tables: Mapping[str, Mapping[str, Any]]
    environment: Mapping[str, str]


def read_baseline(path: Path) -> Baseline:
    """Read a report.

    Raises:
        BadInputError: the file is missing, is no report of a check, or has another version of the schema.
    """
    with saved_report(path, {KIND: SCHEMA_VERSION}, _REMEDY) as content:
        validation = take_object(content.get("validation"), "validation")
        sizes = take_object(validation.get("sizes"), "sizes")
        versions = take_object(content.get("environment"), "environment")
        environment = {name: text for name, text in versions.items() if isinstance(text, str)}
        targets = {take_text(target, "name"): target for target in take_list({"targets": [], **validation}, "targets")}
        return Baseline(
            path,
            take_size(sizes, "on_disk"),
            take_size(sizes, "zipped"),
            environment.get("zlib", "unknown"),
            tuple(map(_part, take_list(sizes, "parts"))),
            read_metrics(content),
            tuple(name for name, target in targets.items() if target.get("status") != "not run"),
            _instructions(targets),
            dict(map(read_table, take_list({"tables": [], **validation}, "tables"))),
            environment,
        )


def _part(content: Mapping[str, Any]) -> SizePart:
    table = None if content.get("table") is None else take_text(content, "table")
    return SizePart(table, take_text(content, "name"), take_size(content, "bytes"))


def read_table(content: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of a table, and its settings."""
    found: dict[str, Any] = {"method": take_text(content, "method")}
    found |= {key: take_size(content, key) for key in ("num_embeddings", "embedding_dim")}
    settings = take_object(content.get("settings", {}), "settings")
    return take_text(content, "name"), found | settings


def read_metrics(report: Mapping[str, Any], form: str = "exported") -> dict[str, float]:
    """Return the values of metrics for a form of the model (a key of `MetricResult`), by function."""
    if report.get("metric") is None:
        return {}
    with located("metric"):
        content = take_object(report["metric"], "metric")
        return {take_text(content, "function"): take_number(content, form)}


def _instructions(targets: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    counters = {name: take_object(target.get("counters"), "counters") for name, target in targets.items()}
    return {name: take_size(counted, INSTRUCTIONS) for name, counted in counters.items() if INSTRUCTIONS in counted}
