"""Results of models before and after a treatment: figures.json and results.md in one folder."""

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from claims import shown

from edge_embed.files import new_file
from edge_embed.report.views.markdown.blocks import table


def write_results(
    folder: Path, command: str, rows: Sequence[Mapping[str, Any]], markdown: Callable[[Mapping[str, Any]], str]
) -> None:
    """Replace both files, each at once.

    Args:
        folder: folder for them.
        command: command that makes them.
        rows: figures, one entry for each line of the report.
        markdown: function that returns the report of all results.
    """
    results = {"command": command, "machine": f"{platform.machine()}, torch {torch.__version__}", "rows": rows}
    _write(folder / "figures.json", json.dumps(results, indent=1) + "\n")
    _write(folder / "results.md", markdown(results))


def before_and_after(rows: Sequence[Mapping[str, Any]], figures: Sequence[str], treatment: str) -> str:
    """Return a table of the figures of each method ``before`` a treatment, and of their intervals ``after`` it."""
    columns = "model", "method", "bytes", *(f"{name}{which}" for name in figures for which in ("", f", {treatment}"))

    def cells(row: Mapping[str, Any]) -> list[str]:
        found = (cell for name in figures for cell in (f"{row['before'][name]:.4g}", shown(row["after"][name], "")))
        return [row["model"], row["method"], f"{row['bytes']:,}", *found]

    return table(columns, [*map(cells, rows)], texts=2)


def _write(path: Path, text: str) -> None:
    with new_file(path, force=True) as temporary:
        temporary.write_text(text, encoding="utf-8")
