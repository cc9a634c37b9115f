"""Processes that share the work on a table: each has the same table, makes the same calls, and does a share.

    of m items the process of rank r among P has those from floor(r m / P) to below floor((r + 1) m / P)

What they make is put together in this order, so that it is the same for every P; but `Processes.summed` is rounded in
another order. What one of them met, an error too, all have after the call. Rows of tables are not sent.
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
    from torch.distributed import ProcessGroup  # not in every build of torch

Item = TypeVar("Item")
Made = TypeVar("Made")
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class _Outcome(Generic[Made]):
    """What a process made of its share: nothing, one thing, or the error that it met."""

    made: Sequence[Made]
    error: Exception | None = None

    @classmethod
    def of(cls, make: Callable[[], Sequence[Made]]) -> "_Outcome[Made]":
        try:
            return cls(make())
        except Exception as error:  # whatever it is, the others must not wait for this one
            return cls((), error)

    def get(self) -> Sequence[Made]:
        if self.error is not None:
            raise self.error
        return self.made

    def __reduce__(self) -> tuple[Any, ...]:
        """An error that cannot be sent becomes one that says the same."""
        error = self.error
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # of a class of its own it may raise anything
            error = None if error is None else RuntimeError(one_line(error))
        return _Outcome, (self.made, error)


class Processes:
    """This process among those that share the work.

    Args:
        group: a process group of torch with a backend for the CPU, such as gloo, of which every process makes the same
            calls. None: this process has all of the work.

    Attributes:
        rank: r.
        size: P.

    Raises:
        BadInputError: if the group sends nothing from the CPU, or this process is not in it.
    """

    def __init__(self, group: "ProcessGroup | None" = None) -> None:
        self._group, self.rank, self.size = group, 0, 1
        if group is not None:
            self.rank, self.size = _place_in(group)

    @property
    def is_first(self) -> bool:
        """Whether this is the one that writes."""
        return self.rank == 0

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """Those that this process has."""
        begin, end = (rank * len(items) // self.size for rank in (self.rank, self.rank + 1))
        return items[begin:end]

    def gathered(self, items: Sequence[Item], make: Callable[[Sequence[Item]], Made]) -> list[Made]:
        """What each process made of its share, in order; nothing of those that have none.

        Raises:
            EdgeEmbedError: if another process has ended; besides what ``make`` raises, in whichever process.
        """
        if self.size == 1:
            return [make(items)] if items else []
        share = self.share(items)
        own = _Outcome[Made].of(lambda: [make(share)] if share else [])
        outcomes: list[Any] = [None] * self.size
        with _while_all_live():
            distributed.all_gather_object(outcomes, own, group=self._group)
        outcomes[self.rank] = own  # whose error knows where it arose
        return [made for outcome in outcomes for made in outcome.get()]

    def joined(self, items: Sequence[Item], make: Callable[[Sequence[Item]], Arrays]) -> Arrays:
        """The same, of arrays, joined by name along the first axis."""
        parts = self.gathered(items, make)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def each(self, items: Sequence[Item], make: Callable[[Item], Made]) -> Iterator[Made]:
        """What is made of each item, in their order; each process makes one at a time."""
        for begin in range(0, len(items), self.size):
            yield from self.gathered(items[begin : begin + self.size], lambda share: make(share[0]))

    def summed(self, items: Sequence[Item], make: Callable[[Sequence[Item]], Tensor]) -> Tensor:
        """The sum of what the processes make of their shares, of one shape; errors as of `gathered`.

        Args:
            items: shared out; a process may have none of them.
            make: gives a new tensor, zeros for no items.
        """
        made = list[Tensor]()
        self.gathered(range(self.size), lambda _: made.append(make(self.share(items))))
        if self.size > 1:
            with _while_all_live():
                distributed.all_reduce(made[0], group=self._group)
        return made[0]

    def same(self, make: Callable[[], Made]) -> Made:
        """What the first makes, for all: so that all decide alike; errors as of `gathered`."""
        if self.size == 1:
            return make()
        outcomes: list[Any] = [_Outcome[Made].of(lambda: [make()]) if self.is_first else None]
        with _while_all_live():
            distributed.broadcast_object_list(outcomes, group=self._group, group_src=0)
        made: Made = outcomes[0].get()[0]
        return made

    def first(self, make: Callable[[], Made]) -> Made | None:
        """What the first makes, such as a file, and None for the others, once it is there; errors as of `gathered`."""
        made = list[Made]()
        self.same(lambda: made.append(make()))
        return made[0] if made else None


ALONE = Processes()


def _place_in(group: "ProcessGroup") -> tuple[int, int]:
    """The rank of this process, and how many there are."""
    rank = distributed.get_rank(group)
    if rank < 0:
        raise BadInputError("group: got one that this process is not in: call this in the processes of the group")
    backends = distributed.get_backend_config(group)
    if "cpu:" not in backends:
        got = f"group: got one of {backends}, which sends nothing from the CPU"
        raise BadInputError(f"{got}, expected gloo: torch.distributed.new_group(backend='gloo')")
    return rank, distributed.get_world_size(group)


@contextmanager
def _while_all_live() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        reason = "another process that shares the work has ended, or takes longer than the group allows"
        raise EdgeEmbedError(f"{reason} ({one_line(error)}): begin again") from error
