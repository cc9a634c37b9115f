"""Peers in runtimes of TFLite: operators of a file, the delegate, and ``GATHER`` of a dense table."""

import tempfile
from functools import partial
from pathlib import Path

from edge_embed.bench.peers.peer import Bind, Peer
from edge_embed.bench.tables import BenchTable, LeftOutError
from edge_embed.bench.tflite_process import WorkerCalls, WorkerModel
from edge_embed.bench.uses import TFLITE_USES, Bag, BenchUse
from edge_embed.errors import BadInputError
from edge_embed.exporters.tflite import bag
from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.exporters.tflite.table_uses import METHODS
from edge_embed.packed.packed_form import Use
from edge_embed.targets.target import NotRunError
from edge_embed.targets.tflite.litert import LiteRtModel
from edge_embed.validation.tflite.litert_model import BoundModel
from edge_embed.validation.tflite.tables import write_packed

_USES = tuple(use.name for use in TFLITE_USES)
_FILE = "file.tflite"
_INPUTS = "inputs are set before timing if one call is timed, otherwise in the call"


def layout_of(table: BenchTable) -> str:
    """Return the layout of a table in its file, or the default layout."""
    return table.layout or METHODS[table.packed.method].choose(table.packed, "auto")


def _operators(
    table: BenchTable, use: BenchUse, threads: int, layout: str | None = None, delegate: bool = False
) -> Bind:
    inputs = {name: (kind.__name__, (-1,) * rank) for name, (kind, rank) in use.inputs.items()}
    kind: Use = "bag" if isinstance(use, Bag) else "rows"
    leading = (None, None, None, use.mode) if isinstance(use, Bag) else (None,)
    with tempfile.TemporaryDirectory() as folder:  # the file stays mapped after it is removed
        path = Path(folder) / _FILE
        has_kernel = write_packed(kind, table.packed, "table", layout or layout_of(table), inputs, leading, path)
        if delegate and not has_kernel:
            raise LeftOutError("the delegate does not support this type and layout of table")
        return _opened(use, path, threads, delegate)


def _delegate(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    return _operators(table, use, threads, delegate=True)


def _other_layout(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    own = layout_of(table)
    try:
        layout = METHODS[table.packed.method].choose(table.packed, "byte" if own == "pairs" else "pairs")
    except BadInputError as error:
        raise LeftOutError(str(error)) from error
    if layout == own:
        raise LeftOutError(f"the codes of this table support only the layout {own}")
    return _operators(table, use, threads, layout)


def _gather(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    graph = Graph()
    inputs = _inputs(graph, use)
    result = graph.gather(graph.table("dense", table.dense), inputs["ids"])
    if isinstance(use, Bag):
        result = bag.bags(graph, result, inputs["ids"], inputs["offsets"], None, use.mode, None)
    try:
        return _written(use, graph, result, threads)
    except BadInputError as error:  # a file of 2 GB
        raise LeftOutError(str(error)) from error


def _empty(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    graph = Graph()
    return _written(use, graph, graph.cast(_inputs(graph, use)["ids"], "int32"), threads)


def _inputs(graph: Graph, use: BenchUse) -> dict[str, Tensor]:
    return {name: graph.input(name, kind.__name__, (-1,) * rank) for name, (kind, rank) in use.inputs.items()}


def _written(use: BenchUse, graph: Graph, result: Tensor, threads: int) -> Bind:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / _FILE
        graph.write(path, {"result": result}, {})
        return _opened(use, path, threads, delegate=False)


def _opened(use: BenchUse, path: Path, threads: int, delegate: bool) -> Bind:
    if not use.elsewhere:
        return partial(BoundModel, LiteRtModel(path, delegate, threads))
    try:
        return partial(WorkerCalls, WorkerModel(path, delegate, threads))
    except NotRunError as error:
        raise LeftOutError(str(error)) from error


OPERATORS = Peer(
    "TFLite operators", f"the operators of a TFLite file; {_INPUTS}", _USES, _operators, by_empty_call=True
)
EMPTY = Peer("empty call", "one CAST of the ids", _USES, _empty, by_empty_call=True)
PEERS = (
    Peer("TFLite delegate", "the same file with the delegate", _USES, _delegate, by_empty_call=True),
    Peer(
        "TFLite other layout",
        "the other --tflite-table of DPQ: byte instead of pairs, or pairs instead of byte",
        _USES,
        _other_layout,
        methods=("dpq",),
        by_empty_call=True,
    ),
    Peer(
        "TFLite GATHER",
        "GATHER of the float32 table in the same runtime; for bags, followed by a reduction",
        _USES,
        _gather,
        by_empty_call=True,
    ),
)
