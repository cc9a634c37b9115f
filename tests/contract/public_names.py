"""What ``edge_embed.__all__`` names: signatures, and the methods and fields of classes."""

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any

from numpy.typing import ArrayLike

import edge_embed

# Where an object lies in memory and which module holds it is no promise; what numpy spells out is `ArrayLike`.
_DROPPED = re.compile(r" at 0x[0-9a-f]+|\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")


def public_lines() -> Iterator[str]:
    for name in sorted(edge_embed.__all__):
        value = getattr(edge_embed, name)
        if inspect.isclass(value):
            yield from _class_lines(name, value)
        elif callable(value):
            yield f"{name}{_signature(value)}"
        else:
            yield f"{name}: {type(value).__name__}"  # the version has another value in each


def _class_lines(name: str, kind: type) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in kind.__bases__ if base is not object)
    yield f"class {name}({bases}){_signature(kind)}"
    if dataclasses.is_dataclass(kind):
        yield from (f"{name}.{field.name}: field" for field in dataclasses.fields(kind))
    for member in sorted(dir(kind)):
        found = inspect.getattr_static(kind, member)
        if member.startswith("_") or not _is_ours(kind, member):
            continue
        if isinstance(found, property):
            yield f"{name}.{member}: property"
        elif isinstance(found, classmethod | staticmethod) or inspect.isfunction(found):
            yield f"{name}.{member}{_signature(getattr(kind, member))}"


def _is_ours(kind: type, member: str) -> bool:
    """Whether a class of this package defines it, not one of torch's or Python's."""
    owner = next(base for base in kind.__mro__ if member in vars(base))
    return owner.__module__.startswith("edge_embed")


def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except ValueError:  # of a class of Python's, which errors have theirs from
        return ""
    return _DROPPED.sub("", str(signature).replace(str(ArrayLike), "ArrayLike"))
