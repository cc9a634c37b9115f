"""Limits on the change of rows by compression, for a file that was compressed in place."""

from collections.abc import Iterator

from edge_embed.errors import BadInputError
from edge_embed.gate.budget import RowsBudget
from edge_embed.gate.effect_finding import effect_finding
from edge_embed.report.results.fidelity import Fidelity
from edge_embed.report.results.finding import Finding
from edge_embed.report.results.validation import ValidationReport


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
    figures = {
        "min_cosine": ("mean cosine", found.mean_cosine),
        "min_worst_cosine": ("cosine of the worst row", found.worst[0][1] if found.worst else 1.0),
        "max_relative_error": ("relative error", found.relative_error),
    }
    for key, (name, got) in figures.items():
        limit: float | None = getattr(budget, key)
        if limit is not None:
            yield effect_finding(f"table {table}", name, got, f"rows.{key}", limit)
