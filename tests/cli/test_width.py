"""Width of printed tables: they fit the terminal, and no name in them is truncated."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from rich.console import Console
from torch import nn

import edge_embed
from edge_embed.cli import main
from edge_embed.gate.compare import compare_reports
from edge_embed.inspection.inspect import inspect_file
from edge_embed.report.results.compressed import CompressedTable, CompressReport
from edge_embed.report.views.bars import bars
from edge_embed.report.views.compare import model_rows, table_rows
from edge_embed.report.views.compressed_plot import draw
from edge_embed.report.views.exported import table_cells
from edge_embed.report.views.folded_table import FoldedTable
from edge_embed.report.views.markdown.validation import validation_markdown

NAME = "model.encoder.embeddings.word_embeddings"


class _Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.ModuleDict({"encoder": nn.ModuleDict({"embeddings": nn.ModuleDict()})})
        self.model["encoder"]["embeddings"]["word_embeddings"] = nn.Embedding(200, 16)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model["encoder"]["embeddings"]["word_embeddings"](ids)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("width")
    edge_embed.save(_Nested(), folder / "m.pt", example_inputs=torch.tensor([[1, 2, 3]]))
    edge_embed.compress(folder / "m.pt", "rows", bits=4, output=folder / "rows.pt")
    return folder


def _printed(shown: object, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(shown)
    return out.getvalue()


@pytest.mark.parametrize("width", [30, 60, 80, 200])
def test_tables_show_whole_words_at_each_width(width):
    """A word wider than the page is broken, but never truncated."""
    table = FoldedTable("table", "dense bytes", "packed (zipped)", title=f"{NAME}: sizes")
    table.add_row(NAME, "1,024,000", "101,056 (93,536)")
    printed = _printed(table, width)
    words = printed.replace("\u2502", " ").split()
    assert {"1,024,000", "101,056", "(93,536)"} <= set(words)
    assert max(map(len, printed.splitlines())) <= width
    if width >= 60:
        assert words.count(NAME) == 1
        assert f"{NAME}: sizes" in printed
    else:
        assert printed.replace("\n", "").count(NAME) == 2


@pytest.mark.parametrize("name", ["a[/b]", "a[red]b", ":smile:", "a\x1b[31mb", "a\nb"])
def test_names_in_reports_are_complete_and_do_not_control_terminal(name, tmp_path):
    table = CompressedTable(name, 200, 16, 1, reason="not among the given names")
    report = CompressReport((table,), 100, 100)
    for shown in (str(report), report._repr_html_().replace("&nbsp;", " ")):
        assert "".join(letter if letter.isprintable() else "?" for letter in name) in shown
        assert "\x1b" not in shown
    with bars() as progress:
        progress(name, 1, 2)


@pytest.mark.parametrize("name", ["a$b$", "$x", "a\x1b"])
def test_plot_accepts_any_table_name(name, tmp_path):
    pytest.importorskip("matplotlib", reason="the extra edge-embed[report] is not installed")
    model = nn.ModuleDict({"t": nn.Embedding(60, 8)})
    _, report = edge_embed.compress(nn.Sequential(model["t"]), "rows", bits=4)
    draw(CompressReport((replace(report.tables[0], name=name),), 1, 1), tmp_path / "tried.svg")
    assert (tmp_path / "tried.svg").stat().st_size


@pytest.mark.parametrize("width", [40, 60, 80])
def test_inspect_shows_whole_words_on_narrow_terminal(saved, width):
    out = io.StringIO()
    inspect_file(saved / "rows.pt").show(Console(file=out, width=width, force_terminal=True, no_color=True))
    words = out.getvalue().split()
    for word in ("K=16", "codes", "matches", "layout:"):
        assert word in words
    if width > len(NAME) + len("table: "):
        assert NAME in words
    assert max(map(len, out.getvalue().splitlines())) <= width + 40  # escape codes of colours count too


def test_inspect_names_method_rows_as_compress_does(saved):
    assert "rows (as dpq) frozen" in str(edge_embed.inspect(saved / "rows.pt"))


def test_reports_name_methods_rows_and_dpq_as_compress_does(saved, tmp_path):
    """The JSON reports keep the method of the packed form."""
    edge_embed.compress(saved / "m.pt", "dpq", num_codes=16, num_groups=8, output=tmp_path / "dpq.pt")
    for name, model, expected in (("rows", saved / "rows.pt", "rows (as dpq)"), ("dpq", tmp_path / "dpq.pt", "dpq")):
        exported = edge_embed.export(model, "onnx", tmp_path / f"{name}.onnx")
        assert (exported.tables[0].method, exported.tables[0].settings["num_codes"]) == ("dpq", 16)
        assert table_cells(exported.tables[0])[1] == expected
        report = edge_embed.validate(model, tmp_path / f"{name}.onnx", iterations=1)
        assert f"({expected}, 200 x 16)" in str(report)
        assert f", {expected} |" in validation_markdown(report)
        (tmp_path / f"{name}.json").write_text(json.dumps(report.to_json()))
    compared = compare_reports([tmp_path / "rows.json", tmp_path / "dpq.json"])
    assert {row[0]: row[1] for row in model_rows(compared)} == {"rows": "rows (as dpq)", "dpq": "dpq"}
    assert {row[0]: row[2] for row in table_rows(compared)} == {"rows": "rows (as dpq)", "dpq": "dpq"}


@pytest.mark.parametrize("columns", [None, "70", "200"])
def test_columns_variable_sets_width_without_terminal(saved, tmp_path, columns):
    line = ["compress", str(saved / "m.pt"), "-o", str(tmp_path / "c.pt"), "--method", "rows", "--bits", "8"]
    done = CliRunner(env={"COLUMNS": columns}).invoke(main, line)
    assert done.exit_code == 0, done.output
    widest = max(map(len, done.stdout.splitlines()))
    assert widest <= int(columns or 120)
    if columns == "70":
        assert widest > 60
    assert "\u2026" not in done.stdout


@pytest.mark.parametrize("columns", ["0", "wide"])
def test_invalid_columns_variable_is_ignored(saved: Path, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    expected = CliRunner().invoke(main, ["inspect", str(saved / "m.pt")]).stdout
    monkeypatch.setenv("COLUMNS", columns)
    assert CliRunner().invoke(main, ["inspect", str(saved / "m.pt")]).stdout == expected
