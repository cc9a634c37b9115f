"""Compression methods by name, and the part that each has in a stage.

A stage looks the part up where it comes to a table: ``Parts("lowering")["dpq"]``. A part is an object of the stage's
own type, in the stage's own folder. It is named by its module and its name there, and imported when it is first asked
for: a list of methods loads neither torch nor onnx.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar

from edge_embed.errors import BadInputError
from edge_embed.methods.words import Words

STAGES: Mapping[str, str] = {
    "packed": "packed form",
    "operators": "torch operators",
    "lowering": "lowering",
    "nodes": "schema of ONNX nodes",
    "onnx": "body of ONNX nodes",
    "session memory": "memory of a session",
    "tflite": "TFLite form",
    "validation": "validation",
    "inspection": "inspection of saved programs",
    "fitting": "way to fit dense tables",
    "bench": "random tables for the benchmark",
    "kernels": "kernels in the C interface",
    "compress_bench": "others to compress beside",
}

# How large a file of the operator library may be, stripped: with core methods alone, and with any others.
CORE_BYTES, MOST_BYTES = 300_000, 500_000

Part = TypeVar("Part")
Key = TypeVar("Key")


@dataclass(frozen=True)
class Method:
    """A compression method.

    Attributes:
        name: the word for it at every stage, on the command line and in files.
        parts: for each stage that it takes part in, ``package.module:NAME`` of its part.
        words: of reports about its tables; None for a way to fit tables whose packed form is another method's.
        is_core: whether its kernels are in the operator library of at most `CORE_BYTES`.
    """

    name: str
    parts: Mapping[str, str]
    words: Words | None = None
    is_core: bool = False


_METHODS: dict[str, Method] = {}
_COLLECTIONS: "list[Collected[Any, Any]]" = []


def register(method: Method) -> None:
    """Make a method known to every stage that it has a part for.

    Raises:
        BadInputError: another one has its name, or it names a stage that there is not.
    """
    if method.name in _METHODS:
        raise BadInputError(f"method: got a second {method.name!r}, expected another name than {', '.join(_METHODS)}")
    if unknown := [stage for stage in method.parts if stage not in STAGES]:
        raise BadInputError(f"method {method.name}: got a part for {unknown[0]!r}, expected stages {', '.join(STAGES)}")
    _METHODS[method.name] = method
    _forget_collections()


def unregister(name: str) -> None:
    """Forget a method that `register` made known."""
    del _METHODS[name]
    _forget_collections()


def words_of(name: str) -> Words:
    """The words of reports about tables of a method."""
    words = _METHODS[name].words
    if words is None:
        raise BadInputError(f"method {name}: got a way to fit tables, expected one with a packed form of its own")
    return words


def most_library_bytes(names: Iterable[str]) -> int:
    """How large an operator library may be that has these methods."""
    are_core = all(name in _METHODS and _METHODS[name].is_core for name in names)
    return CORE_BYTES if are_core else MOST_BYTES


class Parts(Mapping[str, Part], Generic[Part]):
    """The parts in one stage by name of the method, in the order in which methods were registered."""

    def __init__(self, stage: str) -> None:
        self._stage = stage

    def __getitem__(self, name: str) -> Part:
        """Import a part.

        Raises:
            KeyError: there is no such method.
            BadInputError: it has no part in this stage.
        """
        if name not in self:
            if name not in _METHODS:
                raise KeyError(name)
            what = STAGES[self._stage]
            raise BadInputError(f"method {name}: it has no {what}; those that have one: {', '.join(self) or 'none'}")
        module, _, attribute = _METHODS[name].parts[self._stage].partition(":")
        part: Part = getattr(import_module(module), attribute)
        return part

    def __contains__(self, name: object) -> bool:
        return any(known == name for known in self)

    def __iter__(self) -> Iterator[str]:
        return (name for name, method in _METHODS.items() if self._stage in method.parts)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Collected(Mapping[Key, Part], Generic[Key, Part]):
    """A mapping made of the parts of all methods: when it is first read, and again after a method was registered."""

    def __init__(self, collect: Callable[[], Iterable[tuple[Key, Part]]]) -> None:
        self._collect, self._known = collect, None
        _COLLECTIONS.append(self)

    _known: dict[Key, Part] | None

    @property
    def _items(self) -> dict[Key, Part]:
        if self._known is None:
            self._known = dict(self._collect())
        return self._known

    def __getitem__(self, key: Key) -> Part:
        return self._items[key]

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[Key]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def forget(self) -> None:
        """Collect again when it is read next."""
        self._known = None


def _forget_collections() -> None:
    for collection in _COLLECTIONS:
        collection.forget()
