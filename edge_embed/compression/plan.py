"""The request of a user, and the tables compressed accordingly."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

from torch import Tensor

from edge_embed.compression.long_row import long_row
from edge_embed.compression.search import AUTO, Goal, OnTrial, Search
from edge_embed.compression.tier_report import tier_plan
from edge_embed.errors import BadInputError, EdgeEmbedError, ParityError, SizeError, located, suggested
from edge_embed.fitting.checkpoints import NOTHING, Kept
from edge_embed.fitting.dense_table import DenseTable, row_weights, table_size
from edge_embed.fitting.fidelity import fidelity, next_layer_error
from edge_embed.fitting.fitted_table import Fitted
from edge_embed.fitting.found_table import FoundTable
from edge_embed.fitting.next_layer import directions
from edge_embed.fitting.processes import ALONE, Processes
from edge_embed.fitting.row_counts import ORDER, RowCounts, counts_of
from edge_embed.fitting.rows import baselines
from edge_embed.fitting.setting import METHODS, OnBlock, Setting, check_method, rotating, setting_of
from edge_embed.fitting.tier_weights import BAGS, LOGITS, OBJECTIVES
from edge_embed.layers.arguments import is_number
from edge_embed.packed.ant_shape import ANTShape
from edge_embed.packed.tiered import PackedTiered
from edge_embed.report.beside_limit import beside_limit
from edge_embed.report.results.compressed import CompressedTable, Trial
from edge_embed.report.results.fidelity import Fidelity
from edge_embed.report.results.tiers import EQUAL, GIVEN, MEASURED

Progress = Callable[[str, int, int], None]

_LOG = logging.getLogger(__name__)
_TRIES = 3  # the largest number of settings that are fitted on all rows after they met the goal in draft


@dataclass(frozen=True)
class Plan:
    """The goal of a compression: a ratio, a minimum cosine, or given sizes.

    Attributes:
        method: name of a method that fits dense tables, or ``auto``, which tries all of them; ``opq`` only if its
            rotation costs nothing.
        ratio: smallest compression ratio of each table, by bytes.
        budget: in place of a ratio: largest size of all packed tables together, in bytes; each has the same ratio.
        min_cosine: smallest mean cosine of the rows with the dense ones.
        options: sizes and types of the method, in place of a ratio.
        trainable: whether the layers can be trained further.
        seed: random seed.
        objective: ``rows``, ``bags`` or ``logits``, what a tiered table keeps close; None for ``logits`` with measured
            weights, else for ``bags`` where all uses of a table add up rows, and ``rows`` elsewhere.

    Raises:
        BadInputError: the values are incomplete, or contradict each other.
    """

    method: str = AUTO
    ratio: float | None = None
    budget: int | None = None
    min_cosine: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    trainable: bool = False
    seed: int = 0
    objective: str | None = None

    def __post_init__(self) -> None:
        if self.method != AUTO:
            check_method(self.method)
        able = [AUTO, *(name for name, known in METHODS.items() if known.has_objective)]
        if self.objective is not None and self.method not in able:
            known = " or ".join(able)
            raise BadInputError(f"objective: got {self.objective!r:.80} for {self.method}, expected {known}")
        if self.objective is not None and self.objective not in OBJECTIVES:
            raise BadInputError(f"objective: got {self.objective!r:.80}, expected one of {', '.join(OBJECTIVES)}")
        if self.options and self.method == AUTO:
            raise BadInputError(f"{_listed(self.options)}: sizes and types require a method: give `method` too")
        goals = {"`ratio`": self.ratio, "`budget`": self.budget, _listed(self.options): self.options or None}
        given = [name for name, value in goals.items() if value is not None]
        if len(given) > 1:
            raise BadInputError(f"got {' and '.join(given)}: give one of them")
        if self.options:
            stored = setting_of(self.method, self.options).stored
            if stored and self.trainable:
                raise BadInputError(f"{_listed(stored)}: got a stored type for trainable layers: pass it to freeze()")
        elif not given and self.min_cosine is None:
            raise BadInputError("give `ratio`, `budget` or `min_cosine`, or a `method` with its sizes")
        if self.ratio is not None and not (is_number(self.ratio) and 1 < self.ratio < float("inf")):
            raise BadInputError(f"ratio: got {self.ratio!r:.80}, expected a number above 1")
        if self.min_cosine is not None and not (is_number(self.min_cosine) and 0 < self.min_cosine <= 1):
            raise BadInputError(f"min_cosine: got {self.min_cosine!r:.80}, expected a number above 0, at most 1")

    def for_tables(self, tables: Sequence[FoundTable]) -> Self:
        """Return a plan with a budget replaced by the ratio that all tables need for it."""
        if self.budget is None:
            return self
        dense_bytes = sum(table.nbytes for table in tables)
        if not 0 < self.budget < dense_bytes:
            expected = f"expected at least 1 and less than the {dense_bytes:,} bytes of the tables"
            raise BadInputError(f"budget: got {self.budget:,}, {expected}")
        return replace(self, budget=None, ratio=dense_bytes / self.budget)

    def most_bytes(self, dense_bytes: int) -> int:
        """Return the largest allowed size of a packed table in bytes: by its ratio, or 1 below the dense size."""
        return dense_bytes - 1 if self.ratio is None else max(1, int(dense_bytes / self.ratio))

    def is_met(self, found: Fidelity) -> bool:
        """Return whether a packed table meets size and cosine."""
        is_near = self.min_cosine is None or found.mean_cosine >= self.min_cosine
        return is_near and found.packed_bytes <= self.most_bytes(found.dense_bytes)


def _listed(names: Iterable[str]) -> str:
    """Return options as a list for a message."""
    return ", ".join(f"`{name}`" for name in names)


def compress_tables(
    tables: Sequence[FoundTable],
    counts: Mapping[str, RowCounts],
    plan: Plan,
    kept: Kept = NOTHING,
    progress: Progress = lambda name, done, total: None,
    processes: Processes = ALONE,
    other_counts: Mapping[str, RowCounts] | None = None,
    weights: Mapping[str, Tensor] | None = None,
) -> tuple[dict[str, Fitted], tuple[CompressedTable, ...]]:
    """Return a layer for each table that can be replaced, by name, and the reports of all tables.

    Args:
        tables: tables of a model.
        counts: frequency of each row, numbers >= 0 [n], by table name; rows of other tables have equal weights.
        plan: the goal.
        kept: finished parts of the work.
        progress: called with (step, done, total).
        processes: the processes that share the work.
        other_counts: frequencies in other data, under which tiered tables are measured too.
        weights: measured weight of each row, numbers > 0 [n], by name of a table. They stand for its counts in the
            choice and the fit of a setting if it has none, unless the goal is a cosine.

    Raises:
        BadInputError: a table or counts are invalid, sizes do not fit a table, or counts belong to no table.
        SizeError: a result is not smaller than its table, or cannot be as small as requested.
        ParityError: a result does not reach the requested cosine. Both errors state the closest result.
    """
    wanted = [table for table in tables if not table.reason]
    measured = {} if plan.min_cosine is not None or weights is None else weights
    frequencies = _Frequencies(counts, other_counts or {}, measured, [table.name for table in wanted])
    able = [AUTO, *(name for name, known in METHODS.items() if known.by_counts)]
    if other_counts and plan.method not in able:
        expected = f"expected them for {' or '.join(able)}: leave them out"
        raise BadInputError(f"other_counts: got some for {plan.method}, {expected}")
    if plan.objective is not None and not (counts or measured):
        remedy = "expected the frequencies that it weighs: give counts or calibrate, or leave it out"
        raise BadInputError(f"objective: got {plan.objective!r} without counts, {remedy}")
    try:
        return _each(tables, frequencies, plan.for_tables(wanted), kept, progress, processes)
    except ParityError:
        if plan.budget is None:
            raise
        # With one ratio for all, some table misses its cosine; perhaps others need fewer bytes than that.
        layers, reports = _each(tables, frequencies, replace(plan, budget=None), kept, progress, processes)
        if sum(report.fidelity.packed_bytes for report in reports if report.fidelity) > plan.budget:
            raise
        return layers, reports


class _Frequencies:
    """Frequencies of the rows of each table, own and in other data, and measured weights in their place.

    Raises:
        BadInputError: a name is none of the tables.
    """

    def __init__(
        self,
        own: Mapping[str, RowCounts],
        others: Mapping[str, RowCounts],
        measured: Mapping[str, Tensor],
        known: Sequence[str],
    ) -> None:
        for what, names in (("counts", own), ("other_counts", others)):
            if strange := names.keys() - {*known}:
                hint = suggested(min(strange), known)
                got = f"{what}: got the names {', '.join(sorted(strange))}"
                raise BadInputError(f"{got}, {hint}expected names among {', '.join(known)}")
        self._own, self._others, self._measured = own, others, measured

    def of(self, table: FoundTable) -> Tensor | None:
        return counts_of(self._own.get(table.name), len(table.weight))

    def others_of(self, table: FoundTable) -> Tensor | None:
        with located("other_counts"):
            found = counts_of(self._others.get(table.name), len(table.weight))
            row_weights(found, len(table.weight), table.padding_idx)  # which checks them, before minutes of work
            return found

    def weights_of(self, table: FoundTable) -> Tensor | None:
        """Return the weights that a setting is chosen and fitted by."""
        return self._measured[table.name] if self.origin(table) == MEASURED else self.of(table)

    def origin(self, table: FoundTable) -> str:
        """Return the origin of these weights, as in `TierPlan`."""
        own = self._own.get(table.name)
        if own is None:
            return MEASURED if table.name in self._measured else EQUAL
        return ORDER if isinstance(own, str) else GIVEN


def _each(
    tables: Sequence[FoundTable],
    counts: _Frequencies,
    plan: Plan,
    kept: Kept,
    progress: Progress,
    processes: Processes,
) -> tuple[dict[str, Fitted], tuple[CompressedTable, ...]]:
    layers, reports, left_out = {}, list[CompressedTable](), tuple[str, ...]()
    for table in tables:
        if table.reason:
            rows, columns = table.weight.shape
            reports.append(CompressedTable(table.name, rows, columns, table.uses, reason=table.reason))
            continue
        try:
            layers[table.name], report = _compressed(table, counts, plan, kept, progress, processes, left_out)
        except EdgeEmbedError as error:
            raise type(error)(f"table {table.name}: {error}") from error
        reports.append(report)
        left_out = left_out or (METHODS[report.method].not_beside if report.method in METHODS else ())
    return layers, tuple(reports)


def _compressed(
    table: FoundTable,
    frequencies: _Frequencies,
    plan: Plan,
    kept: Kept,
    progress: Progress,
    processes: Processes,
    left_out: Collection[str],
) -> tuple[Fitted, CompressedTable]:
    dense = DenseTable(table.weight, table.padding_idx, processes=processes, nbytes=table.nbytes)
    counts, others, weights = frequencies.of(table), frequencies.others_of(table), frequencies.weights_of(table)
    given = table.weight, table.padding_idx, weights
    on_trial = partial(progress, f"{table.name}: settings")
    usual = LOGITS if frequencies.origin(table) == MEASURED else BAGS if table.adds_up and counts is not None else None
    known = None if table.next_weight is None else directions(table.next_weight)
    read = None if plan.min_cosine is not None else known
    objective = plan.objective or usual
    settings, trials = _settings(table, weights, objective, plan, kept, on_trial, processes, left_out, read)

    def rows_of(step: str) -> OnBlock:
        return lambda done: progress(f"{table.name}: {step}", done, dense.num_embeddings)

    for setting in settings[:_TRIES]:  # a fit of all rows may miss a cosine that the draft reached
        name = f"{setting.method} {setting}"
        on_group, on_block = partial(progress, f"{table.name}: {name}, centroids"), rows_of(name)
        if not METHODS[setting.method].has_groups:
            on_block(0)
        calls: dict[str, Any] = {"kept": kept, "on_group": on_group, "on_block": on_block, "processes": processes}
        calls["directions"] = read
        fitted = setting.fit(*given, plan.trainable, plan.seed, **calls)
        on_block(dense.num_embeddings)
        stored = fitted.stored(table.rotates)
        found = fidelity(dense, stored, counts, rows_of("comparison"))
        if plan.is_met(found):
            break
    _check(found, setting, plan)
    is_zero = dense.num_embeddings > 1 and not dense.largest
    if is_zero and processes.is_first:
        _LOG.warning("table %s: all rows are zero; check that the model is trained", table.name)
    if processes.is_first and setting.method != "rows" and (warning := long_row(dense)):
        _LOG.warning("table %s: %s", table.name, warning)
    if not is_zero and stored.plain.is_zero:
        raise ParityError(f"{setting.method} {setting}: all rows become zero: use larger sizes")
    tiers = None
    if isinstance(stored.plain, PackedTiered):
        tiers = tier_plan(dense, stored.plain, weights, frequencies.origin(table), others)
    progress(f"{table.name}: rounded rows", 0, 1)
    behind = None if known is None else next_layer_error(dense, stored, weights, known)
    if not trials:
        near = found.packed_bytes, found.mean_cosine, found.relative_error, None if read is None else behind
        trials = (Trial(setting.method, str(setting), *near),)
    tried = set(map(str, trials))
    rounded = baselines(dense, table.padding_idx, weights, read)
    return fitted, CompressedTable(
        table.name,
        dense.num_embeddings,
        dense.embedding_dim,
        table.uses,
        setting.method,
        str(setting),
        fidelity=found,
        trials=trials,
        baselines=tuple(one for one in rounded if str(one) not in tried),
        is_zero=is_zero,
        plan=tiers,
        next_layer_error=behind,
    )


def _settings(
    table: FoundTable,
    weights: Tensor | None,
    objective: str | None,
    plan: Plan,
    kept: Kept,
    on_trial: OnTrial,
    processes: Processes,
    left_out: Collection[str],
    read: Tensor | None,
) -> tuple[list[Setting], tuple[Trial, ...]]:
    """Return the settings to use, best first, and the trials that found them."""
    if table.rotates == "never" and plan.method in rotating():
        reason = "a rotation changes the largest numbers of a max bag"
        raise BadInputError(f"method: got {plan.method!r}, but {reason}: choose another method")
    if table.rotates != "folded":  # a product for each row costs time, so it must be requested
        left_out = {*left_out, *rotating()}
    if plan.options:
        setting = setting_of(plan.method, plan.options)
        _check_least(setting, table)
        return [setting], ()
    asked = plan.method, plan.trainable, plan.seed
    given = table.weight, table.padding_idx, weights
    found = table.rotates, table.nbytes, objective
    search = Search(*given, *asked, kept, on_trial, processes, left_out, *found, read)
    if plan.ratio is not None:
        return search.run(Goal(nbytes=plan.most_bytes(table.nbytes)))
    return search.run(Goal(min_cosine=plan.min_cosine))


def _check_least(setting: Setting, table: FoundTable) -> None:
    """Refuse anchors that alone are too large before they are allocated, because memory may be too small for them."""
    if setting.method != "ant":
        return
    types: Mapping[str, Any] = setting.stored
    least = ANTShape(*table_size(table.weight), setting.options["num_anchors"], 0, **types).nbytes
    if least >= table.nbytes:
        raise SizeError(
            f"{setting.method} {setting}: requires {least:,} bytes without any weight, expected fewer than the "
            f"{table.nbytes:,} of the dense table: use fewer anchors"
        )


def _check(found: Fidelity, setting: Setting, plan: Plan) -> None:
    if found.packed_bytes >= found.dense_bytes:
        raise SizeError(
            f"{setting.method} {setting}: requires {found.packed_bytes:,} bytes, expected fewer than the "
            f"{found.dense_bytes:,} of the dense table: use smaller sizes"
        )
    if found.packed_bytes > (most := plan.most_bytes(found.dense_bytes)):
        raise SizeError(
            f"{setting.method} {setting}: requires {found.packed_bytes:,} bytes, expected at most {most:,}: request "
            "slightly fewer bytes, or another method"
        )
    if plan.min_cosine is not None and found.mean_cosine < plan.min_cosine:
        remedy = "use larger sizes" if plan.options else "allow more bytes or a lower cosine"
        got, least = beside_limit(found.mean_cosine, plan.min_cosine)
        raise ParityError(
            f"{setting.method} {setting}: got a mean cosine of {got}, expected at least {least}: {remedy}"
        )
