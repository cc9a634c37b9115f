"""Rows of small integers with a scale for each row, from a trained table: DPQ with one column a group.

    E'_ij = s_i q_ij        q_ij near E_ij / s_i, of b bits        s_i >= max_j |E_ij| / L        L = 2^(b - 1) - 1

The integers q keep inner products (`edge_embed.fitting.error_feedback`). All groups share the values -L - 1 ... L. A
row has d codes of b bits and one byte that selects one of up to 256 scales. If rows need more scales, these are spaced
evenly in their logarithm, and each row uses the next larger one. If the largest row is a hundred times the smallest,
steps are then at most 1.9 % wider than necessary.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.fitting import error_feedback
from edge_embed.fitting.dense_table import DenseTable, Weight, row_weights, table_size
from edge_embed.fitting.fidelity import closeness, measured
from edge_embed.fitting.processes import ALONE, Arrays, Processes
from edge_embed.fitting.setting import FittingMethod, Setting, Types
from edge_embed.layers.arguments import checked_padding
from edge_embed.layers.integers import IntegerEmbedding
from edge_embed.layers.scaled_dpq import ScaledDPQEmbedding
from edge_embed.ops.integers import FEWEST_BITS, MOST_BITS, levels, shape_of, values
from edge_embed.packed import bits as bit_packing
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.row_scales import MAX_ROW_SCALES
from edge_embed.report.results.compressed import Trial

_BASELINES = (8, 4)


def fit(
    weight: Weight,
    bits: int,
    padding_idx: int | None = None,
    *,
    counts: Tensor | None = None,
    trainable: bool = False,
    triangle: Tensor | None = None,
    processes: Processes = ALONE,
) -> ScaledDPQEmbedding | IntegerEmbedding:
    """Fit a layer of integer rows to a dense table.

    Args:
        weight: [n, d] of any float dtype: array, memory-mapped or not, or tensor; it is read in blocks.
        bits: bits b of each number, 2 to 8.
        padding_idx: this row is read as zero and stays zero.
        counts: weight of each row in R, numbers >= 0 [n], such as the frequency of each token; by default all the same.
        trainable: return a trainable layer, which holds the rows and rounds them to the nearest integers itself.
        triangle: R of `error_feedback.triangle_of`, float64 [d, d], by default of this table; the unit matrix rounds to
            the nearest integers.
        processes: processes that share the rows, by default only this one.

    Returns:
        A layer on the CPU, whose rows are float32.

    Raises:
        BadInputError: for another number of bits, or numbers outside float32.
    """
    n, dim = table_size(weight)
    largest = _largest_integer(bits)
    padding_idx = checked_padding(padding_idx, n)
    table = DenseTable(weight, padding_idx, processes=processes)
    if trainable:
        return IntegerEmbedding.from_dense(table.all_rows(torch.float32), bits, padding_idx)
    places = list(table.places(n))

    def steps_of(some: Sequence[slice]) -> Arrays:
        return {"steps": torch.cat([table.block(place).abs().amax(1) for place in some]).numpy() / largest}

    steps = torch.from_numpy(processes.joined(places, steps_of)["steps"])  # minimum scale of each row, [n]
    scales = _scales(steps, largest)  # [S]
    chosen = torch.searchsorted(scales[:-1].double(), steps)  # the first scale that is large enough, [n]

    if triangle is None:
        triangle = error_feedback.triangle_of(table, row_weights(counts, n, padding_idx))

    def codes_of(some: Sequence[slice]) -> Arrays:
        rounded = [_rounded(table.block(place), scales[chosen[place]].double(), largest, triangle) for place in some]
        codes = (torch.cat(rounded) + largest + 1).to(torch.uint8)
        return {"codes": bit_packing.pack(codes.numpy(), bits)}

    codes = processes.joined(places, codes_of)["codes"]
    row_scale_codes = chosen.to(torch.uint8).numpy()
    if padding_idx is not None:
        codes[padding_idx], row_scale_codes[padding_idx] = 0, 0
    packed = PackedDPQ(codes, values(bits), dim, padding_idx, None, row_scale_codes, scales.numpy())
    return ScaledDPQEmbedding(packed)


def _rounded(rows: Tensor, scales: Tensor, largest: int, triangle: Tensor) -> Tensor:
    """Return the integers [B, d] of rows float64 [B, d] with scales float64 [B]."""
    found = torch.empty_like(rows)

    def nearest(column: int, target: Tensor) -> Tensor:
        unit = scales * triangle[column, column]
        found[:, column] = (target[:, 0] / unit).round_().clamp_(-largest, largest)
        return (found[:, column] * scales).unsqueeze(1)

    error_feedback.quantise(rows, triangle, 1, nearest)
    return found


def baselines(
    table: DenseTable,
    padding_idx: int | None = None,
    counts: Tensor | None = None,
    directions: Tensor | None = None,
) -> tuple[Trial, ...]:
    """Return error and size of rows of 8 and of 4 bits, the baselines that compressed tables are compared with.

    They are rounded to the nearest integers, whose error of rows is the least.

    Args:
        table: [n, d].
        padding_idx: padding row, which is ignored.
        counts: frequency of each row, numbers >= 0 [n].
        directions: those that the next layer reads, [d, d], or None.
    """
    ids = measured(table.num_embeddings, table.embedding_dim, seed=0)
    rows = table.rows(ids)
    weights = row_weights(counts, table.num_embeddings, padding_idx)[ids]
    unit = torch.eye(table.embedding_dim, dtype=torch.float64)
    trials = []
    for bits in _BASELINES:
        layer = fit(rows, bits, triangle=unit, processes=table.processes)
        near = closeness(rows, layer(torch.arange(len(rows))).double(), weights, directions)
        nbytes = shape_of(table.num_embeddings, table.embedding_dim, bits).nbytes
        trials.append(Trial("rows", f"bits={bits}", nbytes, *near))
    return tuple(trials)


def _largest_integer(bits: int) -> int:
    if type(bits) is not int or not FEWEST_BITS <= bits <= MOST_BITS:
        raise BadInputError(f"bits: got {bits!r:.80}, expected {FEWEST_BITS} to {MOST_BITS}")
    return levels(bits)


def _scales(steps: Tensor, largest: int) -> Tensor:
    """Return positive scales, float32 [S] in ascending order; the last is at least as large as every step [n].

    The last scale is smaller if its product with the value -largest - 1 would exceed float32. It is then the largest
    possible one.
    """
    above = steps[steps > 0]  # a row of zeros may have any scale
    most = torch.finfo(torch.float32).max / (largest + 1)
    every = _no_smaller(above.clamp(max=most).unique()) if len(above) else torch.ones(1)
    if len(every) <= MAX_ROW_SCALES:
        return every
    needed = above.log2()
    spaced = torch.linspace(float(needed.min()), float(needed.max()), MAX_ROW_SCALES, dtype=torch.float64).exp2()
    spaced[-1] = steps.max()
    return _no_smaller(spaced.clamp(max=most))


def _no_smaller(steps: Tensor) -> Tensor:
    """Return distinct float32 numbers in ascending order, for each step [m] the smallest that is not below it."""
    near = steps.float()
    up = torch.nextafter(near, torch.tensor(torch.inf))
    found: Tensor = torch.where(near.double() < steps, up, near).unique()
    return found


def _fit(
    weight: Weight,
    padding_idx: int | None,
    *,
    bits: int,
    counts: Tensor | None,
    processes: Processes,
    trainable: bool = False,
    triangle: Tensor | None = None,
    **unused: Any,
) -> ScaledDPQEmbedding | IntegerEmbedding:
    given: dict[str, Any] = {"counts": counts, "trainable": trainable, "triangle": triangle, "processes": processes}
    return fit(weight, bits, padding_idx, **given)


def _within(n: int, dim: int, nbytes: int, types: Types) -> Iterator[Setting]:
    every = range(MOST_BITS, FEWEST_BITS - 1, -1)
    if bits := next((bits for bits in every if shape_of(n, dim, bits).nbytes <= nbytes), None):
        yield Setting("rows", {"bits": bits})


ROWS = FittingMethod(_fit, ("bits",), (), _within)
