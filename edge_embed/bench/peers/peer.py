"""Description of a peer."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from edge_embed.bench.tables import BenchTable, LeftOutError
from edge_embed.bench.uses import BenchUse, Results
from edge_embed.validation.timing import Contender, Feeds


class Answering(Contender, Protocol):
    """Contender whose results can be compared."""

    def results(self) -> Results:
        """Return the results of the last call; empty for a contender without numbers, which is not compared."""


Bind = Callable[[Feeds, int], Answering]


def missing(module: str, package: str) -> str:
    """Return why a library cannot be used, empty if it can; ``package`` is its name on PyPI."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        return f"{package} cannot be imported ({error}): python -m pip install {package}"
    return ""


@dataclass(frozen=True)
class Peer:
    """Contender with the same numbers as ours, or nearly.

    Attributes:
        name: name in options and reports.
        what: the call that is timed, the preparation before the clock runs, and differences of its numbers.
        uses: the uses that it takes part in.
        open: prepares a table for a number of threads. The result is bound to inputs of one shape, one set for each
            call. Raises `LeftOutError` if the peer cannot take part.
        methods: methods of compression that it takes part in; empty for all.
        module: library that it needs beyond those of every installation.
        package: name of the library on PyPI.
        exact: whether its numbers must equal ours; else they are less precise by design.
        by_empty_call: whether a call passes through the same interface as the empty call, which is then a part of it.
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
        """Return whether it computes the same as a use of a table."""
        return use.name in self.uses and (not self.methods or table.packed.method in self.methods)

    def missing(self) -> str:
        """Return why its library cannot be used, empty if it can."""
        return missing(self.module, self.package) if self.module else ""

    def opened(self, table: BenchTable, use: BenchUse, threads: int) -> Bind:
        """Call `open` after a check that its library is installed.

        Raises:
            LeftOutError: if it is not installed, or cannot take part.
        """
        if reason := self.missing():
            raise LeftOutError(reason)
        return self.open(table, use, threads)


class FunctionCalls:
    """Peer that is a Python function; its arguments are prepared before the clock runs."""

    def __init__(
        self, prepare: Callable[[Feeds], tuple[Any, ...]], call: Callable[..., Any], feeds: Feeds, calls: int
    ) -> None:
        """Prepare ``calls`` sets of arguments."""
        self._prepare, self._call = prepare, call
        self.set_inputs([feeds] * calls)

    def set_inputs(self, feeds: Sequence[Feeds]) -> None:
        """Set new arguments, one set for every call."""
        self._arguments = [self._prepare(one) for one in feeds]

    def run(self) -> None:
        """Make all calls, one after the other."""
        call = self._call
        for arguments in self._arguments:
            self._result = call(*arguments)

    @property
    def calls(self) -> int:
        """Return the number of calls that `run` makes."""
        return len(self._arguments)

    def results(self) -> Results:
        """Return the result of the last call."""
        return (np.asarray(self._result),)
