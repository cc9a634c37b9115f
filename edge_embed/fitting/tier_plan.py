"""Plan of a tiered table: which rows get which format, for the least weighted error within some bytes.

    minimise  sum_i w_i |E_i - E'_i|^2        w_i = (count_i + 1/2)^p        rows sorted by count, largest first

The error of each row is measured once in every format. The first tier of a plan ends at one of many places; the second
one takes as many rows as the bytes allow. All plans of three formats, from large to small, are compared; the first two
may be the same. The tiers of the best plan are extended as long as bytes are left.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from edge_embed.fitting.tier_formats import Format
from edge_embed.packed.dpq_shape import DPQShape
from edge_embed.packed.tier_map import NUM_TIERS, map_bytes
from edge_embed.packed.tier_words import plan_words
from edge_embed.packed.tiered_shape import TieredShape

_PLACES = 400  # where the first tier may end


@dataclass(frozen=True)
class Plan:
    """Formats of the tiers and numbers of their rows; the first tier has the most frequent rows.

    Attributes:
        formats: formats.
        sizes: numbers of rows.
        error: estimate of the weighted error.
    """

    formats: tuple[Format, ...]
    sizes: tuple[int, ...]
    error: float

    def __str__(self) -> str:
        return plan_words(self._shapes)

    @property
    def num_rows(self) -> int:
        """Number of rows n of the table."""
        return sum(self.sizes)

    @property
    def _shapes(self) -> tuple[DPQShape, ...]:
        return tuple(form.shape_of(size) for form, size in zip(self.formats, self.sizes, strict=True))

    def of_sample(self, num_rows: int) -> Self:
        """Return the same plan for a sample of the rows, at least as many as tiers."""
        ends = np.cumsum(self.sizes[:-1]) * (num_rows / self.num_rows)
        least = np.arange(1, len(self.sizes))
        ends = np.clip(ends.round().astype(int), least, num_rows - least[::-1])
        return replace(self, sizes=tuple(int(size) for size in np.diff([0, *ends, num_rows])))

    def shape(self, has_map: bool) -> TieredShape:
        """Return the sizes of its table."""
        return TieredShape(self._shapes, has_map)


class Errors:
    """Weighted errors of the first rows in each format, from a sample.

    Args:
        ranks: ascending ranks of the sampled rows, float64 [m]; the first is 0.
        errors: weighted squared errors by format, [m].
        num_rows: number of rows n.
    """

    def __init__(self, ranks: NDArray[np.float64], errors: Mapping[Format, NDArray[np.float64]], num_rows: int) -> None:
        self.num_rows, self.formats, self._errors = num_rows, tuple(errors), errors
        self._ends = np.append(ranks, num_rows)  # a sampled row stands for those up to the next one
        stands_for = np.diff(self._ends)
        self._sums = {form: np.append(0.0, np.cumsum(each * stands_for)) for form, each in errors.items()}

    def of(self, form: Format) -> NDArray[np.float64]:
        """Return the error of each sampled row, [m]."""
        return self._errors[form]

    def until(self, form: Format, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the error of the rows before each end."""
        found: NDArray[np.float64] = np.interp(ends, self._ends, self._sums[form])
        return found

    def total(self, form: Format) -> float:
        """Return the error of all rows."""
        return float(self._sums[form][-1])

    def of_tiers(self, chosen: Sequence[Format], sizes: Sequence[int]) -> float:
        """Return the error of tiers of these sizes."""
        ends = np.cumsum([0, *sizes]).astype(np.float64)
        found = (self.until(form, ends[at : at + 2]) for at, form in enumerate(chosen))
        return float(sum(until[1] - until[0] for until in found))


def best_plan(errors: Errors, nbytes: int, has_map: bool) -> Plan | None:
    """Return the plan of the least error within some bytes; None if all are larger."""
    best = None
    for plan in _plans(errors, nbytes, has_map):
        better = best is None or plan.error < best.error
        if better and plan.shape(has_map).nbytes <= nbytes:  # sizes are counted for few of thousands of plans
            best = plan
    best = best or smallest_plan(errors.formats, errors.num_rows)
    if best is None or best.shape(has_map).nbytes > nbytes:
        return None
    return _extended(errors, best, nbytes, has_map)


def smallest_plan(able: Sequence[Format], num_rows: int) -> Plan | None:
    """Return the smallest plan: nearly all rows in the smallest format; None without two formats."""
    pairs = ((first, last) for first in able for last in able if first.row_bytes > last.row_bytes)
    plans = (Plan((first, first, last), (1, 1, num_rows - 2), math.inf) for first, last in pairs)
    return min(plans, key=lambda plan: plan.shape(True).nbytes, default=None)


def _extended(errors: Errors, plan: Plan, nbytes: int, has_map: bool) -> Plan:
    """Return the plan with as many more rows in each tier, from the last but one on, as the bytes allow.

    A larger format may be a worse one, such as 2-bit columns beside codes of as many bytes: it gets no more rows.
    """
    for tier in range(len(plan.sizes) - 2, -1, -1):
        low, high = 0, min(plan.sizes[tier + 1] - 1, plan.formats[tier].most_rows - plan.sizes[tier])
        while low < high:
            middle = (low + high + 1) // 2
            fits = _moved(plan, tier, middle).shape(has_map).nbytes <= nbytes
            low, high = (middle, high) if fits else (low, middle - 1)
        moved = _moved(plan, tier, low)
        error = errors.of_tiers(moved.formats, moved.sizes)
        plan = replace(moved, error=error) if error < plan.error else plan
    return plan


def _moved(plan: Plan, tier: int, rows: int) -> Plan:
    """Return the plan with the first rows of the next tier in this one."""
    sizes = list(plan.sizes)
    sizes[tier : tier + 2] = sizes[tier] + rows, sizes[tier + 1] - rows
    return replace(plan, sizes=tuple(sizes))


def _plans(errors: Errors, nbytes: int, has_map: bool) -> Iterator[Plan]:
    """Yield the best sizes for each choice of formats."""
    ordered = sorted(errors.formats, key=lambda form: -form.row_bytes)
    first = _places(errors.num_rows)
    until_first = {form: errors.until(form, first) for form in ordered}
    for chosen in itertools.combinations_with_replacement(ordered, NUM_TIERS):
        if chosen[1].row_bytes > chosen[2].row_bytes:
            plan = _sized(errors, chosen, first, until_first, nbytes - map_bytes(errors.num_rows) * has_map)
            if plan is not None:
                yield plan


def _sized(
    errors: Errors,
    chosen: Sequence[Format],
    first: NDArray[np.float64],
    until_first: Mapping[Format, NDArray[np.float64]],
    nbytes: int,
) -> Plan | None:
    """Return the best sizes of tiers of these formats; the last but one takes what the bytes allow.

    Args:
        errors: errors of the rows.
        chosen: formats of the tiers.
        first: ends of the first tier that are tried, [p].
        until_first: errors of the rows before these ends by format, [p].
        nbytes: bytes of the tiers without the map.
    """
    n = errors.num_rows
    row_bytes = [form.row_bytes for form in chosen]
    left = nbytes - sum(form.fixed_bytes for form in chosen) - n * row_bytes[2]  # bytes for rows of the first formats
    if left < row_bytes[1] - row_bytes[2]:
        return None
    second = np.floor((left - first * (row_bytes[0] - row_bytes[2])) / (row_bytes[1] - row_bytes[2]))
    most = [form.most_rows for form in chosen]
    ends = np.minimum(first + np.minimum(second, most[1]), n - 1)
    serves = (second >= 1) & (first <= most[0]) & (ends > first) & (n - ends <= most[2])
    if not serves.any():
        return None
    error = until_first[chosen[0]] + (errors.until(chosen[1], ends) - until_first[chosen[1]])
    error += errors.total(chosen[2]) - errors.until(chosen[2], ends)
    best = int(np.where(serves, error, np.inf).argmin())
    begin = int(ends[best]) // 2 if chosen[0] is chosen[1] else int(first[best])  # two codebooks of one format
    bounds = [0, begin, int(ends[best]), n]
    return Plan(tuple(chosen), tuple(int(size) for size in np.diff(bounds)), float(error[best]))


def _places(n: int) -> NDArray[np.float64]:
    """Return the ends of the first tier that are tried: evenly spaced, and closer together near the first rows."""
    even = np.linspace(1, n - 2, _PLACES)
    return np.unique(np.round(np.concatenate([even, np.geomspace(1, max(2, n - 2), _PLACES)])))
