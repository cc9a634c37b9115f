"""Methods that are compared: each gets a number of bytes and returns the rows of the tables.

trimming    frequent rows of 8 bits, the mean of the others in place of each of them; 1 bit and ranks say which
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from edge_embed.compression.job import Job
from edge_embed.compression.modules import model_tables
from edge_embed.compression.plan import Plan
from edge_embed.compression.programs import tables_of
from edge_embed.errors import SizeError
from edge_embed.fitting import rows as integer_rows
from edge_embed.fitting.found_table import FoundTable
from edge_embed.ops import integers
from edge_embed.packed.tier_map import BLOCK
from edge_embed.program.load import capture_program
from tiers.case import Case, weight_of

Made = tuple[dict[str, Tensor], int, str]  # rows by table, bytes of all tables, settings
Contender = Callable[[Case, float, int], Made]

OTHER = "tiered, other counts"
_BITS = 8


def compressed(method: str, which: str = "own") -> Contender:
    """Return a contender that compresses each table of a case as `edge_embed.compress` does.

    Args:
        method: method.
        which: counts that it sees: ``own``, ``none`` or ``other``.
    """

    def make(case: Case, ratio: float, seed: int) -> Made:
        counts = {"own": dict(case.counts), "none": {}, "other": dict(case.other_counts)}[which]
        job = Job(Plan(method, ratio=ratio, seed=seed), list(case.counts), counts)
        made, reports = job.run(_tables(case, job))
        rows = {name: fitted.rows(torch.arange(fitted.layer.num_embeddings)).float() for name, fitted in made.items()}
        found = [table for table in reports if table.fidelity]
        nbytes = sum(table.fidelity.packed_bytes for table in found if table.fidelity)
        return rows, nbytes, "; ".join(table.setting if table.plan is None else str(table.plan) for table in found)

    return make


def _tables(case: Case, job: Job) -> Sequence[FoundTable]:
    if case.example:
        return tables_of(capture_program(case.model, case.example), job)
    return job.chosen(model_tables(case.model), sum(parameter.numel() for parameter in case.model.parameters()))


def trimmed(case: Case, ratio: float, seed: int) -> Made:
    """Keep the frequent rows of each table.

    Raises:
        SizeError: no row fits.
    """
    rows, total, kept = {}, 0, []
    for name, counts in case.counts.items():
        weight = weight_of(case.model, name)
        n, dim = weight.shape
        most = int(weight.nbytes / ratio)
        count = most_that_fit(n, partial(_bytes, n, dim), most)
        if count < 1:
            raise SizeError(f"trimming: no row fits into {most:,} bytes")
        order = counts.argsort(descending=True, stable=True)
        first, others = order[:count], order[count:]
        shares = counts[others].double() + 0.5
        found = weight.detach().clone()
        found[first] = integer_rows.fit(weight[first].detach(), _BITS)(torch.arange(count))
        found[others] = ((shares @ weight[others].detach().double()) / shares.sum()).float()
        rows[name], total = found, total + _bytes(n, dim, count)
        kept.append(f"{count:,} rows")
    return rows, total, "; ".join(kept)


def _bytes(n: int, dim: int, count: int) -> int:
    blocks = -(-n // BLOCK)
    return integers.shape_of(count, dim, _BITS).nbytes + 2 * dim + blocks * (BLOCK // 8 + 4)


def most_that_fit(n: int, size: Callable[[int], int], nbytes: int) -> int:
    """Return the largest number up to n whose size fits, or 0; sizes grow with numbers."""
    low, high = 0, n
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(middle) <= nbytes else (low, middle - 1)
    return low


CONTENDERS: dict[str, Contender] = {
    "tiered": compressed("tiered"),
    OTHER: compressed("tiered", "other"),
    "trimming": trimmed,
    "dpq": compressed("dpq"),
    "dpq, no counts": compressed("dpq", "none"),
    "opq": compressed("opq"),
    "opq, no counts": compressed("opq", "none"),
    "rows": compressed("rows"),
    "ant": compressed("ant"),
    "tt": compressed("tt"),
    "tr": compressed("tr"),
    "low_rank": compressed("low_rank"),
}
