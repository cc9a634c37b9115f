"""A comparison as Markdown: a table."""

from edge_embed.report.compare import MODEL_TEXTS, TABLE_TEXTS, CompareReport
from edge_embed.report.markdown.blocks import join, table, text


def compare_markdown(report: CompareReport) -> str:
    """The text of the comment."""
    header = "### edge-embed compare" + (f": worth choosing: {text(', '.join(report.front))}" if report.front else "")
    rows = (map(text, row) for row in report.rows())
    blocks = [header, table(list(map(text, report.columns())), rows, MODEL_TEXTS)]
    if tables := [list(map(text, row)) for row in report.table_rows()]:
        blocks.append(table(list(map(text, report.table_columns())), tables, TABLE_TEXTS))
    return join([*blocks, *([text(report.note)] if report.note else [])])
