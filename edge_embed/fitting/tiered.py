"""Tiered table from a trained table: frequent rows get more bytes than rare ones (`edge_embed.fitting.tier_plan`)."""

import math
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edge_embed.errors import BadInputError, SizeError
from edge_embed.fitting import error_feedback
from edge_embed.fitting.checkpoints import NOTHING, Kept
from edge_embed.fitting.dense_table import DenseTable, SomeRows, Weight, row_weights, table_size
from edge_embed.fitting.processes import ALONE, Processes
from edge_embed.fitting.setting import FittingMethod, OnBlock, Setting, Types
from edge_embed.fitting.tier_formats import Format, formats
from edge_embed.fitting.tier_plan import best_plan, smallest_plan
from edge_embed.fitting.tier_sample import Sample
from edge_embed.fitting.tier_weights import OBJECTIVES, ROWS, tier_weights
from edge_embed.layers.arguments import checked_count, checked_counts, checked_padding
from edge_embed.layers.tiered import TieredEmbedding
from edge_embed.packed.tiered import PackedTiered

_FEWEST_ROWS = 4


def fit(
    weight: Weight,
    nbytes: int,
    padding_idx: int | None = None,
    *,
    counts: Tensor | None = None,
    objective: str = ROWS,
    num_rows: int | None = None,
    trainable: bool = False,
    draft: bool = False,
    seed: int = 0,
    kept: Kept = NOTHING,
    on_block: OnBlock = lambda rows: None,
    processes: Processes = ALONE,
) -> TieredEmbedding:
    """Fit a `TieredEmbedding` of at most some bytes.

    Args:
        weight: [n, d] of any float dtype: array, memory-mapped or not, or tensor; it is read in blocks.
        nbytes: largest number of bytes of all tensors.
        padding_idx: this row is read as zero and stays zero.
        counts: frequency of each row, numbers >= 0 [n], such as the frequency of each token in the training data. By
            default all rows are equally frequent: the tiers use up the bytes, and the first rows get more of them.
        objective: ``rows``, ``bags`` or ``logits``: the weight of a row is (count + 1/2)^p, p = 1/2, 1 or 3/4.
        num_rows: number of rows of the whole table that ``nbytes`` are for, if ``weight`` is a sample of its rows.
        trainable: return a trainable layer, whose numbers are float32. By default the layer is frozen.
        draft: fit codebooks in fewer iterations.
        seed: random seed.
        kept: store of finished parts, by default none.
        on_block: called with the number of finished rows.
        processes: processes that share the rows.

    Raises:
        BadInputError: for impossible sizes or counts, or numbers outside float32.
        SizeError: no plan fits; the message has the smallest one.
    """
    n, _ = table_size(weight)
    checked_count("nbytes", nbytes)
    padding_idx = checked_padding(padding_idx, n)
    if objective not in OBJECTIVES:
        raise BadInputError(f"objective: got {objective!r:.80}, expected one of {', '.join(OBJECTIVES)}")
    counts = torch.ones(n) if counts is None else checked_counts(counts)
    frequencies = row_weights(counts, n, padding_idx)
    weights = tier_weights(counts, objective, padding_idx)
    table = DenseTable(weight, padding_idx, processes=processes)
    value_type = "float16" if table.fits_float16 and not trainable else "float32"
    order = torch.argsort(counts, descending=True, stable=True)  # id of each rank
    order = order.int() if n < 1 << 31 else order  # half the memory
    has_map = not bool((order[1:] > order[:-1]).all())
    able = list(formats(table.embedding_dim, value_type))
    triangle = error_feedback.triangle_of(table, frequencies)
    kept = kept.of_table(table, frequencies, "tiered")  # codes of a tier depend on the rows of all tiers

    def planned() -> list[tuple[int, int]]:  # what other processes can receive
        sample = Sample(table, order, weights, triangle, value_type, num_rows or n, seed)
        errors = sample.measured(able)
        plan = best_plan(errors, nbytes, has_map)
        if plan is None:
            least = smallest_plan(errors.formats, errors.num_rows)
            smallest = "" if least is None else f"; the smallest, {least}, requires {least.shape(has_map).nbytes:,}"
            raise SizeError(f"no plan of tiers fits into {nbytes:,} bytes{smallest}")
        plan = best_plan(sample.measured_again(errors, plan), nbytes, has_map) or plan
        return list(zip(map(able.index, plan.formats), plan.of_sample(n).sizes, strict=True))

    plan = [(able[number], size) for number, size in processes.same(planned)]
    given: dict[str, Any] = {"triangle": triangle, "draft": draft, "seed": seed, "kept": kept, "processes": processes}
    tier_of = np.empty(n, np.uint8)
    tiers = list[Any]()
    for number, (form, begin, ids) in enumerate(_parts(plan, order)):
        tier_of[ids.numpy()] = number
        given["on_block"] = partial(_finished, on_block, begin)
        rows = SomeRows(weight, ids), weights[ids]
        padding = None if padding_idx is None else _place(ids, padding_idx)
        tiers.append(
            form.layer(*rows, padding, **given) if trainable else form.fit(*rows, value_type, padding, **given)
        )
        on_block(begin + len(ids))
    if trainable:
        return TieredEmbedding(tiers, tier_of, padding_idx)
    return TieredEmbedding.from_packed(PackedTiered.from_tiers(tuple(tiers), tier_of, padding_idx))


def _parts(plan: Sequence[tuple[Format, int]], order: Tensor) -> Iterator[tuple[Format, int, Tensor]]:
    """Yield for each tier its format, the number of rows before it, and its ids, int64 in ascending order."""
    begin = 0
    for form, size in plan:
        yield form, begin, order[begin : begin + size].long().sort().values
        begin += size


def _finished(on_block: OnBlock, before: int, done: int) -> None:
    on_block(before + done)


def _place(ids: Tensor, padding_idx: int) -> int | None:
    """Return the place of the padding row among ascending ids, None if it is not there."""
    place = int(torch.searchsorted(ids, padding_idx))
    return place if place < len(ids) and int(ids[place]) == padding_idx else None


@cache
def _least_bytes(n: int, dim: int, value_type: str) -> float:
    """Return the bytes of the smallest plan with a map."""
    least = smallest_plan([form for form in formats(dim, value_type) if form.least_rows <= n <= form.most_rows], n)
    return math.inf if least is None else least.shape(True).nbytes


def _within(n: int, dim: int, nbytes: int, types: Types) -> Iterator[Setting]:
    if n >= _FEWEST_ROWS and nbytes >= _least_bytes(n, dim, types["value_type"]):
        yield Setting("tiered", {"nbytes": nbytes})


def _fit(weight: Weight, padding_idx: int | None, **given: Any) -> TieredEmbedding:
    return fit(weight, padding_idx=padding_idx, **{name: given[name] for name in _TAKEN if name in given})


_TAKEN = "nbytes", "counts", "trainable", "objective", "num_rows", "draft", "seed", "kept", "on_block", "processes"
_DRAFT = {"draft": True}
TIERED = FittingMethod(
    _fit,
    ("nbytes",),
    (),
    _within,
    of_sample=True,
    by_counts=True,
    has_objective=True,
    draft=_DRAFT,
)
