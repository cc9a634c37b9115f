"""Lines of the keys of every JSON report, and of the exit codes of errors.

Each report is generated from the types of its fields: every optional field is present, and every list has one item.
"""

import dataclasses
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Collection as AbstractCollection
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click

import edge_embed
from edge_embed.errors import EdgeEmbedError
from edge_embed.report.results.shown import Shown
from edge_embed.supervisor import INTERRUPTED

_REPORTS = ("inspection.report", "inspection.doctor", *(f"report.results.{name}" for name in (
    "bench", "bench_activations", "bench_compress", "bench_folders", "bundled", "check", "compare", "compressed",
    "exported", "packaged", "pushed", "validation")))  # fmt: skip
_PLAIN: Mapping[Any, Any] = {str: "", int: 1, float: 1.0, bool: True, Path: Path("file"), Any: "", object: ""}


def report_lines() -> Iterator[str]:
    for module in _REPORTS:
        import_module(f"edge_embed.{module}")
    for kind in sorted(Shown.__subclasses__(), key=lambda kind: kind.__name__):
        if kind.__module__.startswith("edge_embed."):
            yield from sorted({f"{kind.__name__}{path}" for path in _paths(made_up(kind).to_json())})


def exit_lines() -> Iterator[str]:
    for kind in sorted({EdgeEmbedError, *_below(EdgeEmbedError)}, key=lambda kind: kind.__name__):
        if kind.__name__ in edge_embed.__all__:
            bases = ", ".join(base.__name__ for base in kind.__bases__)
            yield f"{kind.__name__}({bases}): {kind.exit_code}"
    yield f"usage: {click.UsageError.exit_code}"
    yield f"interrupted: {INTERRUPTED}"


def _below(kind: type[EdgeEmbedError]) -> Iterator[type[EdgeEmbedError]]:
    for below in kind.__subclasses__():
        yield below
        yield from _below(below)


def made_up(kind: Any) -> Any:
    """Return a value of a type with all optional parts."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if origin is Literal:
        return arguments[0]
    if origin in (Union, types.UnionType):
        present = [argument for argument in arguments if argument is not type(None)]
        return made_up(next((one for one in present if dataclasses.is_dataclass(one)), present[0]))
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(**{field.name: made_up(hints[field.name]) for field in dataclasses.fields(kind) if field.init})
    return _collection(origin or kind, arguments)


def _collection(origin: Any, arguments: tuple[Any, ...]) -> Any:
    if issubclass(origin, Mapping):
        return {made_up(arguments[0]): made_up(arguments[1])} if arguments else {}
    if issubclass(origin, tuple) and arguments[-1:] != (...,):
        return tuple(made_up(argument) for argument in arguments)
    make: Callable[[Iterable[Any]], Any] = tuple if issubclass(origin, tuple) else list
    assert issubclass(origin, AbstractCollection), origin
    return make([made_up(arguments[0])] if arguments else [])


def _paths(value: Any) -> Iterator[str]:
    """Yield the paths to all values, with ``.key`` for objects and ``[]`` for lists."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield f".{key}"
            yield from (f".{key}{path}" for path in _paths(below))
    elif isinstance(value, list | tuple):
        for below in value[:1]:
            yield from (f"[]{path}" for path in _paths(below))
