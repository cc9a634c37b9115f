"""Tiered table from a trained table: frequent rows get more bytes than rare ones (`edge_embed.fitting.tier_plan`)."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edge_embed.errors import BadInputError, SizeError
from edge_embed.fitting.dense_table import DenseTable, Weight, row_weights, table_size
from edge_embed.fitting.processes import ALONE, Processes
from edge_embed.fitting.setting import FittingMethod, Setting, Types
from edge_embed.fitting.tier_formats import Format, formats
from edge_embed.fitting.tier_plan import Errors, Plan, best_plan
from edge_embed.layers.arguments import checked_count, checked_padding
from edge_embed.layers.tiered import TieredEmbedding
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.tiered import PackedTiered

POWER = 0.5  # p: the most robust one over embeddings, recommenders and output layers
_MEASURED = 1 << 15  # rows whose errors are measured, half of them the most frequent ones
_FLOAT16 = (1e-2, 6e4)  # range of the largest absolute value of a table that float16 stores well


def fit(
    weight: Weight,
    nbytes: int,
    padding_idx: int | None = None,
    *,
    counts: Tensor | None = None,
    power: float = POWER,
    seed: int = 0,
    processes: Processes = ALONE,
) -> TieredEmbedding:
    """Fit a `TieredEmbedding` of at most some bytes.

    Args:
        weight: [n, d] of any float dtype.
        nbytes: largest number of bytes of all tensors.
        padding_idx: this row is read as zero and stays zero.
        counts: frequency of each row, numbers >= 0 [n], such as the frequency of each token in the training data.
        power: p, the weight of a row is (count + 1/2)^p.
        seed: random seed.
        processes: processes that share the rows.

    Raises:
        BadInputError: for impossible sizes, without counts, or numbers outside float32.
        SizeError: no plan fits; the message has the smallest one.
    """
    n, _ = table_size(weight)
    checked_count("nbytes", nbytes)
    padding_idx = checked_padding(padding_idx, n)
    if counts is None:
        raise BadInputError(
            "counts: got none, expected the frequency of each row, which decides its tier: give counts "
            "(--counts NAME=FILE)"
        )
    row_weights(counts, n, padding_idx)  # which checks them
    weights = (counts.double() + 0.5) ** power
    if padding_idx is not None:
        weights[padding_idx] = 0
    table = DenseTable(weight, padding_idx, processes=processes)
    value_type = "float16" if _FLOAT16[0] <= table.largest <= _FLOAT16[1] else "float32"
    order = torch.argsort(counts.double(), descending=True, stable=True)  # id of each rank
    is_sorted = bool((order == torch.arange(n)).all())
    errors = _measured(table, order, weights, value_type, seed)
    plan = best_plan(errors, nbytes, has_map=not is_sorted)
    if plan is None:
        raise SizeError(f"no plan of tiers fits into {nbytes:,} bytes; {_smallest(errors, not is_sorted)}")
    return TieredEmbedding(_fitted(table, plan, order, weights, value_type, padding_idx, seed))


def _measured(table: DenseTable, order: Tensor, weights: Tensor, value_type: str, seed: int) -> Errors:
    """Return the errors of sampled ranks in each format that is fitted to the sample."""
    n = table.num_embeddings
    ranks = _sampled(n)
    ids = order[torch.from_numpy(ranks)]
    rows, own = table.rows(ids), weights[ids]  # [m, d], [m]
    stands_for = torch.from_numpy(np.diff(np.append(ranks, n)))
    errors = {}
    for form in formats(table.embedding_dim, value_type):
        given = {"draft": True, "seed": seed} if form.setting is not None else {}
        packed = form.fit(rows, own * stands_for, value_type, **given) if len(rows) <= form.most_rows else None
        if packed is not None:
            near = torch.from_numpy(packed.rows_float64(np.arange(len(rows))))
            errors[form] = (own * (rows - near).square().sum(1)).numpy()
    return Errors(ranks, errors, n)


def _sampled(n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return ascending ranks of at most 32,768 rows: the first half of them, and others evenly spaced."""
    if n <= _MEASURED:
        return np.arange(n)
    half = _MEASURED // 2
    return np.unique(np.concatenate([np.arange(half), np.linspace(half, n - 1, half).astype(np.int64)]))


def _fitted(
    table: DenseTable, plan: Plan, order: Tensor, weights: Tensor, value_type: str, padding_idx: int | None, seed: int
) -> PackedTiered:
    tier_of = np.empty(table.num_embeddings, np.uint8)
    tiers: list[PackedDPQ] = []
    begin = 0
    for number, (form, size) in enumerate(zip(plan.formats, plan.sizes, strict=True)):
        ids = order[begin : begin + size].sort().values
        tier_of[ids.numpy()] = number
        tiers.append(_tier(form, table.rows(ids), weights[ids], value_type, seed))
        begin += size
    return PackedTiered.from_tiers(tuple(tiers), tier_of, padding_idx)


def _tier(form: Format, rows: Tensor, weights: Tensor, value_type: str, seed: int) -> PackedDPQ:
    return form.fit(rows, weights, value_type, **({} if form.setting is None else {"seed": seed}))


def _smallest(errors: Errors, has_map: bool) -> str:
    least = min(errors.formats, key=lambda form: form.fixed_bytes + errors.num_rows * form.row_bytes)
    nbytes = least.fixed_bytes + errors.num_rows * least.row_bytes
    return f"{errors.num_rows:,} {least.name} alone require {nbytes:,}"


def _within(n: int, dim: int, nbytes: int, types: Types) -> Iterator[Setting]:
    if n >= 4 and nbytes > 0:
        yield Setting("tiered", {"nbytes": nbytes})


def _fit(
    weight: Weight,
    padding_idx: int | None,
    *,
    nbytes: int,
    counts: Tensor | None,
    seed: int,
    processes: Processes,
    **unused: Any,
) -> TieredEmbedding:
    return fit(weight, nbytes, padding_idx, counts=counts, seed=seed, processes=processes)


TIERED = FittingMethod(_fit, ("nbytes",), (), _within, learns=False, needs_all=True, needs_counts=True)
