"""Analysis of codes as in the DPQ paper (sec. 3.4 and appendix D), for a `DPQEmbedding` or its packed form.

Each call packs a layer again. For several calls, pack it once with ``layer.to_packed()``. Rows and codes are read in
blocks, never as a whole table. The padding row has no codes of its own and is ignored.

Source: "Learning Compact Embedding Layers via Differentiable Product Quantization" (ICLR 2020 submission).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.ids import checked_ids
from edge_embed.packed.packed_form import PackedTable
from edge_embed.study.tables import Layer, blocks_of_ids, packed_form


class Neighbours(NamedTuple):
    """Nearest rows of some rows, nearest first.

    Attributes:
        ids: int64 [*, k].
        similarity: cosines, float64 [*, k].
    """

    ids: NDArray[np.int64]
    similarity: NDArray[np.float64]


def code_usage(table: PackedDPQ | Layer[PackedDPQ]) -> NDArray[np.int64]:
    """Count the rows that use each code of each group: Count_k of appendix D.1, the heat map of figure 5.

    Returns:
        int64 [D, K]; ``(usage == 0).mean()`` is the share of unused codes.

    Raises:
        BadInputError: if ``table`` is not a DPQ table.
    """
    packed = _dpq(table)
    groups, num_codes = packed.num_groups, packed.num_codes
    counts = np.zeros(groups * num_codes, np.int64)
    for ids in blocks_of_ids(packed, 64 * groups):
        codes = packed.codes_of(ids) + num_codes * np.arange(groups)  # [B, D]
        counts += np.bincount(codes.reshape(-1), minlength=counts.size)
    return counts.reshape(groups, num_codes)


def code_changes(before: PackedDPQ | Layer[PackedDPQ], after: PackedDPQ | Layer[PackedDPQ]) -> float:
    """Return the share of the n D codes that differ between two states of one table: figure 6, appendix D.2.

    Keep the packed form of a checkpoint or epoch, and compare the next one with it.

    Returns:
        0 to 1.

    Raises:
        BadInputError: if they are not DPQ tables of one size.
    """
    first, second = _dpq(before), _dpq(after)
    for name in ("num_embeddings", "num_groups", "num_codes", "padding_idx"):
        got, expected = getattr(second, name), getattr(first, name)
        if got != expected:
            raise BadInputError(f"{name}: got {expected} before and {got} after, expected two states of one table")
    changed = counted = 0
    for ids in blocks_of_ids(first, 64 * first.num_groups):
        changed += int((first.codes_of(ids) != second.codes_of(ids)).sum())
        counted += len(ids) * first.num_groups
    return changed / max(1, counted)


def nearest_rows(table: PackedTable | Layer[PackedTable], ids: ArrayLike, k: int = 10) -> Neighbours:
    """Return the nearest rows of some rows by cosine similarity: tables 5 to 7, appendix D.3.

    A row is its own nearest row, as in the paper, unless rows with lower ids equal it: the lowest id is first among
    equal rows. A row of zeros has cosine 0 with every other row.

    Args:
        table: table of any method.
        ids: ids of the rows, integers of any shape (*).
        k: number of nearest rows for each, at most n without the padding row.

    Raises:
        BadInputError: if ``ids`` are not integers, or there are fewer than ``k`` rows.
        IdOutOfRangeError: if an id is negative or at least n.
    """
    packed = packed_form(table)
    shape = checked_ids(ids, packed.num_embeddings).shape
    candidates = packed.num_embeddings - (packed.padding_idx is not None)
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or not 1 <= k <= candidates:
        raise BadInputError(f"k: got {k!r:.80}, expected 1 to {candidates}, the rows of the table")
    asked = _directions(packed, np.reshape(ids, -1))  # [m, d]
    found: NDArray[np.int64] = np.empty((len(asked), 0), np.int64)
    similarity: NDArray[np.float64] = np.empty((len(asked), 0))
    for block in blocks_of_ids(packed, 64 * packed.embedding_dim):
        found = np.concatenate((found, np.broadcast_to(block, (len(asked), len(block)))), 1)
        similarity = np.concatenate((similarity, asked @ _directions(packed, block).T), 1)  # [m, k + B]
        best = np.argsort(-similarity, 1, kind="stable")[:, :k]
        found, similarity = np.take_along_axis(found, best, 1), np.take_along_axis(similarity, best, 1)
    return Neighbours(found.reshape(*shape, k), similarity.reshape(*shape, k))


def shared_codes(table: PackedDPQ | Layer[PackedDPQ], ids: ArrayLike) -> NDArray[np.int64]:
    """Count for each pair of rows the groups in which they have the same code: table 8, appendix D.4.

    Related words share more codes than others. ``packed.codes_of(ids)`` returns the codes themselves.

    Args:
        table: a DPQ table.
        ids: integers [m].

    Returns:
        int64 [m, m], with D on the diagonal.

    Raises:
        BadInputError: if ``table`` is not a DPQ table, or ``ids`` are not integers [m].
        IdOutOfRangeError: if an id is negative or at least n.
    """
    packed = _dpq(table)
    codes = packed.codes_of(ids)  # [m, D]
    if codes.ndim != 2:
        raise BadInputError(f"ids: got shape {list(codes.shape[:-1])}, expected integers [m]")
    return np.stack([(codes == row).sum(1) for row in codes]) if len(codes) else np.zeros((0, 0), np.int64)


def _dpq(table: object) -> PackedDPQ:
    packed = packed_form(table)
    if not isinstance(packed, PackedDPQ):
        raise BadInputError(f"got a table of {packed.method}, which has no codes, expected a table of dpq")
    return packed


def _directions(packed: PackedTable, ids: NDArray[Any]) -> NDArray[np.float64]:
    """Return rows [B, d] divided by their lengths."""
    rows = packed.rows_float64(ids)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)
