"""Rows of small integers from a table that is trained already, each with a scale: DPQ with one column a group.

    E'_ij = s_i q_ij        q_ij = round(E_ij / s_i), of b bits        s_i >= max_j |E_ij| / L        L = 2^(b - 1) - 1

All groups share the values -L - 1 ... L, so a row is d codes of b bits, and the byte that says which of up to 256
scales it has. Where rows need more scales than that, these are spaced evenly in their logarithm, and each row has the
next larger one: if the largest row is a hundred times the smallest, steps are at most 1.9 % wider than they had to be.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.fitting.dense_table import DenseTable, Weight, row_weights, table_size
from edge_embed.fitting.fidelity import nearness, sample
from edge_embed.fitting.processes import ALONE, Arrays, Processes
from edge_embed.fitting.setting import FittingMethod, Setting, Types
from edge_embed.layers.scaled_dpq import ScaledDPQEmbedding
from edge_embed.layers.table import checked_padding
from edge_embed.packed import bits as bit_packing
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_shape import DPQShape
from edge_embed.packed.row_scales import MAX_ROW_SCALES
from edge_embed.report.results.compressed import Trial

MOST_BITS, FEWEST_BITS = 8, 2
_BASELINES = (8, 4)
_MEASURED = 10_000  # rows


def fit(
    weight: Weight, bits: int, padding_idx: int | None = None, *, processes: Processes = ALONE
) -> ScaledDPQEmbedding:
    """A frozen layer of integer rows, near to a dense table.

    Args:
        weight: [n, d] of any float type: array, memory-mapped or not, or tensor; it is read in blocks.
        bits: b, 2 to 8, of each number.
        padding_idx: this row is taken as zero, whatever it holds, and stays so.
        processes: who shares the rows, by default this process alone.

    Returns:
        A layer on the CPU, whose rows are float32.

    Raises:
        BadInputError: for another number of bits, or numbers that float32 cannot hold.
    """
    n, dim = table_size(weight)
    largest = _largest_integer(bits)
    padding_idx = checked_padding(padding_idx, n)
    table = DenseTable(weight, padding_idx, processes=processes)
    places = list(table.places(n))

    def steps_of(some: Sequence[slice]) -> Arrays:
        return {"steps": torch.cat([table.block(place).abs().amax(1) for place in some]).numpy() / largest}

    steps = torch.from_numpy(processes.joined(places, steps_of)["steps"])  # at least, [n]
    scales = _scales(steps, largest)  # [S]
    chosen = torch.searchsorted(scales[:-1].double(), steps)  # the first that is no smaller, [n]

    def codes_of(some: Sequence[slice]) -> Arrays:
        rounded = [(table.block(place) / scales[chosen[place], None]).round() for place in some]
        codes = (torch.cat(rounded).clamp(-largest, largest) + largest + 1).to(torch.uint8)
        return {"codes": bit_packing.pack(codes.numpy(), bits)}

    codes = processes.joined(places, codes_of)["codes"]
    row_scale_codes = chosen.to(torch.uint8).numpy()
    if padding_idx is not None:
        codes[padding_idx], row_scale_codes[padding_idx] = 0, 0
    values = torch.arange(-largest - 1, largest + 1, dtype=torch.float32).reshape(1, -1, 1).numpy()
    packed = PackedDPQ(codes, values, dim, padding_idx, None, row_scale_codes, scales.numpy())
    return ScaledDPQEmbedding(packed)


def shape_of(num_embeddings: int, embedding_dim: int, bits: int) -> DPQShape:
    """Sizes of a table whose rows need every scale that there may be."""
    num_codes, shared = 2 * (_largest_integer(bits) + 1), embedding_dim > 1
    sizes = num_embeddings, embedding_dim, num_codes, embedding_dim, shared
    return DPQShape(*sizes, num_row_scales=min(num_embeddings, MAX_ROW_SCALES))


def baselines(table: DenseTable, padding_idx: int | None = None, counts: Tensor | None = None) -> tuple[Trial, ...]:
    """How near and how small rows of 8 and of 4 bits would be: compressed tables are compared with them.

    Args:
        table: [n, d].
        padding_idx: it counts nowhere.
        counts: how often each row comes up, numbers >= 0 [n].
    """
    ids = sample(table.num_embeddings, _MEASURED, seed=0)
    rows = table.rows(ids)
    weights = row_weights(counts, table.num_embeddings, padding_idx)[ids]
    trials = []
    for bits in _BASELINES:
        layer = fit(rows, bits, processes=table.processes)
        near = nearness(rows, layer(torch.arange(len(rows))).double(), weights)
        nbytes = shape_of(table.num_embeddings, table.embedding_dim, bits).nbytes
        trials.append(Trial("rows", f"bits={bits}", nbytes, *near))
    return tuple(trials)


def _largest_integer(bits: int) -> int:
    if type(bits) is not int or not FEWEST_BITS <= bits <= MOST_BITS:
        raise BadInputError(f"bits: got {bits!r:.80}, expected {FEWEST_BITS} to {MOST_BITS}")
    return (1 << bits - 1) - 1


def _scales(steps: Tensor, largest: int) -> Tensor:
    """Scales above 0, float32 [S] in ascending order, of which the last is no smaller than any step [n].

    It is where its product with the value -largest - 1 would be too large: then it is what float32 allows.
    """
    above = steps[steps > 0]  # a row of zeros may have any
    most = torch.finfo(torch.float32).max / (largest + 1)
    every = _no_smaller(above.clamp(max=most).unique()) if len(above) else torch.ones(1)
    if len(every) <= MAX_ROW_SCALES:
        return every
    needed = above.log2()
    spaced = torch.linspace(float(needed.min()), float(needed.max()), MAX_ROW_SCALES, dtype=torch.float64).exp2()
    spaced[-1] = steps.max()
    return _no_smaller(spaced.clamp(max=most))


def _no_smaller(steps: Tensor) -> Tensor:
    """Different float32 numbers in ascending order, one for each step [m] that is no smaller than it."""
    near = steps.float()
    up = torch.nextafter(near, torch.tensor(torch.inf))
    found: Tensor = torch.where(near.double() < steps, up, near).unique()
    return found


def _fit(
    weight: Weight, padding_idx: int | None, *, bits: int, processes: Processes, **unused: Any
) -> ScaledDPQEmbedding:
    return fit(weight, bits, padding_idx, processes=processes)


def _within(n: int, dim: int, nbytes: int, types: Types) -> Iterator[Setting]:
    every = range(MOST_BITS, FEWEST_BITS - 1, -1)
    if bits := next((bits for bits in every if shape_of(n, dim, bits).nbytes <= nbytes), None):
        yield Setting("rows", {"bits": bits})


ROWS = FittingMethod(_fit, ("bits",), (), _within, learns=False)
