"""Comparison of models: every cell is under its column heading, in each form."""

import io
import re
from dataclasses import replace
from html import unescape

import pytest
from rich.console import Console

from edge_embed.report.results.compare import Candidate, CompareReport
from edge_embed.report.views.compare import model_columns, model_rows, table_columns, table_rows
from edge_embed.report.views.html.compare import compare_page
from edge_embed.report.views.markdown.compare import compare_markdown

SIZES = {"num_embeddings": 2000, "embedding_dim": 64, "packed_bytes": 4100, "ratio": 12.5}
TABLES = {
    "words": {"method": "dpq", "settings": {"num_codes": 16, "value_type": ""}, **SIZES},
    "tags": {"method": "tt", "settings": {"ranks": [1, 4, 1]}, **SIZES},
}
SMALL = Candidate(
    "small", "s.onnx", ("dpq", "tt"), 500, 400, 4000, 0.75, 0.8, {"portable body": 0.5}, "passed", "m", TABLES,
    {"words": {"1 uniform": 0.5, "4096 zipf": 1.25}},
)  # fmt: skip
LARGE = replace(SMALL, name="large", on_disk=1000, metric=None, model_metric=None, latency={"its base": 1.5}, times={})
BARE = replace(LARGE, name="bare", latency={}, tables={}, status="not run")


def _cells(line: str) -> list[str]:
    return [unescape(cell).strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("metric", ["m:accuracy", None])
@pytest.mark.parametrize("candidates", [(SMALL, LARGE, BARE), (BARE, LARGE), (SMALL,), (BARE,)])
def test_rows_have_cell_for_each_column(metric, candidates):
    report = CompareReport(metric, candidates)
    assert {len(row) for row in model_rows(report)} == {len(model_columns(report))}
    assert {len(row) for row in table_rows(report)} <= {len(table_columns())}


def test_figures_are_under_their_column_headings():
    report = CompareReport("m:accuracy", (SMALL, LARGE))
    small, large = (dict(zip(model_columns(report), row, strict=True)) for row in model_rows(report))
    assert (small["methods"], small["bytes on disk"], small["zipped"], small["ratio"]) == (
        "dpq, tt",
        "500",
        "400",
        "8.0x",
    )
    assert (small["m:accuracy"], small["training form"], small["front"]) == ("0.75", "0.8", "yes")
    assert (small["time / portable body"], small["time / its base"]) == ("0.5", "")
    assert (large["m:accuracy"], large["front"], large["checks"]) == ("", "", "passed")
    assert (large["time / portable body"], large["time / its base"]) == ("", "1.5")


def test_tables_list_settings_and_sizes():
    report = CompareReport(None, (SMALL, BARE))
    words, tags = (dict(zip(table_columns(), row, strict=True)) for row in table_rows(report))
    assert (words["model"], words["table"], words["rows x columns"]) == ("small", "words", "2,000 x 64")
    assert (words["settings"], words["bytes"], words["ratio"]) == ("num_codes=16", "4,100", "12.5x")
    assert (words["time / dense"], tags["time / dense"]) == ("0.5 to 1.25", "")
    assert tags["settings"] == "ranks=1x4x1"


def test_markdown_has_cells_of_report_and_aligns_figures_right():
    report = CompareReport("m:accuracy", (SMALL, LARGE, BARE))
    models, tables = re.findall(r"(?:^\|.*\n)+", compare_markdown(report), re.MULTILINE)
    for text, head, rows, words in (
        (models, model_columns(report), model_rows(report), 2),
        (tables, table_columns(), table_rows(report), 5),
    ):
        found = list(map(_cells, text.splitlines()))
        assert found[1] == ["---"] * words + ["---:"] * (len(head) - words)
        assert [found[0], *found[2:]] == [list(head), *map(list, rows)]


def test_page_has_cells_of_report():
    report = CompareReport("m:accuracy", (SMALL, LARGE, BARE))
    found = [unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", compare_page(report), re.DOTALL)]
    wanted = [cell for rows in (model_rows(report), table_rows(report)) for row in rows for cell in row]
    for cell in wanted:
        assert cell in found
    assert compare_page(report).count("num_codes=16") == 2  # once for each model with that table


def test_terminal_shows_all_models_and_tables_if_any():
    def shown(*candidates: Candidate) -> str:
        out = io.StringIO()
        CompareReport(None, candidates).show(Console(file=out, width=150))
        return out.getvalue()

    assert all(name in shown(SMALL, LARGE, BARE) for name in ("small", "large", "bare", "words", "tags"))
    assert "rows x columns" in shown(SMALL)
    assert "rows x columns" not in shown(BARE)


def test_note_states_cause_of_missing_latency():
    broken = replace(BARE, name="broken", status="failed")
    note = CompareReport("m:accuracy", (SMALL, BARE, broken)).note
    assert "Got no latency from a failed report (broken), expected one that passed: repair the failures" in note
    assert "Latency was not measured for bare: use the report of" in note
    assert "latency" not in CompareReport("m:accuracy", (SMALL,)).note.lower()
