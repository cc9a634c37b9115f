"""What a peer says about itself."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from edge_embed.bench.tables import BenchTable, LeftOutError
from edge_embed.bench.uses import BenchUse, Results
from edge_embed.validation.timing import Contender, Feeds


class Answering(Contender, Protocol):
    """A contender whose numbers can be looked at."""

    def results(self) -> Results:
        """What the last call gave; empty where it gives no numbers, which then are not compared."""


Bind = Callable[[Feeds, int], Answering]


def missing(module: str, package: str) -> str:
    """Why a library cannot be used, empty if it can; ``package`` is the name by which pip knows it."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        return f"{package} cannot be imported ({error}): python -m pip install {package}"
    return ""


@dataclass(frozen=True)
class Peer:
    """Something else that gives the same numbers, or nearly.

    Attributes:
        name: in options and reports.
        what: what is called, what was done before the clock runs, and where its numbers differ.
        uses: the uses that it takes part in.
        open: makes it ready for a table and a number of threads; the result is bound to inputs of one shape, and as
            many sets of them as there are calls. Raises `LeftOutError` where it cannot take part.
        methods: the methods of compression that it takes part in; empty for all.
        module: the library that it needs beyond what every installation has.
        package: the name by which pip knows that.
        exact: whether its numbers are to be ours; else they are less precise by design.
        by_empty_call: whether a call goes the same way as the empty call, which then is a part of it.
    """

    name: str
    what: str
    uses: tuple[str, ...]
    open: Callable[[BenchTable, BenchUse, int], Bind]
    methods: tuple[str, ...] = ()
    module: str = ""
    package: str = ""
    exact: bool = True
    by_empty_call: bool = False

    def fits(self, table: BenchTable, use: BenchUse) -> bool:
        """Whether it does the same as a use of a table."""
        return use.name in self.uses and (not self.methods or table.packed.method in self.methods)

    def missing(self) -> str:
        """Why its library cannot be used, empty if it can."""
        return missing(self.module, self.package) if self.module else ""

    def opened(self, table: BenchTable, use: BenchUse, threads: int) -> Bind:
        """`open`, after its library was looked for.

        Raises:
            LeftOutError: if it is not installed, or cannot take part.
        """
        if reason := self.missing():
            raise LeftOutError(reason)
        return self.open(table, use, threads)


class FunctionCalls:
    """A peer that is a Python function; its arguments are made ready before the clock runs."""

    def __init__(
        self, prepare: Callable[[Feeds], tuple[Any, ...]], call: Callable[..., Any], feeds: Feeds, calls: int
    ) -> None:
        """Prepare ``calls`` sets of arguments."""
        self._prepare, self._call = prepare, call
        self.set_inputs([feeds] * calls)

    def set_inputs(self, feeds: Sequence[Feeds]) -> None:
        """New arguments, one set for every call."""
        self._arguments = [self._prepare(one) for one in feeds]

    def run(self) -> None:
        """All calls, one after the other."""
        call = self._call
        for arguments in self._arguments:
            self._result = call(*arguments)

    @property
    def calls(self) -> int:
        """How many calls `run` makes."""
        return len(self._arguments)

    def results(self) -> Results:
        """What the last call gave."""
        return (np.asarray(self._result),)
