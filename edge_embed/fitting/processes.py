"""Processes that share the work on a table: each has the same table, makes the same calls, and does its share.

    of m items the process of rank r among P has those from floor(r m / P) to below floor((r + 1) m / P)

Results are combined in this order, so they are the same for every P; only `Processes.summed` rounds differently. All
processes have the results, and the errors, of each of them after the call. Rows of tables are never sent.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, distributed

from edge_embed.errors import BadInputError, EdgeEmbedError, one_line

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup  # missing in some builds of torch

Item = TypeVar("Item")
Made = TypeVar("Made")
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class _Outcome(Generic[Made]):
    """Result of a process for its share: at most one item, or an error."""

    made: Sequence[Made]
    error: Exception | None = None

    @classmethod
    def of(cls, make: Callable[[], Sequence[Made]]) -> "_Outcome[Made]":
        try:
            return cls(make())
        except Exception as error:  # for any error: the others must not wait for this process
            return cls((), error)

    def get(self) -> Sequence[Made]:
        if self.error is not None:
            raise self.error
        return self.made

    def __reduce__(self) -> tuple[Any, ...]:
        """Replace an error that cannot be pickled by one with the same message."""
        error = self.error
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # an error class may raise anything
            error = None if error is None else RuntimeError(one_line(error))
        return _Outcome, (self.made, error)


class Processes:
    """The present process and the group that it shares the work with.

    Args:
        group: a process group of torch with a CPU backend, such as gloo, in which every process makes the same calls.
            None: this process does all of the work.

    Attributes:
        rank: rank r of this process.
        size: number of processes P.

    Raises:
        BadInputError: if the group has no CPU backend, or this process is not in it.
    """

    def __init__(self, group: "ProcessGroup | None" = None) -> None:
        self._group, self.rank, self.size = group, 0, 1
        if group is not None:
            self.rank, self.size = _place_in(group)

    @property
    def is_first(self) -> bool:
        """Return whether this process is the one that writes."""
        return self.rank == 0

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return the items of this process."""
        begin, end = (rank * len(items) // self.size for rank in (self.rank, self.rank + 1))
        return items[begin:end]

    def gathered(self, items: Sequence[Item], make: Callable[[Sequence[Item]], Made]) -> list[Made]:
        """Return the result of each process for its share, in order, without processes that have no items.

        Raises:
            EdgeEmbedError: if another process has ended. Errors of ``make`` in any process are raised too.
        """
        if self.size == 1:
            return [make(items)] if items else []
        share = self.share(items)
        own = _Outcome[Made].of(lambda: [make(share)] if share else [])
        outcomes: list[Any] = [None] * self.size
        with _while_all_live():
            distributed.all_gather_object(outcomes, own, group=self._group)
        outcomes[self.rank] = own  # keeps the traceback of its error
        return [made for outcome in outcomes for made in outcome.get()]

    def joined(self, items: Sequence[Item], make: Callable[[Sequence[Item]], Arrays]) -> Arrays:
        """Return the arrays of all shares, joined by name along the first axis, as `gathered`."""
        parts = self.gathered(items, make)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def each(self, items: Sequence[Item], make: Callable[[Item], Made]) -> Iterator[Made]:
        """Yield the result for each item in order; each process computes one at a time."""
        for begin in range(0, len(items), self.size):
            yield from self.gathered(items[begin : begin + self.size], lambda share: make(share[0]))

    def summed(self, items: Sequence[Item], make: Callable[[Sequence[Item]], Tensor]) -> Tensor:
        """Return the sum of the results of all shares, tensors of one shape; errors are those of `gathered`.

        Args:
            items: items to share; a process may have none of them.
            make: function that returns a new tensor, zeros for no items.
        """
        made = list[Tensor]()
        self.gathered(range(self.size), lambda _: made.append(make(self.share(items))))
        if self.size > 1:
            with _while_all_live():
                distributed.all_reduce(made[0], group=self._group)
        return made[0]

    def same(self, make: Callable[[], Made]) -> Made:
        """Return the first process's result in all processes, so that all decide alike; errors as of `gathered`."""
        if self.size == 1:
            return make()
        outcomes: list[Any] = [_Outcome[Made].of(lambda: [make()]) if self.is_first else None]
        with _while_all_live():
            distributed.broadcast_object_list(outcomes, group=self._group, group_src=0)
        made: Made = outcomes[0].get()[0]
        return made

    def first(self, make: Callable[[], Made]) -> Made | None:
        """Run ``make`` in the first process only, for example to write a file; the others wait for it and get None."""
        made = list[Made]()
        self.same(lambda: made.append(make()))
        return made[0] if made else None


ALONE = Processes()


def _place_in(group: "ProcessGroup") -> tuple[int, int]:
    """Return the rank of this process and the number of processes."""
    rank = distributed.get_rank(group)
    if rank < 0:
        raise BadInputError("group: got one without this process; call this in the processes of the group")
    backends = distributed.get_backend_config(group)
    if "cpu:" not in backends:
        got = f"group: got one of {backends}, which sends no data from the CPU"
        raise BadInputError(f"{got}, expected gloo: torch.distributed.new_group(backend='gloo')")
    return rank, distributed.get_world_size(group)


@contextmanager
def _while_all_live() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        reason = "another process of the group has ended, or exceeds the timeout of the group"
        raise EdgeEmbedError(f"{reason} ({one_line(error)}): begin again") from error
