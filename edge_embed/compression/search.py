"""Search for the best setting: the highest cosine within a size, or the smallest table with a minimum cosine.

Settings are fitted in draft, on the table itself or on a sample of its rows, and measured on a sample of rows. The
measures are mean cosine and relative error, as in `edge_embed.fitting.fidelity`, which measures all rows of the chosen
setting. Within a size, the rows that only the next layer takes have the smallest error behind that layer.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch import Tensor

from edge_embed.errors import ParityError, SizeError
from edge_embed.fitting.checkpoints import NOTHING, Kept
from edge_embed.fitting.dense_table import DenseTable, SomeRows, Weight, row_weights
from edge_embed.fitting.fidelity import closeness, measured, sample
from edge_embed.fitting.found_table import Rotates
from edge_embed.fitting.processes import ALONE, Processes
from edge_embed.fitting.setting import METHODS, FittingMethod, Setting, check_method
from edge_embed.packed.floats import FLOAT_BYTES
from edge_embed.report.beside_limit import beside_limit
from edge_embed.report.results.compressed import Trial

AUTO = "auto"

_FITTED = 1 << 15  # largest number of rows for a draft
_RATIOS = (1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_FINER = 2  # halvings between the last ratio that meets the goal and the next one
_AROUND = (1.5, 1.0, 0.5)  # of the allowed bytes; the report shows the effect of more and fewer bytes, if it is quick
_EXACT = 1 - 1e-6  # mean cosine from which settings count as equal
_UNEVEN = 10  # the longest row, in mean lengths, up to which weights in int8 are used: it sets the step of all rows

OnTrial = Callable[[int, int], None]
_SHARES = 1000  # in which the work on a setting is counted


@dataclass(frozen=True)
class Goal:
    """The goal of a search: one of the two.

    Attributes:
        nbytes: largest size in bytes.
        min_cosine: smallest mean cosine of its rows with the dense ones.
    """

    nbytes: int | None = None
    min_cosine: float | None = None

    def is_met(self, trial: Trial) -> bool:
        """Return whether a setting meets the goal."""
        if self.nbytes is not None:
            return trial.nbytes <= self.nbytes
        return trial.mean_cosine >= (self.min_cosine or 0)


class Search:
    """Tries settings on one table [n, d].

    Args:
        weight: the table.
        padding_idx: its padding row, from 0 on, or None.
        counts: frequency of each row, or None.
        method: the method to try; ``"auto"`` tries all methods except ``left_out``.
        trainable: whether the layer can be trained, which requires float32 numbers.
        seed: random seed.
        kept: finished parts of the trials.
        on_trial: called with the finished work and the approximate total, where a setting counts 1000.
        processes: the processes that share the work on each setting.
        left_out: names of methods.
        rotates: treatment of a rotation of the rows.
        dense_bytes: bytes of the table in the model; by default those of ``weight``.
        objective: objective of methods that have several.
        directions: those that the next layer reads, [d, d], by which settings are compared, or None.

    Raises:
        BadInputError: there is no such method.
    """

    def __init__(
        self,
        weight: Weight,
        padding_idx: int | None,
        counts: Tensor | None,
        method: str,
        trainable: bool,
        seed: int,
        kept: Kept = NOTHING,
        on_trial: OnTrial = lambda done, total: None,
        processes: Processes = ALONE,
        left_out: Collection[str] = (),
        rotates: Rotates = "beside",
        dense_bytes: int | None = None,
        objective: str | None = None,
        directions: Tensor | None = None,
    ) -> None:
        if method != AUTO:
            check_method(method)
        table = DenseTable(weight, padding_idx, processes=processes, nbytes=dense_bytes)
        self._processes = processes
        self._size, self._dense_bytes = (table.num_embeddings, table.embedding_dim), table.nbytes
        self._seed, self._kept, self._on_trial, self._total = seed, kept, on_trial, 0
        weights = row_weights(counts, len(weight), padding_idx)
        self._fitted, self._occurrences = (weight, padding_idx, counts), counts
        self._is_auto = method == AUTO
        needs_all = not self._is_auto and METHODS[method].needs_all
        ids = torch.arange(len(weight)) if needs_all else sample(len(weight), _FITTED, seed)
        self._is_sample = len(ids) < len(weight)
        if self._is_sample:
            ids = ids if padding_idx is None else ids[ids != padding_idx]
            self._fitted = SomeRows(weight, ids), None, weights[ids]
            self._occurrences = None if counts is None else counts[ids]
        self._measured = measured(len(ids), table.embedding_dim, seed)
        self._dense, self._weights = table.rows(ids[self._measured]), weights[ids[self._measured]]
        fits_float16 = table.fits_float16 and not trainable
        even = fits_float16 and table.longest <= _UNEVEN * table.mean_length
        float_type = "float16" if fits_float16 else "float32"
        self._types = {"value_type": float_type, "weight_type": "int8" if even else float_type}
        self._rotates, self._objective, self._directions = rotates, objective, directions
        able = [name for name in METHODS if name not in left_out]
        names = able if self._is_auto else [method]
        self._methods = [name for name in names if not (self._is_sample and METHODS[name].needs_all)] or names
        self._trials: dict[tuple[str, str], Trial] = {}
        self._settings: dict[tuple[str, str], Setting] = {}

    def run(self, goal: Goal) -> tuple[list[Setting], tuple[Trial, ...]]:
        """Return the settings that meet the goal, best first, and all trials, from small to large.

        Raises:
            SizeError: no setting is small enough.
            ParityError: no setting reaches the cosine.
        """
        if goal.nbytes is not None:
            if len(self._methods) == 1 and len(only := self._within(goal.nbytes, self._methods)) == 1:
                return only, ()  # the fit of all rows measures it
            shares = _AROUND if len(self._methods) > 1 and not self._is_sample else (1.0,)
            around = [int(share * goal.nbytes) for share in shares]
            tried = [self._by_codes(nbytes) for nbytes in around]
            self._total = sum(map(len, tried))
            for settings in (settings for each in tried for settings in each):
                self._try_until_poor(settings)
        else:
            middle = int(self._dense_bytes / _RATIOS[len(_RATIOS) // 2])
            self._total = (len(_RATIOS).bit_length() + _FINER) * len(self._within(middle, self._methods))
            for method in self._methods:
                self._bisect(goal, method)
        trials = tuple(sorted(self._trials.values(), key=lambda trial: trial.nbytes))
        serving = [trial for trial in trials if goal.is_met(trial)]
        if goal.nbytes is not None:
            serving.sort(key=lambda trial: -round(trial.closeness, 6))  # the smallest of equal ones
        if not serving:
            self._refuse(goal, trials)
        return [self._settings[trial.method, trial.setting] for trial in serving], trials

    def _refuse(self, goal: Goal, trials: Sequence[Trial]) -> NoReturn:
        """Raise an error that states the best possible result."""
        if goal.nbytes is not None:
            for ratio in reversed(_RATIOS):
                trials = trials or self._try_within(int(self._dense_bytes / ratio), self._methods)
            least = min(trials, key=lambda trial: trial.nbytes, default=None)
            larger = f"; none is smaller than the {self._dense_bytes:,} bytes of the dense table: keep it dense"
            smallest = larger if least is None else f"; the smallest requires {least.nbytes:,}: {least}"
            raise SizeError(f"no tested setting fits into {goal.nbytes:,} bytes{smallest}")
        best = max(trials, key=lambda trial: trial.mean_cosine, default=None)
        wanted, nearest = goal.min_cosine, ""
        if best is not None and wanted is not None:
            got, _ = beside_limit(best.mean_cosine, wanted)
            nearest = f"; the best reaches {got} at {best.nbytes:,} bytes: {best}"
        raise ParityError(f"no tested setting reaches a mean cosine of {wanted}{nearest}")

    def _bisect(self, goal: Goal, method: str) -> None:
        """Find the largest ratio at which a method meets the goal; its loss grows with the ratio."""

        def serves(ratio: float) -> bool:
            return any(map(goal.is_met, self._try_within(int(self._dense_bytes / ratio), [method])))

        low, high = 0, len(_RATIOS)
        while low < high:
            middle = (low + high) // 2
            if serves(_RATIOS[middle]):
                low = middle + 1
            else:
                high = middle
        if not 0 < low < len(_RATIOS):
            return
        served, missed = float(_RATIOS[low - 1]), float(_RATIOS[low])
        for _ in range(_FINER):
            between = math.sqrt(served * missed)
            served, missed = (between, missed) if serves(between) else (served, between)

    def _try_within(self, nbytes: int, methods: Iterable[str]) -> list[Trial]:
        return [self._try(setting) for setting in self._within(nbytes, methods)]

    def _by_codes(self, nbytes: int) -> list[list[Setting]]:
        """Return settings that differ only in the number of codes in one list, the most codes first."""
        found: dict[tuple[str, str], list[Setting]] = {}
        for setting in self._within(nbytes, self._methods):
            others = {name: value for name, value in setting.options.items() if name != "num_codes"}
            found.setdefault((setting.method, str(others)), []).insert(0, setting)
        return list(found.values())

    def _try_until_poor(self, settings: Iterable[Setting]) -> None:
        """Try settings from the best one on; the next is smaller, so it serves only if this one is exact."""
        for setting in settings:
            if self._try(setting).closeness < _EXACT:
                return

    def _within(self, nbytes: int, methods: Iterable[str]) -> list[Setting]:
        return [found for method in methods for found in self._of_method(METHODS[method], nbytes)]

    def _of_method(self, method: FittingMethod, nbytes: int) -> Iterator[Setting]:
        if method.rotates and self._rotates == "beside":
            nbytes -= FLOAT_BYTES[self._types["value_type"]] * self._size[1] ** 2
        given = {} if self._objective is None or not method.has_objective else {"objective": self._objective}
        for setting in method.within(*self._size, max(0, nbytes), self._types):
            if not (self._is_auto and method.is_slow(len(self._fitted[0]), self._size[1], setting.options)):
                yield replace(setting, options={**setting.options, **given})

    def _try(self, setting: Setting) -> Trial:
        key = setting.method, str(setting)
        if key not in self._trials:
            given: dict[str, Any] = {"kept": self._kept, "on_group": self._on_group, "processes": self._processes}
            weight, padding_idx, weights = self._fitted
            counts = self._occurrences if METHODS[setting.method].by_counts else weights
            given |= {"seed": self._seed, "draft": True, "num_rows": self._size[0], "directions": self._directions}
            made = setting.fit(weight, padding_idx, counts, **given)
            stored = made.stored(self._rotates)
            nbytes = stored.plain.shape.with_rows(self._size[0]).nbytes + stored.rotation_nbytes
            rows = made.rows(self._measured)
            nbytes = min(nbytes, setting.options.get("nbytes", nbytes))  # tiers of a sample are rounded to whole rows
            compared = self._dense, rows, self._weights, self._directions
            cosine, error, behind = self._processes.same(lambda: closeness(*compared))
            self._trials[key] = Trial(*key, nbytes, cosine, error, behind)
            self._settings[key] = setting
            self._on_group(0, 1)
        return self._trials[key]

    def _on_group(self, done: int, total: int) -> None:
        """Report the finished settings and groups of the next one."""
        finished = _SHARES * len(self._trials) + _SHARES * done // total
        self._on_trial(finished, max(_SHARES * self._total, finished))
