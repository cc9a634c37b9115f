"""View of a comparison as Markdown tables."""

from edge_embed.report.results.compare import CompareReport
from edge_embed.report.views.compare import (
    MODEL_TEXTS,
    TABLE_TEXTS,
    model_columns,
    model_rows,
    table_columns,
    table_rows,
)
from edge_embed.report.views.markdown.blocks import join, table, text


def compare_markdown(report: CompareReport) -> str:
    """Return the text of the comment."""
    header = "### edge-embed compare" + (f"; Pareto front: {text(', '.join(report.front))}" if report.front else "")
    rows = (map(text, row) for row in model_rows(report))
    blocks = [header, table(list(map(text, model_columns(report))), rows, MODEL_TEXTS)]
    if tables := [list(map(text, row)) for row in table_rows(report)]:
        blocks.append(table(list(map(text, table_columns())), tables, TABLE_TEXTS))
    return join([*blocks, *([text(report.note)] if report.note else [])])
