"""Limits on the change of rows by compression, for a file that was compressed in place."""

from collections.abc import Iterator

from edge_embed.errors import BadInputError
from edge_embed.gate.budget import RowsBudget
from edge_embed.report.beside_limit import beside_limit
from edge_embed.report.results.fidelity import Fidelity
from edge_embed.report.results.finding import Finding
from edge_embed.report.results.validation import Status, ValidationReport


def row_findings(budget: RowsBudget, report: ValidationReport) -> Iterator[Finding]:
    """Yield findings on the fidelity of the rows of each table.

    Raises:
        BadInputError: there are limits, but no dense rows to compare with.
    """
    if budget == RowsBudget():
        return
    for table in report.tables:
        if table.fidelity is None:
            raise BadInputError(
                "budget: [rows]: got limits, but the model has no dense rows; give the .onnx or .tflite file that was "
                "compressed, or leave [rows] out"
            )
        yield from _of_table(budget, table.name, table.fidelity)


def _of_table(budget: RowsBudget, table: str, found: Fidelity) -> Iterator[Finding]:
    worst = found.worst[0][1] if found.worst else 1.0
    limits = {
        "mean cosine": (found.mean_cosine, "min_cosine", True),
        "cosine of the worst row": (worst, "min_worst_cosine", True),
        "relative error": (found.relative_error, "max_relative_error", False),
    }
    for name, (got, key, is_least) in limits.items():
        limit: float | None = getattr(budget, key)
        if limit is None:
            continue
        status: Status = "passed" if (got >= limit if is_least else got <= limit) else "failed"
        shown, bound = beside_limit(got, limit, digits=6)
        detail = f"{shown}, at {'least' if is_least else 'most'} {bound}"
        if status == "failed":
            detail = f"{shown}, {'less' if is_least else 'more'} than {bound} (rows.{key})"
        yield Finding("parity", f"table {table}: {name}", status, detail, got, limit, name)
