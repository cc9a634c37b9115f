"""Random packed tables of any shape, made without their dense form."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.layers.tt import TTEmbedding
from edge_embed.packed.ant import PackedANT
from edge_embed.packed.ant_shape import ANTShape, anchor_id_type
from edge_embed.packed.bits import bits_for, row_bytes
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_shape import DPQShape
from edge_embed.packed.form import Packed
from edge_embed.packed.tt import PackedTT

_BLOCK_ROWS = 4096
_DENSE_SHARE = 8  # of the memory that is free: a head needs its table several times, and quantised
_UNKNOWN_LIMIT = 1 << 30


class LeftOutError(Exception):
    """A peer cannot take part; the message says why."""


@dataclass(frozen=True)
class BenchTable:
    """A table that is measured.

    Attributes:
        name: of the table in its file, or what it was made from.
        packed: the table.
        dense_limit: the float32 table of the same rows is made up to this many bytes.
        memory_bytes: that a session may take for it, to be faster; None: what is usual.
        layout: in its TFLite file; None: the usual one.
    """

    name: str
    packed: Packed
    dense_limit: int
    memory_bytes: int | None = None
    layout: str | None = None

    @property
    def dense_bytes(self) -> int:
        """Of the float32 table, 4nd."""
        return 4 * self.packed.num_embeddings * self.packed.embedding_dim

    @cached_property
    def dense(self) -> NDArray[np.float32]:
        """The same rows, float32 [n, d].

        Raises:
            LeftOutError: if it would take too much memory.
        """
        if self.dense_bytes > self.dense_limit:
            raise LeftOutError(
                f"the dense table has {self.dense_bytes:,} bytes, the limit here is {self.dense_limit:,}"
            )
        n = self.packed.num_embeddings
        dense = np.empty((n, self.packed.embedding_dim), np.float32)
        for start in range(0, n, _BLOCK_ROWS):
            dense[start : start + _BLOCK_ROWS] = self.packed.rows(np.arange(start, min(start + _BLOCK_ROWS, n)))
        return dense


def dense_limit() -> int:
    """Bytes of the largest dense table that fits, with what is made from it; 1 GB where the system does not say."""
    try:
        found = re.search(r"^MemAvailable:\s*(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return int(found[1]) * 1024 // _DENSE_SHARE if found else _UNKNOWN_LIMIT


def dpq(random: np.random.Generator, n: int, dim: int, codes: int, groups: int) -> PackedDPQ:
    """``codes`` a group, each as likely as the others.

    Raises:
        BadInputError: if the sizes make no table.
    """
    DPQShape(n, dim, codes, groups)
    values = _normal(random, groups, codes, dim // groups)
    bits = bits_for(codes)
    if codes == 1 << bits and groups * bits % 8 == 0:  # any byte is right: no need to spell codes out
        return PackedDPQ(random.integers(0, 256, (n, row_bytes(groups, bits)), np.uint8), values, groups)
    return PackedDPQ.from_codes(random.integers(0, codes, (n, groups), np.uint16), values)


def ant(random: np.random.Generator, n: int, dim: int, anchors: int, nonzeros: int) -> PackedANT:
    """``nonzeros`` weights a row, on distinct anchors.

    Raises:
        BadInputError: if the sizes make no table.
    """
    if not 1 <= nonzeros <= anchors:
        raise BadInputError(f"nonzeros: got {nonzeros}, expected 1 to {anchors}, the number of anchors")
    ANTShape(n, dim, anchors, n * nonzeros)
    kind = np.dtype(anchor_id_type(anchors))
    chosen = np.empty((n, nonzeros), kind)
    for start in range(0, n, _BLOCK_ROWS):
        keys = random.random((min(_BLOCK_ROWS, n - start), anchors), np.float32)
        chosen[start : start + _BLOCK_ROWS] = np.sort(keys.argpartition(nonzeros - 1, 1)[:, :nonzeros], 1)
    weights = random.random(n * nonzeros, np.float32) + np.float32(0.1)
    offsets = np.arange(0, n * nonzeros + 1, nonzeros, dtype=np.int32)
    return PackedANT(offsets, chosen.reshape(-1), weights, np.ones(1, np.float32), _normal(random, anchors, dim))


def tt(random: np.random.Generator, n: int, dim: int, rank: int) -> PackedTT:
    """Of the shapes that the layer chooses.

    Raises:
        BadInputError: if the sizes make no table.
    """
    layer = TTEmbedding(n, dim, rank, device="meta")
    return PackedTT(tuple(_normal(random, *core.shape) for core in layer.cores), n)


def _normal(random: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return random.standard_normal(shape, np.float32)
