"""Kernels of edge-embed-web beside the portable bodies in onnxruntime-web, in turns in a page of headless Chromium.

``python tests/benchmarks/web_kernels.py FOLDER`` reads the folder of ``edge-embed package --platform web``, and prints
a row for each call: medians and smallest times of 4,096 lookups and of one state of an output layer. Tables have 30,000
rows of 256 numbers.
"""

import json
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

from edge_embed.exporters.onnx.export import export_onnx
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.tied_output import TiedOutput
from edge_embed.layers.tt import TTEmbedding
from edge_embed.lowering.graph import lower_program
from edge_embed.program.capture import write_archive
from edge_embed.program.reader import read_program
from edge_embed.targets.web.browser import open_page
from edge_embed.targets.web.package import SCRIPTS, WASM, fetch_runtime

ROWS, COLUMNS, IDS, ROUNDS = 30_000, 256, 4096, 40
TIME_LIMIT = 600


class Output(nn.Module):
    """Output layer of a table."""

    def __init__(self, words: nn.Module) -> None:
        super().__init__()
        self.words, self.output = words, TiedOutput(words)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.output(states)


class LookUp(nn.Module):
    """Lookup of a table."""

    def __init__(self, words: nn.Module) -> None:
        super().__init__()
        self.words = words

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.words(ids)


def ant() -> nn.Module:
    """Return a table with about four anchors a row."""
    words = ANTEmbedding(ROWS, COLUMNS, 64)
    with torch.no_grad():
        words.transform.copy_(torch.rand(ROWS, 64) * (torch.rand(ROWS, 64) < 4 / 64))
    return words


TABLES = {
    "DPQ, 16 codes": lambda: DPQEmbedding(ROWS, COLUMNS, 16, 64, variant="vq"),
    "DPQ, 256 codes": lambda: DPQEmbedding(ROWS, COLUMNS, 256, 32, variant="vq"),
    "ANT": ant,
    "TT, rank 16": lambda: TTEmbedding(ROWS, COLUMNS, rank=16),
}
USES = {"lookup": (LookUp, torch.arange(8)), "logits": (Output, torch.zeros(1, COLUMNS))}


def main(package: Path) -> None:
    """Export the models, open the page, and print its times."""
    (archive,) = package.glob("edge-embed-web")
    runtime = fetch_runtime(TIME_LIMIT)
    with tempfile.TemporaryDirectory() as temporary:
        folder, jobs = Path(temporary), []
        for number, (table, make) in enumerate(TABLES.items()):
            for use, (module, example) in USES.items():
                with (folder / "model.pt").open("wb") as file:
                    write_archive(module(make()), file, (example,))
                name = f"{use}{number}.onnx"
                export_onnx(lower_program(read_program(folder / "model.pt")), folder / name, "never")
                jobs.append({"table": table, "use": use, "model": name})
        job = {"jobs": jobs, "rows": ROWS, "columns": COLUMNS, "ids": IDS, "rounds": ROUNDS}
        (folder / "job.json").write_text(json.dumps(job))
        files = {path.name: path for path in folder.iterdir()}
        files |= {f"edge-embed-web/{path.name}": path for path in archive.iterdir()}
        files |= {"ort.mjs": runtime / WASM.browser_entry, WASM.engine: runtime / WASM.engine}
        files |= {"page.html": SCRIPTS / "page.html", "page.mjs": Path(__file__).with_suffix(".mjs")}
        open_page(files, {"result.json": folder / "result.json"}, TIME_LIMIT)
        result = json.loads((folder / "result.json").read_text())
    print(result["browser"])
    print(f"{'':24}{'median of':>8}{ROUNDS:>3}{'':13}{'smallest':>16}")
    for row in result["rows"]:
        line = f"{row['table']:16}{row['use']:8}"
        for kernels, body in zip(row["kernels"], row["body"], strict=True):
            line += f"{kernels:8.2f}{body:8.2f} ms{body / kernels:6.1f}"
        print(line)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
