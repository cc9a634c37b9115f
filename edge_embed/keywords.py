"""Hints for mistyped keywords of functions and of constructors."""

from collections.abc import Iterable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

from edge_embed.errors import suggested

T = TypeVar("T")


def check_keywords(called: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise Python's own error for an unknown keyword, with the nearest known one or all of them."""
    known = [name for name in known if name != "self"]
    for name in given:
        if name not in known:
            hint = suggested(name, known).rstrip() or f"expected one of {', '.join(known)}"
            raise TypeError(f"{called}() got an unexpected keyword argument {name!r}: {hint}")


def suggests_keywords(kind: type[T]) -> type[T]:
    """Decorate a class so that its constructor checks the names of keywords, unless it accepts any."""
    construct = kind.__init__
    parameters = signature(construct).parameters
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return kind

    @wraps(construct)
    def checked(self: T, *args: Any, **given: Any) -> None:
        check_keywords(kind.__name__, given, parameters)
        construct(self, *args, **given)

    kind.__init__ = checked  # type: ignore[assignment]
    return kind
