"""Decorator of functions that are called by hand: progress bars, hints for mistyped keywords, threads, extras."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from threading import RLock
from typing import Any, ParamSpec, TypeVar

from edge_embed.extras import named_extras
from edge_embed.keywords import check_keywords
from edge_embed.report.views.bars import bars

P = ParamSpec("P")
T = TypeVar("T")


class _Bars:
    """Default of ``progress``; `interactive` replaces it with bars."""

    def __call__(self, name: str, done: int, total: int) -> None:
        """Show nothing: this runs only where `interactive` has not replaced it with bars."""

    def __repr__(self) -> str:
        return "bars"


BARS = _Bars()

# torch's tracer and exporter change modules, operators, stderr and warning filters of the whole process.
_ONE_AT_A_TIME = RLock()


def interactive(function: Callable[P, T]) -> Callable[P, T]:
    """Show bars for a ``progress`` that is `BARS`, and suggest the keyword that an unknown one resembles.

    Decorated functions run one at a time: calls of other threads wait. A missing package is named with its extra.
    """
    parameters = signature(function).parameters
    place = list(parameters).index("progress") if "progress" in parameters else None
    takes_more = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values())

    @wraps(function)
    def called(*args: Any, **given: Any) -> T:
        if not takes_more:
            check_keywords(function.__name__, given, parameters)
        with named_extras(), _ONE_AT_A_TIME:
            if place is None or len(args) > place or given.get("progress", BARS) is not BARS:
                return function(*args, **given)
            with bars() as progress:
                return function(*args, **{**given, "progress": progress})

    return called
