"""Grid of the benchmark: every combination of the requested values."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np

from edge_embed.bench.method import BenchMethod
from edge_embed.bench.peers.listed import PEERS
from edge_embed.bench.uses import IDS_A_BAG, TFLITE_USES, USES, BenchUse, CacheState, Logits, TopK, check_use
from edge_embed.errors import BadInputError, suggested
from edge_embed.exporters.onnx.session_memory.method import memory_uses
from edge_embed.inspection.inspect import is_tflite_file
from edge_embed.methods import Parts
from edge_embed.packed.packed_form import PackedTable, Use
from edge_embed.packed.sizes import MAX_SIZE, check_count
from edge_embed.packed.topk import MAX_K, check_k
from edge_embed.validation.ids import Distribution

_METHODS: Parts[BenchMethod] = Parts("bench")
_SIZES = ("rows", "dim", "codes", "groups", "anchors", "nonzeros", "rank")
_OF_TABLES = (*_SIZES, "memory_megabytes")
_WORDS: Mapping[str, tuple[str, ...]] = {
    "method": tuple(_METHODS),
    "use": tuple(USES),
    "ids": get_args(Distribution),
    "cache": get_args(CacheState),
    "peers": tuple(PEERS),
}
# The runtimes of TFLite files are extras, so their uses are measured only on request.
_OF_TFLITE = tuple(use.name for use in TFLITE_USES)
_USUAL = tuple(name for name in USES if name not in _OF_TFLITE)
_USUAL_OF_TFLITE = tuple(use.name for use in TFLITE_USES if not use.elsewhere)
_FEW_ROWS = 64


@dataclass(frozen=True)
class MeasuredTable:
    """Table to measure, made when it is needed, with its uses, the session memory and its layout."""

    name: str
    method: str
    make: Callable[[], PackedTable]
    uses: tuple[BenchUse, ...]
    memory_bytes: int | None = None
    layout: str | None = None


@dataclass(frozen=True)
class Grid:
    """Lists of values; every combination is measured. An empty list is filled by what suits each use.

    Attributes:
        method: names of methods with random tables for the benchmark.
        use: ``rows``, ``bag``, ``logits``, ``topk``, ``kernel``; for TFLite files ``litert``, ``litert-bag``,
            ``tflite-runtime``, ``tflite-runtime-bag``.
        rows: n; by default 100,000, and 32,768 for logits and topk.
        dim: d.
        codes: K of DPQ.
        groups: D of DPQ; by default a quarter of the columns.
        anchors: A of ANT.
        nonzeros: m of ANT.
        rank: rank of TT.
        memory_megabytes: session memory in MiB for a table of TT or DPQ; empty for the default.
        k: number of the largest logits that topk finds.
        batch: ids or hidden states per call.
        ids: ``uniform``, ``zipf``.
        cache: ``warm``, ``cold``.
        peers: libraries to compare with.
        threads: threads of a call, in every library.
        rounds: number of rounds in the figures.
        seed: seed of tables, ids and the order of contenders.

    Raises:
        BadInputError: if a value is invalid.
    """

    method: tuple[str, ...] = _WORDS["method"]
    use: tuple[str, ...] = _USUAL
    rows: tuple[int, ...] = ()
    dim: tuple[int, ...] = (256,)
    codes: tuple[int, ...] = (16,)
    groups: tuple[int, ...] = ()
    anchors: tuple[int, ...] = (100,)
    nonzeros: tuple[int, ...] = (8,)
    rank: tuple[int, ...] = (16,)
    memory_megabytes: tuple[int, ...] = ()
    k: tuple[int, ...] = (10,)
    batch: tuple[int, ...] = ()
    ids: tuple[Distribution, ...] = get_args(Distribution)
    cache: tuple[CacheState, ...] = ("warm",)
    peers: tuple[str, ...] = _WORDS["peers"]
    threads: tuple[int, ...] = (1,)
    rounds: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known in _WORDS.items():
            for word in getattr(self, name):
                if word not in known:
                    hint = suggested(str(word), known)
                    raise BadInputError(f"{name}: got {word!r:.80}, {hint}expected some of {', '.join(known)}")
        for name in (*_SIZES, "batch"):
            for number in getattr(self, name):
                check_count(name, number)
        if self.memory_megabytes and set(self.use) <= set(_OF_TFLITE):
            raise BadInputError(
                "memory_megabytes: got a value for TFLite files, which use no session memory; leave it out"
            )
        for number in self.memory_megabytes:
            check_count("memory_megabytes", number, least=0, most=MAX_SIZE >> 20)
        for number in self.batch if {name for name in self.use if name.endswith("bag")} else ():
            if number > IDS_A_BAG and number % IDS_A_BAG:
                raise BadInputError(f"batch: got {number}, expected a multiple of {IDS_A_BAG}, the ids of a bag")
        for number in self.threads:
            check_count("threads", number, most=os.cpu_count() or 1)
        for number in self.k:
            check_k(number, MAX_K)

    @classmethod
    def parse(cls, preset: str | None, file: Path | None, **given: Any) -> "Grid":
        """Return the grid of values from the command line.

        Args:
            preset: name of the grid that the given values change; None for the grid of default values.
            file: file whose tables are measured, which excludes options of random tables; None for random tables. By
                default the tables of a TFLite file are measured in LiteRT.
            given: fields of the grid: lists as text with commas, None if not given.

        Raises:
            BadInputError: if a value is invalid.
        """
        values = {name: parsed(name, value) for name, value in given.items() if value is not None}
        for name in values:
            if file is not None and name in _OF_TABLES:
                raise BadInputError(
                    f"{name}: got a value and a file, but the option is for random tables; leave one of them out"
                )
        if file is not None and "use" not in values and is_tflite_file(file):
            values["use"] = _USUAL_OF_TFLITE
        return replace(PRESETS[preset] if preset else cls(), **values)

    def subjects(self) -> list[MeasuredTable]:
        """Return all random tables.

        Raises:
            BadInputError: if sizes make no table, or memory is given and no session uses any for them.
        """
        found: list[MeasuredTable] = []
        for method, dim in product(self.method, self.dim):
            names, make = _METHODS[method].sizes, _METHODS[method].random_table
            values = [getattr(self, name) or (max(1, dim // 4),) for name in names]  # only groups can be empty
            for settings in product(*values):
                make(np.random.default_rng(0), _FEW_ROWS, dim, *settings)  # refused now, not after minutes
                words = " ".join(f"{name}={value}" for name, value in zip(names, settings, strict=True))
                for n, uses in self._uses_by_rows().items():
                    table = partial(_made, make, self.seed, n, dim, *settings)
                    found += self._with_memory(
                        MeasuredTable(f"{method} {words}", method, table, uses), memory_uses(method)
                    )
        if self.memory_megabytes and all(subject.memory_bytes is None for subject in found):
            numbers = ", ".join(map(str, self.memory_megabytes))
            raise BadInputError(
                f"memory_megabytes: got {numbers}, expected none, as no measured use has session memory; "
                "measure rows of TT or output layers of DPQ, or leave it out"
            )
        return found

    def _with_memory(self, subject: MeasuredTable, memory_uses: tuple[Use, ...]) -> Iterator[MeasuredTable]:
        """Yield the table with each amount of session memory, if a measured use can take some."""
        if not self.memory_megabytes or not any(
            use.operator in memory_uses and use.name not in _OF_TFLITE for use in subject.uses
        ):
            yield subject
            return
        for megabytes in self.memory_megabytes:
            yield replace(subject, name=f"{subject.name} memory-megabytes={megabytes}", memory_bytes=megabytes << 20)

    @property
    def uses(self) -> tuple[BenchUse, ...]:
        """Return the requested uses, topk once for each k."""
        by_name = {name: [use] for name, use in USES.items()} | {"topk": [TopK(k) for k in self.k]}
        return tuple(use for name in self.use for use in by_name[name])

    def _uses_by_rows(self) -> dict[int, tuple[BenchUse, ...]]:
        found: dict[int, tuple[BenchUse, ...]] = {}
        for use in self.uses:
            for n in self.rows or (32_768 if isinstance(use, Logits) else 100_000,):
                check_use(use, n)
                found[n] = (*found.get(n, ()), use)
        return found

    def calls(self, use: BenchUse) -> Iterator[tuple[int, Distribution, CacheState]]:
        """Yield batch, ids and state of the caches of every measurement of a use."""
        distributions = [ids for ids in self.ids if ids in use.distributions] or use.distributions
        yield from product(self.batch or use.batches, distributions, self.cache)


PRESETS: Mapping[str, Grid] = {
    # Lookups in a table that fits into the caches and in one that does not, with warm and cold caches.
    "lookup": Grid(
        ("dpq",), use=("rows", "kernel"), rows=(30_000, 1_000_000), ids=("uniform",), cache=("warm", "cold")
    ),
    # Output layers of a small and of a large vocabulary.
    "output-layer": Grid(
        ("dpq",), use=("logits", "topk"), rows=(32_768, 268_000), dim=(512,), groups=(64,), batch=(1, 8)
    ),
}


def _made(make: Callable[..., PackedTable], seed: int, n: int, *sizes: int) -> PackedTable:
    return make(np.random.default_rng(seed), n, *sizes)


def parsed(name: str, value: Any) -> Any:
    """Return the values of an option that is a list with commas; return other values unchanged."""
    if not isinstance(value, str):
        return value
    words = tuple(word.strip() for word in value.split(","))
    if name in _WORDS:
        return words
    try:
        return tuple(int(word) for word in words)
    except ValueError as error:
        raise BadInputError(f"{name}: got {value!r:.80}, expected whole numbers separated by commas") from error
