"""Lines of the public names in ``edge_embed.__all__``: signatures, and the methods and fields of classes."""

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any

from numpy.typing import ArrayLike

import edge_embed

# Addresses and modules of objects are not part of the contract; numpy's expanded union is shown as `ArrayLike`.
_DROPPED = re.compile(r" at 0x[0-9a-f]+|\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")


def public_lines() -> Iterator[str]:
    for name in sorted(edge_embed.__all__):
        value = getattr(edge_embed, name)
        if inspect.isclass(value):
            yield from _class_lines(name, value)
        elif callable(value):
            yield f"{name}{_signature(value)}"
        else:
            yield f"{name}: {type(value).__name__}"  # only the type, as each version has another value


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
    """Return whether a class of this package defines a member, and not one of torch or Python."""
    owner = next(base for base in kind.__mro__ if member in vars(base))
    return owner.__module__.startswith("edge_embed")


def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except ValueError:  # inherited from a class of Python, as by errors
        return ""
    return _DROPPED.sub("", str(signature).replace(str(ArrayLike), "ArrayLike"))
