"""One use of one table for all contenders: results are compared, then all contenders run in rounds."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edge_embed.bench.caches import eviction_bytes, evictor
from edge_embed.bench.figures import cpu_clock, figure_of, median
from edge_embed.bench.grid import Grid
from edge_embed.bench.least_work import work
from edge_embed.bench.peers.listed import EMPTY, OURS, PEERS
from edge_embed.bench.peers.peer import Answering, Bind, Peer
from edge_embed.bench.tables import BenchTable, LeftOutError
from edge_embed.bench.tflite_process import CLOCKS
from edge_embed.bench.uses import BenchUse, CacheState, TopK
from edge_embed.errors import EdgeEmbedError, ParityError
from edge_embed.exporters.onnx.session_memory.method import session_bytes
from edge_embed.report.results.bench import Figure, Measurement
from edge_embed.validation.ids import Distribution
from edge_embed.validation.timing import Feeds, Times, time_rounds

_WARMUP = 2
# Relative to the largest number: float32 sums of a thousand terms differ by this, and float16 by its rounding.
_TOLERANCES = {"float32": 1e-5, "float16": 2e-3}


class Contest:
    """One use of one table, with all contenders."""

    def __init__(self, table: BenchTable, use: BenchUse, grid: Grid, threads: int) -> None:
        self._table, self._use, self._grid, self._threads = table, use, grid, threads
        self._random = np.random.default_rng([grid.seed, 1])  # other numbers than those of the table
        (self._ours,) = [peer for peer in OURS if peer.fits(table, use)]
        (self._empty,) = [peer for peer in EMPTY if peer.fits(table, use)]
        self._peers = [peer for library in grid.peers for peer in PEERS[library] if peer.fits(table, use)]
        self._opened: dict[str, Bind] = {}
        self._reasons: dict[str, str] = {}  # reasons of contenders that are left out
        for peer in (self._ours, self._empty, *self._peers):
            try:
                self._opened[peer.name] = peer.opened(table, use, threads)
            except LeftOutError as error:
                self._reasons[peer.name] = str(error)
        if self._ours.name in self._reasons:
            raise EdgeEmbedError(f"{table.name}, {use.words}: {self._reasons[self._ours.name]}")

    def measure(self, batch: int, ids: Distribution, cache: CacheState) -> Measurement:
        """Time all contenders at one batch size.

        Raises:
            ParityError: if our own numbers are wrong.
        """
        packed, use = self._table.packed, self._use
        calls = use.calls(batch, cache)

        def draw() -> list[Feeds]:
            return [use.draw(packed, self._random, ids, batch) for _ in range(calls)]

        feeds = draw()
        bound = {name: bind(feeds[0], calls) for name, bind in self._opened.items()}
        errors, reasons = self._checked(bound, feeds)
        times = time_rounds(
            {name: contender for name, contender in bound.items() if name not in reasons},
            draw,
            self._grid.rounds,
            _WARMUP,
            self._random,
            **self._clocks(cache),
        )
        peers = [
            Figure(peer.name, peer.what, reason=reasons[peer.name])
            if peer.name in reasons
            else self._figure(peer, times, errors[peer.name], batch)
            for peer in self._peers
        ]
        least, seconds = work(packed, use, batch), median(times[self._ours.name].cpu)
        return Measurement(
            table=self._table.name,
            method=packed.method,
            num_embeddings=packed.num_embeddings,
            embedding_dim=packed.embedding_dim,
            packed_bytes=packed.nbytes,
            session_bytes=session_bytes(packed.method, packed.shape, use.operator, self._table.memory_bytes),
            dense_bytes=self._table.dense_bytes,
            use=use.words,
            k=use.k if isinstance(use, TopK) else None,
            batch=batch,
            items=use.items,
            ids=ids,
            cache=cache,
            threads=self._threads,
            operations=least.operations,
            bytes=least.bytes,
            gigaflops=least.operations / seconds / 1e9,
            gigabytes_per_second=least.bytes / seconds / 1e9,
            ours=self._figure(self._ours, times, errors[self._ours.name], batch),
            peers=tuple(peers),
        )

    def _clocks(self, cache: CacheState) -> dict[str, Callable[[], Any]]:
        """Return the clocks, and the preparation of each call."""
        if self._use.elsewhere:
            CLOCKS.evict = eviction_bytes() if cache == "cold" else 0
            return {"cpu_clock": lambda: CLOCKS.cpu, "wall_clock": lambda: CLOCKS.wall}
        return {"cpu_clock": cpu_clock(self._threads), "before": evictor(cache)}

    def _checked(
        self, bound: Mapping[str, Answering], feeds: Sequence[Feeds]
    ) -> tuple[dict[str, float], dict[str, str]]:
        """Return the error of each contender, and the reasons not to time some."""
        errors, reasons = {}, dict(self._reasons)
        expected = self._use.expected(self._table.packed, feeds[-1])
        tolerance = _TOLERANCES[self._table.packed.row_type]
        for peer in (self._ours, *(peer for peer in self._peers if peer.name in bound)):
            contender = bound[peer.name]
            contender.set_inputs(feeds)
            contender.run()
            got = contender.results()
            errors[peer.name] = error = self._use.error(expected, got) if got else math.nan
            if got and peer.exact and not error <= tolerance:  # also fails NaN
                reasons[peer.name] = f"got error {error:.0e}, expected at most {tolerance:.0e} of the largest number"
        if self._ours.name in reasons:
            raise ParityError(f"{self._table.name}, {self._use.words}: {self._ours.name}: {reasons[self._ours.name]}")
        return errors, reasons

    def _figure(self, peer: Peer, times: Mapping[str, Times], error: float, batch: int) -> Figure:
        empty = median(times[self._empty.name].cpu) if peer.by_empty_call else None
        own, ours = times[peer.name], times[self._ours.name]
        return figure_of(peer.name, peer.what, own, ours, batch, self._random, error=error, empty=empty)
