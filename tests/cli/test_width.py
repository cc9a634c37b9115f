"""How wide tables are, and that no name in them is cut or broken."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import nn

import edge_embed
from edge_embed.inspection.inspect import inspect_file
from edge_embed.report.shown import FoldedTable

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


def test_names_are_never_cut_in_tables():
    table = FoldedTable("table", "bytes")
    table.add_row(NAME, "1")
    out = io.StringIO()
    Console(file=out, width=30).print(table)
    assert "\u2026" not in out.getvalue()
    assert "".join(line[1:].split("\u2502")[0].strip() for line in out.getvalue().splitlines()[3:-1]) == NAME


@pytest.mark.parametrize("width", [40, 60, 80])
def test_inspect_shows_whole_words_where_the_table_is_wider_than_the_terminal(saved, width):
    out = io.StringIO()
    inspect_file(saved / "rows.pt").show(Console(file=out, width=width, force_terminal=True, no_color=True))
    words = out.getvalue().split()
    for word in ("K=16", "codes", "matches", "layout:"):
        assert word in words
    if width > len(NAME) + len("table: "):
        assert NAME in words
    assert max(map(len, out.getvalue().splitlines())) <= width + 40  # colours count


def test_a_table_of_rounded_rows_is_called_rows_as_compress_calls_it(saved):
    assert "rows (as dpq) frozen" in str(edge_embed.inspect(saved / "rows.pt"))


@pytest.mark.parametrize("columns", [None, "70", "200"])
def test_columns_of_the_environment_count_where_output_is_no_terminal(saved, tmp_path, columns):
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment |= {} if columns is None else {"COLUMNS": columns}
    line = ["compress", str(saved / "m.pt"), "-o", str(tmp_path / "c.pt"), "--method", "rows", "--bits", "8"]
    done = subprocess.run(
        [sys.executable, "-c", "from edge_embed.cli import run; run()", *line],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    widest = max(map(len, done.stdout.splitlines()))
    assert widest <= int(columns or 120)
    if columns == "70":
        assert widest > 60
    assert "\u2026" not in done.stdout
