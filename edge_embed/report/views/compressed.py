"""View of a result of `edge_embed.compress` on the terminal."""

from collections.abc import Sequence

from rich.console import Group, RenderableType

from edge_embed.report.results.compressed import CompressedTable, CompressReport, pareto_front
from edge_embed.report.results.fidelity import Fidelity
from edge_embed.report.views.calibration import calibration_table
from edge_embed.report.views.exported import opened_words
from edge_embed.report.views.folded_table import FoldedTable
from edge_embed.report.views.text_predictions import text_table
from edge_embed.report.views.words import cell


def render(report: CompressReport) -> RenderableType:
    """Return tables for the terminal."""
    columns = ("table", "shape", "method", "dense bytes", "packed (zipped)", "ratio", "mean cosine", "")
    sizes = f"{report.dense_bytes:,} bytes before, {report.compressed_bytes:,} after"
    tables = FoldedTable(*columns, title="Tables", caption=f"Whole model: {sizes}")
    for table in report.tables:
        tables.add_row(*_cells(table))
    details = (part for table in report.tables for part in _details(table))
    opened = [line] if (line := opened_words(report.opened)) else []
    calibration = [calibration_table(report.calibration)] if report.calibration else []
    texts = [text_table(report.texts)] if report.texts else []
    return Group(tables, *details, *calibration, *texts, *map(cell, [*report.source.lines(), *opened]))


def _cells(table: CompressedTable) -> list[str]:
    size = f"{table.num_embeddings} x {table.embedding_dim}"
    found = table.fidelity
    if found is None:
        return [table.name, size, table.method, "", "", "", "", f"not compressed: {table.reason}"]
    return [
        table.name,
        size,
        table.method,
        f"{found.dense_bytes:,}",
        f"{found.packed_bytes:,} ({found.zipped_bytes:,})",
        f"{found.ratio:.1f}x",
        f"{found.mean_cosine:.4f}",
        (table.setting if table.plan is None else str(table.plan))
        + (f", used {table.uses} times" if table.uses > 1 else "")
        + (", all rows are zero" if table.is_zero else ""),
    ]


def _details(table: CompressedTable) -> Sequence[RenderableType]:
    """Return the fidelity of one table, and the other settings that were tried."""
    found = table.fidelity
    if found is None:
        return []
    near = FoldedTable("rows", "count", "mean cosine", "lowest", title=f"{table.name}: cosines with the dense rows")
    for band in found.bands:
        near.add_row(band.name, f"{band.rows:,}", f"{band.mean:.4f}", f"{band.least:.4f}")
    worst = ", ".join(f"{row} ({cosine:.2f})" for row, cosine in found.worst)
    lines = [f"relative error {found.relative_error:.4f}", f"worst rows: {worst}"]
    if found.neighbours is not None:
        lines.insert(1, f"{found.neighbours:.1%} of the 10 nearest rows stay the same")
    if table.next_layer_error is not None:
        lines.append(f"relative error {table.next_layer_error:.4f} behind the next layer")
    return [near, "; ".join(lines), *_tiers(table), _others(table, found)]


_ASSUMED = {
    "order": "Counts are assumed: n / (rank + 1) in the order of the n rows.",
    "equal": "Counts are assumed: all rows are equally frequent. With counts, frequent rows get more bytes.",
    "calibration": "The curvature of the outputs by each row, measured on the examples, stands for its count.",
}


def _tiers(table: CompressedTable) -> list[RenderableType]:
    """Return the tiers, and the errors under other counts."""
    plan = table.plan
    if plan is None:
        return []
    tiers = FoldedTable(
        "rows", "format", "bytes", "bits a number", "of counts", "relative error", title=f"{table.name}: tiers"
    )
    for tier in plan.tiers:
        bits = 8 * tier.nbytes / (tier.rows * table.embedding_dim)
        cells = f"{tier.rows:,}", tier.format, f"{tier.nbytes:,}", f"{bits:.2f}", f"{tier.share:.1%}"
        tiers.add_row(*cells, f"{tier.relative_error:.4f}")
    lines = [f"relative error {plan.equal_error:.4f} if all rows were equally frequent"]
    if plan.other_error is not None and plan.other_share is not None:
        last = f"{plan.other_share:.1%} of them outside the last tier"
        lines.append(f"{plan.other_error:.4f} under the other counts ({last})")
    assumed = [_ASSUMED[plan.counts]] if plan.counts in _ASSUMED else []
    return [tiers, "; ".join(lines), *assumed]


def _others(table: CompressedTable, found: Fidelity) -> FoldedTable:
    """Return the Pareto front of the trials, and the baselines that need no method."""
    behind = () if all(trial.next_layer_error is None for trial in table.trials) else ("behind the next layer",)
    columns = "bytes", "ratio", "mean cosine", "relative error", *behind, "setting"
    others = FoldedTable(*columns, title=f"{table.name}: Pareto front")
    for trial in sorted((*pareto_front(table.trials), *table.baselines), key=lambda trial: trial.nbytes):
        ratio = found.dense_bytes / trial.nbytes
        chosen = " (chosen)" if (trial.method, trial.setting) == (table.method, table.setting) else ""
        baseline = " (for comparison)" if trial in table.baselines else ""
        near = trial.mean_cosine, trial.relative_error, trial.next_layer_error
        cells = f"{trial.nbytes:,}", f"{ratio:.1f}x", *(f"{number:.4f}" for number in near if number is not None)
        others.add_row(*cells, f"{trial}{chosen}{baseline}")
    return others
