"""What makes a function pleasant to call by hand: bars by default, hints for mistyped keywords, threads, extras."""

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
    """The default of ``progress``: `interactive` puts bars in its place."""

    def __call__(self, name: str, done: int, total: int) -> None:
        """Show nothing, where no bars were put in the place of this."""

    def __repr__(self) -> str:
        return "bars"


BARS = _Bars()

# torch's tracer and exporter change modules, operators, stderr and filters of warnings for the whole process.
_ONE_AT_A_TIME = RLock()


def interactive(function: Callable[P, T]) -> Callable[P, T]:
    """Let ``progress``, if it has one, be bars where it is `BARS`; say what an unknown keyword may have meant.

    Such functions run one at a time: calls of other threads wait. A package that is missing is named with its extra.
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
