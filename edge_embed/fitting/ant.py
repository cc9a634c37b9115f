"""ANT from a trained table: sparse coding with non-negative weights.

    E ~ T A        T >= 0 sparse [n, A], A anchors [A, d]        min sum_i c_i ||E_i - T_i A||^2

Anchors are fitted to a sample of the rows, alternately with the weights of these rows
(`edge_embed.fitting.dictionary`). Then the weights of all rows are found (`edge_embed.fitting.sparse_codes`), block by
block. The table may be larger than the memory, which holds the sample, the nonzeros and two matrices [A, A].

Sources: the form is from "Anchor & Transform: Learning Sparse Embeddings for Large Vocabularies" (ICLR 2021), eq. (1).
The two modules name the sources of the algorithms.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.fitting.checkpoints import NOTHING, Kept
from edge_embed.fitting.dense_table import DenseTable, Weight, row_weights, table_size
from edge_embed.fitting.dictionary import learn, row_blocks
from edge_embed.fitting.processes import ALONE, Arrays, Processes
from edge_embed.fitting.setting import FittingMethod, Setting, Types, has_room
from edge_embed.fitting.sparse_codes import Codes, Dictionary, encode, price_of
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.arguments import checked_count, checked_padding, is_number
from edge_embed.packed.ant import PackedANT
from edge_embed.packed.ant_shape import MAX_NONZEROS, ANTShape, anchor_id_type

SAMPLE = 1 << 15  # rows that anchors are fitted to; more for many anchors
_ROWS_PER_ANCHOR = 16  # minimum for many anchors
_LARGEST_SCALE = 2.0**126  # keeps anchors within float32
_MOST = 2  # maximum of a row, times the mean. Three times the mean lowers the error by 0.7 % in twice the time
_ANCHORS = (8, 16, 32, 64, 128, 256, 512, 1024)
_FEWER = 0.9  # minimum share of weights left with twice as many anchors for these to lower the error
_SAMPLED = 0.98  # share of the bytes for weights that surely suffices when weights are fitted to a sample
_SLOW = 4e9  # work of a draft that takes about a minute
_SPARSE = 8  # maximum of weights of a row of ANT, or of columns for each weight: more make lookups slow


def fit(
    weight: Weight,
    num_anchors: int,
    nonzeros: float,
    padding_idx: int | None = None,
    *,
    counts: Tensor | None = None,
    trainable: bool = False,
    turns: int = 20,
    seed: int = 0,
    kept: Kept = NOTHING,
    on_block: Callable[[int], None] = lambda rows: None,
    processes: Processes = ALONE,
) -> ANTEmbedding:
    """Fit an `ANTEmbedding` to a dense table.

    Weights are distributed by gain: a row that gains more from an additional weight gets it, up to twice the mean. A
    row that gains least may get no weight, which makes it zero.

    Args:
        weight: [n, d] of any float dtype: array, memory-mapped or not, or tensor; it is read in blocks.
        num_anchors: number of anchors A.
        nonzeros: maximum mean number of weights of a row, above 0. For tables of more than 32,768 and 16 A rows, the
            mean is exact on a sample of that size, and within about 1 % for all rows. A row never needs more than A
            or d weights.
        padding_idx: this row is read as zero and stays zero.
        counts: c, the frequency of each token, numbers [n] >= 0: anchors fit frequent rows better. By default all rows
            have the same weight.
        trainable: return a trainable layer with all n A entries of the transform (mostly zero) instead of a frozen one.
        turns: number of alternations between anchors and weights; a few of them show the effect of more.
        seed: random seed, 0 or more.
        kept: store of finished parts, by default none.
        on_block: called with the number of finished rows after each block (0 while anchors are fitted).
        processes: processes that share the rows, by default only this one.

    Returns:
        A float32 layer on the CPU.

    Raises:
        BadInputError: for impossible sizes or counts, more nonzeros than can be stored, or numbers outside float32; the
            message names the row.
    """
    checked_count("num_anchors", num_anchors)
    checked_count("turns", turns)
    checked_count("seed", seed, least=0)
    padding_idx = checked_padding(padding_idx, table_size(weight)[0])
    table = DenseTable(weight, padding_idx, processes=processes)
    most = _most(table, num_anchors, nonzeros)
    weights = row_weights(counts, table.num_embeddings, padding_idx)
    sizes = num_anchors, most, nonzeros
    kept = kept.of_table(table, weights, "ant", *sizes, turns, seed)
    found = kept("anchors", lambda: _learned(table, weights, *sizes, turns, seed, lambda: on_block(0)))
    anchors, scale = torch.from_numpy(found["anchors"]), _scale(table)
    encoded = partial(_encoded, dictionary=_dictionary(anchors, scale), most=most, price=float(found["price"][0]))

    def of_parts(parts: Sequence[slice]) -> Arrays:
        return _sparse_rows(encoded(table.block(part) / scale for part in parts), num_anchors)

    def of_block(place: slice) -> Arrays:
        parts = row_blocks(place.stop - place.start, num_anchors, table.embedding_dim, most)
        return processes.joined([slice(place.start + part.start, place.start + part.stop) for part in parts], of_parts)

    blocks = []
    for place in table.places(table.num_embeddings):
        blocks.append(kept(f"weights {place.start}", partial(of_block, place)))
        on_block(place.stop)
    packed = _packed(blocks, anchors, padding_idx)
    return _trainable(packed) if trainable else ANTEmbedding.from_packed(packed)


def _most(table: DenseTable, num_anchors: int, nonzeros: float) -> int:
    """Return the maximum number of weights of one row."""
    if not is_number(nonzeros) or not 0 < nonzeros < math.inf:
        raise BadInputError(f"nonzeros must be a finite number above 0, the weights of a row, got {nonzeros!r:.80}")
    most = min(math.ceil(_MOST * nonzeros), num_anchors, table.embedding_dim)
    total = table.num_embeddings * min(nonzeros, most)
    if total > MAX_NONZEROS:
        raise BadInputError(
            f"nonzeros: got {total:.4g} in all rows, expected at most {MAX_NONZEROS}; use fewer per row"
        )
    return most


def _learned(
    table: DenseTable,
    weights: Tensor,
    num_anchors: int,
    most: int,
    nonzeros: float,
    turns: int,
    seed: int,
    on_block: Callable[[], None],
) -> Arrays:
    """Return the anchors as they are stored, and the price of a weight at which rows have the requested mean."""
    random, scale, processes = np.random.default_rng(seed), _scale(table), table.processes
    learning = num_anchors, most, nonzeros, turns, random, on_block, processes
    size = min(max(SAMPLE, _ROWS_PER_ANCHOR * num_anchors), table.num_embeddings)
    ids, drawn_weights = _drawn(weights, size, random)
    learned = learn(table.rows(ids) / scale, drawn_weights, *learning)
    anchors = processes.same(lambda: (learned * scale).float().numpy())  # their rounding may differ
    evenly = table.rows(torch.from_numpy(np.sort(random.choice(table.num_embeddings, size, replace=False)))) / scale
    dictionary = _dictionary(torch.from_numpy(anchors), scale)

    def errors_of(parts: Sequence[slice]) -> Arrays:
        tried = _encoded((evenly[part] for part in parts), dictionary, most, price=0.0)
        return {"errors": np.concatenate([codes.errors.numpy() for codes in tried])}

    errors = processes.joined(list(row_blocks(size, num_anchors, table.embedding_dim, most)), errors_of)["errors"]
    return {"anchors": anchors, "price": np.array([price_of(torch.from_numpy(errors), nonzeros)])}


def _drawn(counts: Tensor, size: int, random: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Draw different rows to fit anchors to. Return their ids and their weights: int64 [m], float64 [m]."""
    if len(counts) <= size:
        ids = counts.nonzero().flatten()
        return ids, counts[ids]
    drawn, times = np.unique(random.choice(len(counts), size, p=(counts / counts.sum()).numpy()), return_counts=True)
    return torch.from_numpy(drawn), torch.from_numpy(times).double()


def _scale(table: DenseTable) -> float:
    """Return the power of two nearest to the length of a row. Anchors get this length, so weights are near 1."""
    if not table.energy:
        return 1.0
    return min(2.0 ** round(math.log2(table.energy / table.num_embeddings) / 2), _LARGEST_SCALE)


def _dictionary(anchors: Tensor, scale: float) -> Dictionary:
    """Return the dictionary of anchors as they are stored."""
    return Dictionary(anchors.double() / scale)


def _encoded(parts: Iterable[Tensor], dictionary: Dictionary, most: int, price: float) -> Iterator[Codes]:
    return (encode(rows, dictionary, most, price) for rows in parts)


def _sparse_rows(codes: Iterable[Codes], num_anchors: int) -> Arrays:
    """Return the number of weights of each row, their anchors in ascending order, and the weights."""
    counts, anchor_ids, weights = list[Tensor](), list[Tensor](), list[Tensor]()
    for block in codes:
        used = block.weights.float() > 0  # some round to zero
        order = block.anchor_ids.masked_fill(~used, num_anchors).argsort(dim=1)
        used = used.gather(1, order)
        anchor_ids.append(block.anchor_ids.gather(1, order)[used])
        weights.append(block.weights.gather(1, order)[used].float())
        counts.append(used.sum(1))
    return {
        "counts": torch.cat(counts).numpy(),
        "anchor_ids": torch.cat(anchor_ids).numpy().astype(anchor_id_type(num_anchors)),
        "weights": torch.cat(weights).numpy(),
    }


def _packed(blocks: Sequence[Arrays], anchors: Tensor, padding_idx: int | None) -> PackedANT:
    joined = {name: np.concatenate([block[name] for block in blocks]) for name in ("counts", "anchor_ids", "weights")}
    offsets = np.concatenate([[0], joined["counts"]]).cumsum()
    if offsets[-1] > MAX_NONZEROS:
        raise BadInputError(
            f"nonzeros: got {offsets[-1]} in all rows, expected at most {MAX_NONZEROS}; use fewer per row"
        )
    csr = offsets.astype(np.int32), joined["anchor_ids"], joined["weights"], np.ones(1, np.float32)
    return PackedANT(*csr, anchors.numpy(), padding_idx)


def _trainable(packed: PackedANT) -> ANTEmbedding:
    n, (num_anchors, dim) = packed.num_embeddings, packed.anchors.shape
    layer = ANTEmbedding(n, dim, num_anchors, packed.padding_idx, device="meta", dtype=torch.float32)
    layer.to_empty(device="cpu")
    entries = np.arange(n).repeat(np.diff(packed.row_offsets)), packed.anchor_ids.astype(np.int64)
    with torch.no_grad():
        layer.anchors.copy_(torch.from_numpy(packed.anchors))
        layer.transform.zero_()[entries] = torch.from_numpy(packed.weights)
    return layer


def _within(n: int, dim: int, nbytes: int, types: Types) -> Iterator[Setting]:
    """Yield useful numbers of anchors: more lower the error until twice as many would cost a tenth of the weights."""
    stored = {"weight_type": types["weight_type"], "value_type": types["value_type"]}

    def nonzeros(num_anchors: int) -> float:
        if not has_room(num_anchors, dim, nbytes, stored["value_type"]):
            return 0
        without, with_one = (ANTShape(n, dim, num_anchors, each, **stored).nbytes for each in (0, n))
        room = (nbytes - without) / (with_one - without) * (_SAMPLED if n > SAMPLE else 1)
        most = min(num_anchors, dim, max(_SPARSE, dim // _SPARSE))
        return most if room >= most else math.floor(10 * room) / 10

    sizes = [(num_anchors, nonzeros(num_anchors)) for num_anchors in _ANCHORS]
    for (num_anchors, each), (_, of_more) in pairwise([*sizes, (0, 0)]):
        if each >= 1 and of_more < _FEWER * each:
            yield Setting("ant", {"num_anchors": num_anchors, "nonzeros": each}, stored)


def _is_slow(n: int, dim: int, options: Mapping[str, Any]) -> bool:
    most = math.ceil(_MOST * options["nonzeros"])
    return bool(n * most * (options["num_anchors"] + most * dim) > _SLOW)


ANT = FittingMethod(
    fit,
    ("num_anchors", "nonzeros"),
    ("weight_type", "value_type"),
    _within,
    draft={"turns": 5},
    is_slow=_is_slow,
)
