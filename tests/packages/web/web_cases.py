"""Packed tables of every method and type, and results of the native library for every use of them.

``python web_cases.py FOLDER`` writes ``tables.safetensors`` and ``calls.json``. It is a process of its own, because
EDGE_EMBED_FORCE_ISA counts when the library is loaded.
"""

import base64
import ctypes
import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.bench.c_table import table_of
from edge_embed.bench.native import operators
from edge_embed.packed import PackedANT, PackedDPQ, PackedTable, PackedTT, save_tables

HERE = Path(__file__).parent
USES = {"lookup": 0, "bag": 1, "logits": 2, "topk": 3}
MODES = ("sum", "mean", "max")
K = 7
_SIZE, _INT64, _INT32, _POINTER = ctypes.c_size_t, ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p


class _Ids(ctypes.Structure):
    _fields_ = [("data", _POINTER), ("count", _INT64), ("type", _INT32)]


class _Bags(ctypes.Structure):
    _fields_ = [("offsets", _POINTER), ("num_bags", _INT64), ("sample_weights", _POINTER), ("mode", _INT32)]


class _Best(ctypes.Structure):
    _fields_ = [("k", _INT64), ("bias", _POINTER), ("values", _POINTER), ("values_bytes", _SIZE)]
    _fields_ += [("ids", _POINTER), ("ids_bytes", _SIZE)]


def make_tables() -> dict[str, PackedTable]:
    """Return tables by name; sizes leave parts of vectors over."""
    random = np.random.default_rng(3)
    normal = lambda *shape: random.standard_normal(shape).astype(np.float32)  # noqa: E731
    codes = lambda rows, groups, k: random.integers(0, k, (rows, groups))  # noqa: E731
    small = lambda *shape: random.integers(-127, 128, shape).astype(np.int8)  # noqa: E731
    transform = normal(90, 21) * (random.random((90, 21)) < 0.4)
    transform[5] = 0.0
    transform = np.abs(transform)
    tables: dict[str, PackedTable] = {
        "dpq.float32": PackedDPQ.from_codes(codes(130, 10, 16), normal(10, 16, 4), 3),
        "dpq.float32.wide": PackedDPQ.from_codes(codes(2100, 4, 256), normal(4, 256, 8)),
        "dpq.float16": PackedDPQ.from_codes(codes(77, 9, 5), normal(9, 5, 3).astype(np.float16), 0),
        "dpq.int8": PackedDPQ.from_codes(codes(90, 6, 33), small(6, 33, 5), None, np.abs(normal(6)) + 0.1),
        "dpq.int8.shared": PackedDPQ.from_codes(codes(90, 6, 8), small(1, 8, 2), 1, np.abs(normal(1)) + 0.1),
        "tt.float32": PackedTT((normal(5, 1, 4, 6), normal(4, 6, 3, 7), normal(6, 7, 4, 1)), 110, 2),
        "tt.float16.ring": PackedTT(
            tuple(core.astype(np.float16) for core in (normal(9, 2, 5, 3), normal(9, 3, 7, 2))), 80
        ),
    }
    for weight_type in ("float32", "float16", "int8"):
        for dtype in (np.float32, np.float16):
            anchors = normal(21, 29).astype(dtype)
            tables[f"ant.{weight_type}.{dtype.__name__}"] = PackedANT.from_dense(transform, anchors, 5, weight_type)
    order = random.permutation(60).astype(np.int32)
    cores = (normal(8, 1, 3, 4), normal(8, 4, 5, 1))
    tables["tt.ordered"] = PackedTT(cores, 60, None, order)
    plain = PackedDPQ.from_codes(codes(64, 5, 16), normal(5, 16, 4))
    scales, chosen = np.abs(normal(9)), random.integers(0, 9, 64).astype(np.uint8)
    tables["dpq.scaled"] = PackedDPQ(plain.codes, plain.values, 5, None, None, chosen, scales, 2)
    return tables


class Native:
    """One table of the native library, whose rows may have an order or scales."""

    def __init__(self, packed: PackedTable) -> None:
        self.order, self.scales, self.columns = None, None, packed.embedding_dim
        if isinstance(packed, PackedTT) and packed.row_order is not None:
            self.order = packed.row_order
            packed = PackedTT(packed.cores, packed.num_embeddings, packed.padding_idx)
        if isinstance(packed, PackedDPQ) and packed.row_scales is not None:
            self.scales = packed.row_scales[packed.row_scale_codes]
            packed = PackedDPQ(packed.codes, packed.values, packed.num_groups)
        self.packed, self.table = packed, table_of(packed)

    def scratch(self, use: str, k: int = 0) -> tuple[Any, int]:
        size = _SIZE()
        assert not operators().ee_scratch_bytes(ctypes.byref(self.table), USES[use], k, ctypes.byref(size))
        return (ctypes.c_double * (size.value // 8 + 1))(), size.value

    def call(self, function: str, use: str, *arguments: Any, k: int = 0) -> None:
        buffer, size = self.scratch(use, k)
        status = getattr(operators(), function)(
            ctypes.byref(self.table), *arguments, buffer, _SIZE(size), _POINTER(None)
        )
        assert status == 0, operators().ee_status_message(status)

    def lookup(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        ids = ids if self.order is None else self.order[ids].astype(np.int64)
        rows = np.empty((len(ids), self.packed.embedding_dim), np.float32)
        given = _Ids(ids.ctypes.data, len(ids), 7)
        self.call("ee_gather", "lookup", ctypes.byref(given), _POINTER(rows.ctypes.data), _SIZE(rows.nbytes))
        return rows

    def scaled_lookup(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        rows = self.lookup(ids)[:, : self.columns]
        return rows if self.scales is None else rows * self.scales[ids, np.newaxis]

    def bag(self, ids, offsets, mode, weights=None) -> NDArray[np.float32]:
        if self.scales is not None:
            rows = self.scaled_lookup(ids).astype(np.float64) * (1 if weights is None else weights[:, np.newaxis])
            parts = [rows[begin:end] for begin, end in pairwise(offsets)]
            reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
            bags = [reduce(part, axis=0) if len(part) else np.zeros(self.columns) for part in parts]
            return np.array(bags).astype(np.float32)
        ids = ids if self.order is None else self.order[ids].astype(np.int64)
        out = np.empty((len(offsets) - 1, self.columns), np.float32)
        given = _Ids(ids.ctypes.data, len(ids), 7)
        factors = None if weights is None else weights.ctypes.data
        bags = _Bags(offsets.ctypes.data, len(offsets) - 1, factors, MODES.index(mode))
        arguments = ctypes.byref(given), ctypes.byref(bags), _POINTER(out.ctypes.data), _SIZE(out.nbytes)
        self.call("ee_bag", "bag", *arguments)
        return out

    def logits(self, hidden: NDArray[np.float32]) -> NDArray[np.float32]:
        unused = self.packed.embedding_dim - self.columns
        hidden = np.ascontiguousarray(np.pad(hidden, ((0, 0), (0, unused))))
        logits = np.empty((len(hidden), self.packed.num_embeddings), np.float32)
        arguments = _POINTER(hidden.ctypes.data), _INT64(len(hidden)), _POINTER(logits.ctypes.data)
        self.call("ee_logits", "logits", *arguments, _SIZE(logits.nbytes))
        logits = logits if self.order is None else logits[:, self.order]
        return logits if self.scales is None else logits * self.scales

    def topk(self, hidden, bias=None) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        if self.order is not None or self.scales is not None:
            logits = self.logits(hidden) + (0 if bias is None else bias)
            ids = np.argsort(-logits, axis=1, kind="stable")[:, :K]
            return np.take_along_axis(logits, ids, 1), ids
        values, ids = np.empty((len(hidden), K), np.float32), np.empty((len(hidden), K), np.int64)
        added = None if bias is None else bias.ctypes.data
        best = _Best(K, added, values.ctypes.data, values.nbytes, ids.ctypes.data, ids.nbytes)
        arguments = _POINTER(hidden.ctypes.data), _INT64(len(hidden)), ctypes.byref(best)
        self.call("ee_topk", "topk", *arguments, k=K)
        return values, ids


def make_calls(tables: dict[str, PackedTable]) -> Iterator[dict[str, Any]]:
    """Yield calls with their native results."""
    random = np.random.default_rng(4)
    for name, packed in tables.items():
        native, n = Native(packed), packed.num_embeddings
        ids = random.integers(0, n, 203)
        offsets = np.array([0, 1, 1, 8, 90, 203])
        weights, bias = random.standard_normal(203).astype(np.float32), random.standard_normal(n).astype(np.float32)
        states = random.standard_normal((19, packed.embedding_dim)).astype(np.float32)
        given = {"table": name, "ids": _text(ids)}
        yield given | {"use": "lookup", "expected": [_text(native.scaled_lookup(ids))]}
        for mode in MODES:
            expected = [_text(native.bag(ids, offsets, mode))]
            yield given | {"use": "bag", "offsets": _text(offsets), "mode": mode, "expected": expected}
        bags = native.bag(ids, offsets, "sum", weights)
        yield given | {
            "use": "bag", "offsets": _text(offsets), "mode": "sum", "weights": _text(weights), "expected": [_text(bags)]
        }  # fmt: skip
        for hidden in (states, states[:1]):
            given = {"table": name, "hidden": _text(hidden)}
            yield given | {"use": "logits", "expected": [_text(native.logits(hidden))]}
            yield given | {"use": "topk", "k": K, "expected": list(map(_text, native.topk(hidden)))}
        best = native.topk(states, bias)
        given = {"table": name, "hidden": _text(states), "bias": _text(bias)}
        yield given | {"use": "topk", "k": K, "expected": list(map(_text, best))}


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def main(folder: Path) -> None:
    """Write tables and calls."""
    tables = make_tables()
    save_tables(folder / "tables.safetensors", tables)
    (folder / "calls.json").write_text(json.dumps(list(make_calls(tables))))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
