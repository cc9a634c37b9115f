"""Page of a comparison: a plot of size against the metric, and tables."""

from edge_embed.report.results.compare import CompareReport
from edge_embed.report.views.compare import (
    MODEL_TEXTS,
    TABLE_TEXTS,
    model_columns,
    model_rows,
    table_columns,
    table_rows,
)
from edge_embed.report.views.html.figures import size_against_metric
from edge_embed.report.views.html.page import Grid, Section, make_page


def compare_page(report: CompareReport) -> str:
    """Return the whole report as HTML."""
    front, columns, made = ", ".join(report.front), model_columns(report), table_columns()
    verdict = f"Pareto front: {front or 'empty'}"
    grid = Grid(columns, list(model_rows(report)), frozenset(range(MODEL_TEXTS, len(columns))))
    sections = [Section("Models", report.note, grid)]
    if rows := list(table_rows(report)):
        sections.append(Section("Tables", grid=Grid(made, rows, frozenset(range(TABLE_TEXTS, len(made))))))
    points = {
        f"{one.name} (failed)" if one.status == "failed" else one.name: (one.on_disk, one.metric)
        for one in report.candidates
        if one.metric is not None
    }
    if report.metric is not None:
        text = "Filled: the Pareto front. No other passed model is smaller and as good, or better and as small."
        picture = size_against_metric(points, report.metric, report.front)
        sections.insert(0, Section("Size against accuracy", text, pictures=[picture]))
    facts = {one.name: f"{one.file}; {one.machine}" for one in report.candidates}
    title = f"Comparison of {len(report.candidates)} models"
    return make_page(title, ("passed" if front else "not run", verdict), sections, facts)
