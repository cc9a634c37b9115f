"""Comparison of several reports of `edge-embed check` or `edge-embed validate`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from edge_embed.errors import BadInputError
from edge_embed.gate.baseline import read_metrics, read_table
from edge_embed.gate.earlier_report import (
    saved_report,
    take_list,
    take_number,
    take_object,
    take_size,
    take_text,
    take_truth,
)
from edge_embed.report.results import check, validation
from edge_embed.report.results.compare import Candidate, CompareReport
from edge_embed.report.results.validation import Status

_KINDS = {check.KIND: check.SCHEMA_VERSION, validation.KIND: validation.SCHEMA_VERSION}
_SIZES = ("method", "num_embeddings", "embedding_dim")
_REMEDY = "create it with `edge-embed check --output` or `edge-embed validate --json`"


def compare_reports(paths: Sequence[Path]) -> CompareReport:
    """Read reports and compare them.

    Args:
        paths: paths of 2 or more reports.

    Raises:
        BadInputError: a file is no such report, is given twice, or has another metric than the others.
    """
    if len(paths) < 2:
        raise BadInputError(f"got {len(paths)} report, expected 2 or more; give the report of each model")
    stems = [path.stem for path in paths]
    names = [path.stem if stems.count(path.stem) == 1 else str(path) for path in paths]
    found = list(map(_read, paths, names))
    candidates = [candidate for _, candidate in found]
    for one, other in combinations(candidates, 2):
        if replace(one, name=other.name) == other:
            raise BadInputError(f"{one.name}, {other.name}: got the same report twice; give each report once")
    return CompareReport(_metric(found), tuple(sorted(candidates, key=lambda one: (one.on_disk, one.name))))


def _metric(found: Sequence[tuple[str | None, Candidate]]) -> str | None:
    """Return the metric of the reports that have one; all of them must have the same."""
    functions = {function: candidate.name for function, candidate in found if function is not None}
    if len(functions) > 1:
        given = ", ".join(f"{name} has {function:.80}" for function, name in functions.items())
        raise BadInputError(f"metric: {given}, expected one metric for all reports; check all models with one budget")
    return next(iter(functions), None)


def _read(path: Path, name: str) -> tuple[str | None, Candidate]:
    """Return the function of the metric, and the candidate."""
    with saved_report(path, _KINDS, _REMEDY) as content:
        validation = take_object(content.get("validation", content), "validation")
        sizes = take_object(validation.get("sizes"), "sizes")
        machine = take_object(take_object(validation.get("latency"), "latency").get("machine"), "machine")
        exported, model = (read_metrics(content, form) for form in ("exported", "model"))
        return next(iter(exported), None), Candidate(
            name,
            take_text(validation, "file"),
            tuple(dict.fromkeys(take_text(table, "method") for table in take_list(validation, "tables"))),
            _on_disk(sizes),
            take_size(sizes, "zipped"),
            take_size(sizes, "dense_equivalent"),
            next(iter(exported.values()), None),
            next(iter(model.values()), None),
            dict(_latencies(validation["latency"], content.get("base"))),
            _status(content),
            ", ".join(take_text(machine, key) for key in machine),
            dict(_tables(take_list(validation, "tables"))),
            _times(validation["latency"]),
        )


def _tables(tables: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield settings and bytes of each table; a report of an earlier version may have fewer."""
    for table in tables:
        if "name" not in table:
            continue
        name, made = read_table(table)
        settings = {key: value for key, value in made.items() if key not in _SIZES}
        sizes = {"packed_bytes": take_size(table, "packed_bytes"), "ratio": take_number(table, "compression_ratio")}
        yield name, {key: made[key] for key in _SIZES} | {"settings": settings} | sizes


def _times(latency: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return ratios of times of lookups to those in dense tables, by table and by ids."""
    found: dict[str, dict[str, float]] = {}
    for result in take_list(latency, "results"):
        subject = result.get("subject")
        if result.get("ratio") is None or str(result.get("peer")).lower() != "dense gather":
            continue
        table = take_text(result, "subject").removeprefix("table ")
        if table != subject:
            what = f"{result.get('ids')} {result.get('distribution')}"
            found.setdefault(table, {})[what] = take_number(result, "ratio")
    return found


def _on_disk(sizes: Mapping[str, Any]) -> int:
    size = take_size(sizes, "on_disk")
    if size == 0:
        raise BadInputError("on_disk: got 0, expected at least 1")
    return size


def _status(content: Mapping[str, Any]) -> Status:
    passed, complete = take_truth(content, "passed"), take_truth(content, "complete")
    return "failed" if not passed else "passed" if complete else "not run"


def _latencies(latency: Mapping[str, Any], base: Any) -> Iterator[tuple[str, float]]:
    """Yield ratios of times of the whole model to its peers and to an earlier file."""
    for result in take_list(latency, "results"):
        if result.get("subject") == check.MODEL and result.get("ratio") is not None:
            yield take_text(result, "peer"), take_number(result, "ratio")
    for found in [] if base is None else take_list(take_object(base, "base"), "comparisons"):
        if found.get("subject") == check.MODEL and found.get("cpu") is not None:
            yield "its base", take_number(take_object(found["cpu"], "cpu"), "median")
