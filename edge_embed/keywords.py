"""A mistyped keyword says which one was meant: of functions and of the constructors of classes."""

from collections.abc import Iterable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

from edge_embed.errors import suggested

T = TypeVar("T")


def check_keywords(called: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise Python's own error for a keyword that is not known, with the nearest one or all of them."""
    known = [name for name in known if name != "self"]
    for name in given:
        if name not in known:
            hint = suggested(name, known).rstrip() or f"expected one of {', '.join(known)}"
            raise TypeError(f"{called}() got an unexpected keyword argument {name!r}: {hint}")


def suggests_keywords(kind: type[T]) -> type[T]:
    """Decorate a class: its constructor checks the names of keywords, unless it takes any."""
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
