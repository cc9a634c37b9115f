"""Makes a web page with a static sentence encoder: MiniLM distilled into one table, which DPQ compresses.

Usage: python samples/make_sentence_page.py --output build/sentence_page
"""

import csv
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
import torch
from datasets import unpacked
from model2vec import StaticModel
from options import data_option, make_folder
from rich.console import Console
from rich.table import Table
from sentence_page.distil import distil, frequencies, plain
from sentence_page.pages import MOST_BYTES, page_bytes, write_page
from sentence_page.quality import Quality, Rows, measure, simple_tables
from text_classifier.sentences import SST2
from tokenizers import Tokenizer
from torch import nn

import edge_embed
from edge_embed.errors import EdgeEmbedError
from edge_embed.files import new_folder
from edge_embed.packages.package import make_package
from edge_embed.packed import PackedDPQ

_BUILD = Path(__file__).parents[1] / "build"
_MARK = "encoder.js"  # identifies folders that are replaced
_GROUPS, _CODES = 64, 256
_TIME_LIMIT = 600
FOLDER = click.Path(file_okay=False, path_type=Path)


class Rowwise(nn.Module):
    """Lookup of a table, which is all that is compressed."""

    def __init__(self, rows: Rows) -> None:
        super().__init__()
        self.tokens = nn.Embedding.from_pretrained(torch.from_numpy(rows))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return rows [..., columns] of ids [...]."""
        rows: torch.Tensor = self.tokens(ids)
        return rows


@click.command()
@click.option("--model", type=FOLDER, help="Folder of a model2vec model. Default: MiniLM is distilled.")
@click.option("--package", type=FOLDER, help="Folder of edge-embed package --platform web. Default: it is made.")
@click.option("--output", "-o", type=FOLDER, default=_BUILD / "sentence_page", help="Folder, which is replaced.")
@data_option(f"Folder with {SST2}.tar.xz, whose sentences are compared. Without it, the quality is not measured.")
def main(model: Path | None, package: Path | None, output: Path, data: Path | None) -> None:
    """Write the folder of the page; any web server can serve it. The exit code is 1 if it exceeds 3,000,000 bytes."""
    try:
        encoder = distil() if model is None else StaticModel.from_pretrained(model)
        words = plain(encoder.tokenizer)
        dense = np.asarray(encoder.embedding, np.float32)
        table = compress(dense)
        if package is None:
            make_folder(_BUILD)
            package = _BUILD / "edge-embed-web"
            make_package("web", package, force=True, time_limit=_TIME_LIMIT, progress=lambda *_: None)
        make_folder(output.parent)
        with new_folder(output, _MARK, force=True) as folder:
            write_page(folder, words, table, package)
    except EdgeEmbedError as error:
        raise click.ClickException(str(error)) from error
    total = print_bytes(output)
    if data is not None:
        print_quality(compare(dense, table, words, data))
    if total > MOST_BYTES:
        raise click.ClickException(f"got {total:,} bytes, expected at most {MOST_BYTES:,}: use a smaller vocabulary")


def compress(dense: Rows) -> PackedDPQ:
    """Return a packed table with 64 codes of 8 bits a row; frequent tokens weigh more."""
    counts = torch.from_numpy(frequencies(len(dense)))
    small, _ = edge_embed.compress(
        Rowwise(dense), "dpq", counts={"tokens": counts}, num_codes=_CODES, num_groups=_GROUPS, value_type="float16"
    )
    layer = small.get_submodule("tokens")
    assert isinstance(layer, edge_embed.DPQEmbedding)
    return layer.to_packed()


def compare(dense: Rows, table: PackedDPQ, words: Tokenizer, data: Path) -> list[Quality]:
    """Compare sentence vectors of the packed table and of simple tables with those of the dense one."""
    with unpacked(data, SST2) as folder, (folder / "dev872.tsv").open(newline="", encoding="utf-8") as file:
        texts = [row["sentence"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    ids = known_ids(words, texts)
    size = sum(tensor.nbytes for tensor in table.tensors().values())
    rows = table.rows(np.arange(len(dense)))
    found = [measure(f"DPQ, {_GROUPS} groups of {_CODES} codes", size, rows, dense, ids)]
    others = simple_tables(dense, size).items()
    return found + [measure(name, bytes_, rows, dense, ids) for name, (rows, bytes_) in others]


def known_ids(words: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return the ids of each text, without unknown tokens."""
    unknown = words.token_to_id(words.model.unk_token) if words.model.unk_token else None
    return [[id_ for id_ in each.ids if id_ != unknown] for each in words.encode_batch(texts)]


def print_bytes(folder: Path) -> int:
    """Print the bytes of each part, and return their sum."""
    sizes = page_bytes(folder)
    table = Table("file", title=str(folder))
    table.add_column("bytes", justify="right")
    for name, size in [*sizes.items(), ("all", sum(sizes.values()))]:
        table.add_row(name, f"{size:,}")
    Console().print(table)
    return sum(sizes.values())


def print_quality(found: Sequence[Quality]) -> None:
    """Print a row for each table."""
    table = Table("table", title="sentence vectors beside those of the dense table")
    for column in ("bytes", "mean cosine", "rank correlation"):
        table.add_column(column, justify="right")
    for each in found:
        table.add_row(each.name, f"{each.bytes:,}", f"{each.cosine:.4f}", f"{each.rank_correlation:.4f}")
    Console().print(table)


if __name__ == "__main__":
    main()
