"""The request of a user for the tables of one model, wherever they were found: in a module, a program or a file."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from torch import Tensor

from edge_embed.compression.plan import Plan, Progress, compress_tables
from edge_embed.errors import BadInputError
from edge_embed.fitting.checkpoints import NOTHING, Kept
from edge_embed.fitting.fitted_table import Fitted
from edge_embed.fitting.found_table import FoundTable, Table, chosen
from edge_embed.fitting.processes import ALONE, Processes
from edge_embed.fitting.row_counts import RowCounts
from edge_embed.report.results.compressed import CompressedTable


@dataclass(frozen=True)
class Job:
    """A plan for the tables of a model.

    Attributes:
        plan: the way to compress them.
        names: names of the requested tables; empty for all with at least 5 % of the model.
        counts: frequency of each row by the name of a table: numbers >= 0 [n], ids, or ``order``.
        kept: finished parts of the work.
        progress: called with (step, done, total).
        processes: the processes that share the work.
        other_counts: frequencies in other data, by the name of a table.
        weights: weights of rows without counts, measured on examples, [n] by the name of a table.

    Raises:
        BadInputError: counts are no mapping.
    """

    plan: Plan
    names: Collection[str] = ()
    counts: Mapping[str, RowCounts] = field(default_factory=dict)
    kept: Kept = NOTHING
    progress: Progress = lambda name, done, total: None
    processes: Processes = ALONE
    other_counts: Mapping[str, RowCounts] = field(default_factory=dict)
    weights: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = {"counts": self.counts, "other_counts": self.other_counts}
        for what, counts in given.items():
            if not isinstance(counts, Mapping):
                got = f"{what}: got a {type(counts).__name__}"
                raise BadInputError(f"{got}, expected a mapping from table names to counts")
        for what, names in (("modules", self.names), *given.items()):
            if not isinstance(names, Collection) or not all(isinstance(name, str) for name in names):
                raise BadInputError(f"{what}: got {names!r:.80}, expected names of tables")

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return a job with aliases replaced by the names of tables; ``names`` maps each alias to a name."""
        counts, others = (
            {names.get(name, name): numbers for name, numbers in given.items()}
            for given in (self.counts, self.other_counts)
        )
        own = [names.get(name, name) for name in self.names]
        return replace(self, names=own, counts=counts, other_counts=others)

    def chosen(self, tables: Iterable[Table], numbers: int, **words: str) -> list[Table]:
        """Return each table with the decision about it, for a model of so many numbers: see `found.chosen`."""
        return chosen(tables, self.names, numbers, **words)

    def run(self, tables: Sequence[FoundTable]) -> tuple[dict[str, Fitted], tuple[CompressedTable, ...]]:
        """Compress tables: see `plan.compress_tables`."""
        how = self.plan, self.kept, self.progress, self.processes
        return compress_tables(tables, self.counts, *how, self.other_counts, self.weights)
