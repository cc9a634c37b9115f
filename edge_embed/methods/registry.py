"""Registry of compression methods and of their parts in each stage.

A stage looks up a part when it needs it: ``Parts("lowering")["dpq"]``. A part is an object of the stage's own class in
the stage's own folder. It is registered by module and name and imported on first use, so a list of methods loads
neither torch nor onnx.
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
    "layers": "frozen layer",
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
    "compress_bench": "peers of its compression",
}

# Maximum size of the stripped operator library: with core methods only, and with any others.
CORE_BYTES, MOST_BYTES = 300_000, 500_000

Part = TypeVar("Part")
Key = TypeVar("Key")


@dataclass(frozen=True)
class Method:
    """Compression method.

    Attributes:
        name: name of the method at every stage, on the command line and in files.
        parts: ``package.module:NAME`` of its part, for each stage that it takes part in.
        words: words of reports about its tables; None for a method whose tables have another method's packed form.
        is_core: whether its kernels are in the operator library of at most `CORE_BYTES`.
    """

    name: str
    parts: Mapping[str, str]
    words: Words | None = None
    is_core: bool = False


_METHODS: dict[str, Method] = {}
_COLLECTIONS: "list[Collected[Any, Any]]" = []


def register(method: Method) -> None:
    """Register a method in every stage that it has a part for.

    Raises:
        BadInputError: its name is taken, or a stage is unknown.
    """
    if method.name in _METHODS:
        raise BadInputError(f"method: got a second {method.name!r}, expected a name other than {', '.join(_METHODS)}")
    if unknown := [stage for stage in method.parts if stage not in STAGES]:
        raise BadInputError(f"method {method.name}: got a part for {unknown[0]!r}, expected stages {', '.join(STAGES)}")
    _METHODS[method.name] = method
    _forget_collections()


def unregister(name: str) -> None:
    """Remove a method that `register` added."""
    del _METHODS[name]
    _forget_collections()


def words_of(name: str) -> Words:
    """Return the words of reports about tables of a method."""
    words = _METHODS[name].words
    if words is None:
        raise BadInputError(f"method {name}: got a method without its own packed form, expected one with it")
    return words


def most_library_bytes(names: Iterable[str]) -> int:
    """Return the maximum size of an operator library with these methods."""
    are_core = all(name in _METHODS and _METHODS[name].is_core for name in names)
    return CORE_BYTES if are_core else MOST_BYTES


class Parts(Mapping[str, Part], Generic[Part]):
    """Parts in one stage by name of the method, in the order of registration."""

    def __init__(self, stage: str) -> None:
        self._stage = stage

    def __getitem__(self, name: str) -> Part:
        """Import a part.

        Raises:
            KeyError: the method is unknown.
            BadInputError: it has no part in this stage.
        """
        if name not in self:
            if name not in _METHODS:
                raise KeyError(name)
            what = STAGES[self._stage]
            raise BadInputError(f"method {name}: it has no {what}; methods with one: {', '.join(self) or 'none'}")
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
    """Mapping collected from the parts of all methods on first use, and again after a method was registered."""

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
        """Collect again on the next use."""
        self._known = None


def _forget_collections() -> None:
    for collection in _COLLECTIONS:
        collection.forget()
