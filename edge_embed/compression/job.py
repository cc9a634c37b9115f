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
from edge_embed.report.results.compressed import CompressedTable


@dataclass(frozen=True)
class Job:
    """A plan for the tables of a model.

    Attributes:
        plan: the way to compress them.
        names: names of the requested tables; empty for all with at least 5 % of the model.
        counts: frequency of each row, numbers >= 0 [n], by the name of a table.
        kept: finished parts of the work.
        progress: called with (step, done, total).
        processes: the processes that share the work.

    Raises:
        BadInputError: counts are no mapping.
    """

    plan: Plan
    names: Collection[str] = ()
    counts: Mapping[str, Tensor] = field(default_factory=dict)
    kept: Kept = NOTHING
    progress: Progress = lambda name, done, total: None
    processes: Processes = ALONE

    def __post_init__(self) -> None:
        if not isinstance(self.counts, Mapping):
            got = f"counts: got a {type(self.counts).__name__}"
            raise BadInputError(f"{got}, expected a mapping from table names to counts")
        for what, names in (("modules", self.names), ("counts", self.counts)):
            if not isinstance(names, Collection) or not all(isinstance(name, str) for name in names):
                raise BadInputError(f"{what}: got {names!r:.80}, expected names of tables")

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return a job with aliases replaced by the names of tables; ``names`` maps each alias to a name."""
        counts = {names.get(name, name): numbers for name, numbers in self.counts.items()}
        return replace(self, names=[names.get(name, name) for name in self.names], counts=counts)

    def chosen(self, tables: Iterable[Table], numbers: int, **words: str) -> list[Table]:
        """Return each table with the decision about it, for a model of so many numbers: see `found.chosen`."""
        return chosen(tables, self.names, numbers, **words)

    def run(self, tables: Sequence[FoundTable]) -> tuple[dict[str, Fitted], tuple[CompressedTable, ...]]:
        """Compress tables: see `plan.compress_tables`."""
        return compress_tables(tables, self.counts, self.plan, self.kept, self.progress, self.processes)
