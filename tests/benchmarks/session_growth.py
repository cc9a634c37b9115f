"""Memory of sessions of large tables: ``python tests/benchmarks/session_growth.py [MiB...]`` prints a Markdown table.

Every figure is from a process of its own, without the growth of a session of an empty model. Each table is exported
with external data, and has random codes. A lookup reads 256 rows, and an output layer reads every row for one state.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from onnx import TensorProto, helper, save
from torch import nn

import edge_embed
from edge_embed.layers.scaled_dpq import ScaledDPQEmbedding
from edge_embed.packed.ant import PackedANT
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.packed_form import PackedTable
from edge_embed.runtime.library import get_library_path
from edge_embed.validation.fresh_process import Fresh, measure_fresh

DIM, ROW_BYTES, LOOKUPS, ANCHORS, NONZEROS = 1024, 256, 256, 32, 8
METHODS = ("dpq, 4 bits", "dpq, 8 bits", "rows, 4 bits", "ant")
MOST_OF_ALL = 64  # MiB; larger tables, whose exports take minutes, have only the first method
USES, SIDES = ("rows", "rows and logits"), ("library", "body")


class LookUp(nn.Module):
    """A table."""

    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.words = table

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.words(ids)


class Tied(LookUp):
    """A table that is an output layer too."""

    def __init__(self, table: nn.Module) -> None:
        super().__init__(table)
        self.output = edge_embed.TiedOutput(table)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.output(self.words(ids)[:, -1])


@dataclass(frozen=True)
class Growth:
    """Growth of a process by a session, in bytes, without that by a session of an empty model."""

    opened_private: int
    private: int
    opened_resident: int
    resident: int

    @classmethod
    def between(cls, empty: Fresh, found: Fresh) -> "Growth":
        names = ("opened_private", "private", "opened_resident", "resident")
        return cls(*(getattr(found, name) - getattr(empty, name) for name in names))


def make_table(method: str, nbytes: int) -> PackedTable:
    """Return a table of random rows whose rows have about ``nbytes`` bytes."""
    random = np.random.default_rng(0)
    if method == "ant":
        rows = nbytes // (5 * NONZEROS)
        transform = np.zeros((rows, ANCHORS), np.float32)
        transform[:, :NONZEROS] = random.uniform(0.5, 1, (rows, NONZEROS))
        return PackedANT.from_dense(transform, random.standard_normal((ANCHORS, DIM)).astype(np.float32), None)
    num_codes = 256 if method == "dpq, 8 bits" else 16
    row_bytes = DIM // 2 if method == "rows, 4 bits" else ROW_BYTES
    groups = row_bytes * (1 if num_codes == 256 else 2)
    codes = random.integers(0, 256, (nbytes // row_bytes, row_bytes), np.uint8)
    if method != "rows, 4 bits":
        return PackedDPQ(codes, random.standard_normal((groups, num_codes, DIM // groups)).astype(np.float32), groups)
    values = np.arange(-8, 8, dtype=np.int8).reshape(1, num_codes, 1)  # as `compress --method rows --bits 4`
    scales = {"row_scale_codes": np.zeros(len(codes), np.uint8), "row_scales": np.ones(1, np.float32)}
    return PackedDPQ(codes, values, groups, value_scales=np.ones(1, np.float32), **scales)


def export(table: PackedTable, use: str, path: Path) -> None:
    """Write a model of a table with external data."""
    if isinstance(table, PackedANT):
        layer: nn.Module = edge_embed.ANTEmbedding.from_packed(table)
    else:
        plain = table.row_scales is None  # type: ignore[attr-defined]
        layer = (edge_embed.DPQEmbedding if plain else ScaledDPQEmbedding).from_packed(table)  # type: ignore[arg-type]
    model = (LookUp if use == USES[0] else Tied)(layer).eval()
    edge_embed.export(model, "onnx", path, torch.tensor([[1, 2]]), external_data="always", open=False)


def measure(path: Path, use: str, num_rows: int, side: str, cold: bool = False) -> Growth:
    """Measure a session with the library or the portable body; ``cold`` removes the file from the page cache first."""
    library = get_library_path() if side == "library" else None
    ids = np.random.default_rng(1).integers(0, num_rows, (1, LOOKUPS if use == USES[0] else 1))
    empty = path.with_name("empty.onnx")
    nodes, kind = [helper.make_node("Identity", ["ids"], ["same"])], TensorProto.INT64
    ends = ([helper.make_tensor_value_info(name, kind, [None, None])] for name in ("ids", "same"))
    opsets = [helper.make_opsetid("", 18)]
    save(helper.make_model(helper.make_graph(nodes, "empty", *ends), opset_imports=opsets, ir_version=10), empty)
    if cold:
        for file in path.parent.glob(f"{path.name}*"):
            drop_from_cache(file)
    feeds = {"ids": ids}
    return Growth.between(measure_fresh(empty, library, feeds), measure_fresh(path, library, {_input(path): ids}))


def drop_from_cache(path: Path) -> None:
    """Remove a file from the page cache, as after a restart of the device."""
    with path.open("rb") as file:
        os.fsync(file)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _input(path: Path) -> str:
    (declared,) = edge_embed.create_session(path).get_inputs()
    return str(declared.name)


def figures(nbytes: int, methods: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield a row of the printed table for each method, use, session and state of the page cache."""
    for method in methods:
        table = make_table(method, nbytes)
        for use in USES:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.onnx"
                export(table, use, path)
                for cold in (False, True) if use == USES[0] else (False,):
                    for side in SIDES:
                        found = measure(path, use, table.num_embeddings, side, cold)
                        state = ("cold" if cold else "written") if use == USES[0] else "any"
                        yield row(f"{nbytes >> 20} MiB, {method}", use, side, state, found, table.nbytes)


def row(table: str, use: str, side: str, cache: str, found: Growth, packed: int) -> tuple[str, ...]:
    """Return the cells of one measurement, in MiB and as multiples of the packed bytes."""
    numbers = (found.opened_private, found.private, found.opened_resident, found.resident)
    shares = (f"{found.private / packed:.1%}", f"{found.resident / packed:.2f}")
    return (table, use, side, cache, *(f"{number / 2**20:.1f}" for number in numbers), *shares)


def main(sizes: list[int]) -> None:
    columns = ("table", "use", "session", "page cache", "private, opened", "private, first call", "resident, opened",
               "resident, first call", "private / packed", "resident / packed")  # fmt: skip
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    for size in sizes:
        for cells in figures(size << 20, METHODS if size <= MOST_OF_ALL else METHODS[:1]):
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [64, 256])
