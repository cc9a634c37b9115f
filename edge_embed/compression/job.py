"""What a user wants of the tables of one model, wherever these were found: in a module, a program or a file."""

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
        plan: how they are to be compressed.
        names: of the tables that are wanted; none for all that hold a twentieth of the model.
        counts: how often each row comes up, numbers >= 0 [n], by the name of a table.
        kept: finished parts of the work.
        progress: called with (step, done, in all).
        processes: who shares the work.

    Raises:
        BadInputError: if counts are no mapping.
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
            raise BadInputError(f"{got}, expected a mapping, by the name of a table")
        for what, names in (("modules", self.names), ("counts", self.counts)):
            if not isinstance(names, Collection) or not all(isinstance(name, str) for name in names):
                raise BadInputError(f"{what}: got {names!r:.80}, expected names of tables")

    def renamed(self, names: Mapping[str, str]) -> Self:
        """The same, where tables may be called by these names too: the name that each stands for."""
        counts = {names.get(name, name): numbers for name, numbers in self.counts.items()}
        return replace(self, names=[names.get(name, name) for name in self.names], counts=counts)

    def chosen(self, tables: Iterable[Table], numbers: int, **words: str) -> list[Table]:
        """What is to become of each table, of a model of so many numbers: see `found.chosen`."""
        return chosen(tables, self.names, numbers, **words)

    def run(self, tables: Sequence[FoundTable]) -> tuple[dict[str, Fitted], tuple[CompressedTable, ...]]:
        """Compress them: see `plan.compress_tables`."""
        return compress_tables(tables, self.counts, self.plan, self.kept, self.progress, self.processes)
