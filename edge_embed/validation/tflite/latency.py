"""Latency of the lookups of a TFLite file in LiteRT, relative to a dense table: ``GATHER`` of the same float32 rows.

The file runs with built-in operators and with the delegate. All run in this process, on one thread, on the same ids.
"""

import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import numpy as np

from edge_embed.exporters.tflite.graph import Graph
from edge_embed.lowering.id_check import IdCheck
from edge_embed.report.results.validation import LatencyResult
from edge_embed.targets.tflite.litert import LiteRtModel
from edge_embed.targets.tflite.runtimes import LITERT
from edge_embed.validation import ids as random_ids
from edge_embed.validation.latency import LARGEST_DENSE
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.sizes import dense_bytes
from edge_embed.validation.table_call import IDS_AT_ONCE, TableCall
from edge_embed.validation.tflite.litert_model import BoundModel
from edge_embed.validation.tflite.tables import write_use
from edge_embed.validation.timing import ratio_of, ratios_of, time_rounds

METHOD = (
    "CPU clock of the running thread; time of the call in LiteRT, after its inputs are set; both in "
    "random order within each round, on the same new ids for every round; all rows were read once "
    "before; median ratio with 95 % "
    "bootstrap interval"
)
PEER = "dense GATHER"
_OURS, _DELEGATE = "file", "delegate"
_BATCHES = (1, 128, 4096)
_DISTRIBUTIONS: tuple[random_ids.Distribution, ...] = ("uniform", "zipf")


def runtime() -> str:
    """Return the name and version of the runtime for measurements."""
    return "no runtime" if LITERT.lacks() else f"ai-edge-litert {metadata.version('ai-edge-litert')}"


def not_run(table: str, reason: str) -> LatencyResult:
    """Return a result for a table that was not measured, with the reason."""
    return LatencyResult(f"table {table}", None, "any", PEER, None, None, None, None, reason)


def measure_rows(
    call: TableCall,
    layout: str,
    options: ValidationOptions,
    random: np.random.Generator,
    id_check: IdCheck | None = None,
) -> Iterator[LatencyResult]:
    """Measure the lookup of a table, for several numbers of ids."""
    name, n = f"table {call.table.name}", call.table.packed.num_embeddings
    if reason := _reason_against(call, options):
        yield not_run(call.table.name, reason)
        return
    with tempfile.TemporaryDirectory() as folder:
        like = {"ids": np.zeros(1, np.int64)}
        file = write_use(call, layout, like, Path(folder) / "file.tflite", id_check)
        files = {_OURS: file, _DELEGATE: file, PEER: _write_dense(call, Path(folder) / "dense.tflite")}
        for batch in _BATCHES:
            like = {"ids": np.zeros(batch, np.int64)}
            opened = {key: LiteRtModel(path, delegate=key == _DELEGATE) for key, path in files.items()}
            contenders = {key: BoundModel(model, like) for key, model in opened.items()}
            _touch(contenders, n, batch)
            for distribution in _DISTRIBUTIONS:
                times = time_rounds(
                    contenders,
                    lambda: [{"ids": random_ids.draw(random, distribution, n, (batch,))}],  # noqa: B023
                    options.iterations,
                    options.warmup,
                    random,
                )
                for subject, key in ((name, _OURS), (f"{name}, delegate", _DELEGATE)):
                    ours, peer = times[key].cpu, times[PEER].cpu
                    ratio, samples = ratio_of(ours, peer, random), tuple(map(float, ratios_of(ours, peer)))
                    figures = ratio.median, ratio.low, ratio.high, 1e6 * float(np.median(ours))
                    yield LatencyResult(subject, batch, distribution, PEER, *figures, "", samples)


def _reason_against(call: TableCall, options: ValidationOptions) -> str:
    if options.iterations == 0:
        return "no iterations were requested"
    if lacks := LITERT.lacks():
        return lacks[0].what
    size = dense_bytes(call.table)
    if size <= LARGEST_DENSE:
        return ""
    return f"the dense table has {size:,} bytes, which exceeds the limit of {LARGEST_DENSE:,}"


def _write_dense(call: TableCall, path: Path) -> Path:
    packed, graph = call.table.packed, Graph()
    blocks = range(0, packed.num_embeddings, IDS_AT_ONCE)
    rows = [packed.rows(np.arange(at, min(at + IDS_AT_ONCE, packed.num_embeddings))) for at in blocks]
    table = graph.table("dense", np.concatenate(rows).astype(np.float32, copy=False))
    graph.write(path, {"result": graph.gather(table, graph.input("ids", "int64", (-1,)))}, {})
    return path


def _touch(contenders: dict[str, BoundModel], n: int, batch: int) -> None:
    """Read every row once, because the first read of a mapped page costs more than the lookup."""
    for start in range(0, n, batch):
        ids = np.arange(start, start + batch) % n
        for contender in contenders.values():
            contender.set_inputs([{"ids": ids}])
            contender.run()
