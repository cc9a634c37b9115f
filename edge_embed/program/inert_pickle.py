"""Reader of a pickle into inert values, which imports no class and calls nothing that the pickle names.

Numbers, texts, lists, tuples and mappings become themselves. Any other object becomes an `Inert` with the content of
the pickle. Callers give by name the few functions that may be run on their arguments.

Time and memory are proportional to the length of the stream: the machine does not recurse, keys that are costly to hash
are replaced, and instructions are counted.
"""

import pickletools
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from edge_embed.program.foreign_pickle import full_name

_MOST_INSTRUCTIONS = 1 << 23  # each can make an object of about a hundred bytes
_LARGEST_KEY = 1 << 60  # integers above that collide with smaller ones
_MARK = object()

Rebuild = Callable[..., Any]


class Named:
    """Class or function that a pickle names."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Items(dict[Any, Any]):
    """Mapping with a ``state`` that the pickle sets on it, such as the ``_metadata`` of a state_dict."""

    __slots__ = ("state",)

    def __init__(self, *content: Any) -> None:
        super().__init__(*content)
        self.state: Any = None


class Inert:
    """Content of an object in a pickle whose class was not instantiated.

    Attributes:
        name: name of the class or function.
        arguments: arguments of the call.
        state: state of the object, usually a mapping of its attributes.
        items: keys and values, if it is a mapping.
        values: values, if it is a list or set.
    """

    __slots__ = ("arguments", "items", "name", "state", "values")

    def __init__(self, name: str, arguments: Sequence[Any] = ()) -> None:
        self.name = name
        self.arguments = arguments
        self.state: Any = None
        self.items = Items()
        self.values: list[Any] = []


def read_inert(stream: IO[bytes], rebuild: Mapping[str, Rebuild], persistent: Callable[[Any], Any]) -> Any:
    """Return the value of one pickle.

    Args:
        stream: stream at the beginning of the pickle; afterwards it is at its end.
        rebuild: functions to call, by the full names of the functions that they replace.
        persistent: function that returns the value of a persistent id.

    Raises:
        ValueError: the stream is not a pickle, is truncated, or has more instructions than any checkpoint.
    """
    machine = _Machine(rebuild, persistent)
    for count, (operation, argument, _) in enumerate(pickletools.genops(stream)):
        if count >= _MOST_INSTRUCTIONS:
            raise ValueError(f"the pickle has more than {_MOST_INSTRUCTIONS} instructions")
        if operation.name == "STOP":
            return machine.pop()
        machine.run(operation.name, argument)
    raise ValueError("the pickle has no STOP instruction")


class _Machine:
    """Stack and memo of the virtual machine that runs pickles."""

    def __init__(self, rebuild: Mapping[str, Rebuild], persistent: Callable[[Any], Any]) -> None:
        self._rebuild = {**_CONTAINERS, **rebuild}
        self._persistent = persistent
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, operation: str, argument: Any) -> None:
        """Run one instruction."""
        if operation in _PUSHES:
            self._stack.append(argument)
        elif operation in _MAKES:
            self._stack.append(_MAKES[operation]())
        elif operation in _TUPLES:
            self._stack.append(tuple([self.pop() for _ in range(_TUPLES[operation])][::-1]))
        elif operation in _GETS:
            self._stack.append(self._remembered(argument))
        elif operation in _PUTS:
            self._memo[len(self._memo) if argument is None else argument] = self._top()
        elif operation not in _IGNORED:
            method = getattr(self, f"_{operation.lower()}", None)
            if method is None:
                raise ValueError(f"instruction {operation} is not allowed in a checkpoint")
            method(argument)

    def pop(self) -> Any:
        """Remove and return the last value."""
        value = self._top()
        self._stack.pop()
        return value

    def _top(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise ValueError("an instruction requires a value on an empty stack")
        return self._stack[-1]

    def _marked(self) -> list[Any]:
        """Remove and return the values behind the last mark."""
        for at in range(len(self._stack) - 1, -1, -1):
            if self._stack[at] is _MARK:
                values = self._stack[at + 1 :]
                del self._stack[at:]
                return values
        raise ValueError("an instruction requires a mark that is missing")

    def _remembered(self, key: Any) -> Any:
        if key not in self._memo:
            raise ValueError("an instruction reads a missing entry of the memo")
        return self._memo[key]

    def _mark(self, _: Any) -> None:
        self._stack.append(_MARK)

    def _pop(self, _: Any) -> None:
        if not self._stack:
            raise ValueError("an instruction requires a value on an empty stack")
        self._stack.pop()

    def _pop_mark(self, _: Any) -> None:
        self._marked()

    def _dup(self, _: Any) -> None:
        self._stack.append(self._top())

    def _list(self, _: Any) -> None:
        self._stack.append(self._marked())

    _frozenset = _list

    def _tuple(self, _: Any) -> None:
        self._stack.append(tuple(self._marked()))

    def _dict(self, _: Any) -> None:
        values = self._marked()
        self._stack.append(Items())
        self._set(values)

    def _append(self, _: Any) -> None:
        self._extend([self.pop()])

    def _appends(self, _: Any) -> None:
        self._extend(self._marked())

    _additems = _appends

    def _extend(self, values: list[Any]) -> None:
        owner = self._top()
        if isinstance(owner, Inert):
            owner.values.extend(values)
        elif isinstance(owner, list):
            owner.extend(values)

    def _setitem(self, _: Any) -> None:
        value, key = self.pop(), self.pop()
        self._set([key, value])

    def _setitems(self, _: Any) -> None:
        self._set(self._marked())

    def _set(self, values: list[Any]) -> None:
        owner = self._top()
        if len(values) % 2:
            raise ValueError("a mapping has a key without a value")
        items = owner.items if isinstance(owner, Inert) else owner
        if isinstance(items, Items):
            items.update(zip(map(_hashable, values[::2]), values[1::2], strict=True))

    def _global(self, argument: str) -> None:
        self._stack.append(Named(full_name(argument)))

    def _stack_global(self, _: Any) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise ValueError("the name of a global is not a string")
        self._stack.append(Named(full_name(f"{module} {name}")))

    def _inst(self, argument: str) -> None:
        arguments = self._marked()
        self._call(Named(full_name(argument)), arguments)

    def _obj(self, _: Any) -> None:
        called, *arguments = self._marked() or [None]
        self._call(called, arguments)

    def _reduce(self, _: Any) -> None:
        arguments, called = self.pop(), self.pop()
        self._call(called, arguments)

    _newobj = _reduce

    def _newobj_ex(self, _: Any) -> None:
        self.pop()  # keyword arguments
        self._reduce(None)

    def _call(self, called: Any, arguments: Any) -> None:
        arguments = arguments if isinstance(arguments, tuple | list) else ()
        name = called.name if isinstance(called, Named) else "?"
        try:
            self._stack.append(self._rebuild[name](*arguments) if name in self._rebuild else Inert(name, arguments))
        except TypeError as error:
            raise ValueError(f"it calls {name} with arguments that {name} does not accept") from error

    def _build(self, _: Any) -> None:
        state, owner = self.pop(), self._top()
        if isinstance(owner, Inert | Items):
            owner.state = state

    def _persid(self, argument: str) -> None:
        self._stack.append(self._persistent(argument))

    def _binpersid(self, _: Any) -> None:
        self._stack.append(self._persistent(self.pop()))


def _hashable(key: Any) -> Any:
    """Return a key if hashing it is fast and many keys cannot collide on purpose; else a substitute."""
    small = isinstance(key, int) and abs(key) < _LARGEST_KEY
    return key if small or isinstance(key, str | bytes | type(None)) else Inert("key")


def _mapping(*arguments: Any) -> Any:
    """Rebuild an ``OrderedDict``, ``defaultdict`` or ``Counter``, whose items are in its argument or follow."""
    for argument in arguments:
        if isinstance(argument, Items):
            return argument
        if isinstance(argument, list):
            pairs = [pair for pair in argument if isinstance(pair, list | tuple) and len(pair) == 2]
            return Items((_hashable(key), value) for key, value in pairs)
    return Items()


def _list(values: Any = (), *_: Any) -> Any:
    """Rebuild a set as a list, so that its values need no hashing."""
    return values if isinstance(values, list) else []


def _reconstructed(called: Any = None, *_: Any) -> Any:
    """Rebuild an object as protocols 0 and 1 write it, or ``copyreg.__newobj__``."""
    name = called.name if isinstance(called, Named) else "?"
    return _CONTAINERS[name]() if name in _CONTAINERS else Inert(name)


def _encoded(text: Any = "", *_: Any) -> Any:
    """Rebuild bytes as protocol 2 writes them."""
    return text.encode("latin-1") if isinstance(text, str) else Inert("_codecs.encode")


_CONTAINERS: dict[str, Rebuild] = {
    **{f"collections.{kind}": _mapping for kind in ("OrderedDict", "defaultdict", "Counter")},
    "builtins.dict": _mapping,
    "builtins.set": _list,
    "builtins.frozenset": _list,
    "copyreg._reconstructor": _reconstructed,
    "copyreg.__newobj__": _reconstructed,
    "_codecs.encode": _encoded,
}
_PUSHES = {
    *"INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING UNICODE".split(),
    *"BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8".split(),
}
_MAKES: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_SET": list,
    "EMPTY_DICT": Items,
}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_GETS = {"GET", "BINGET", "LONG_BINGET"}
_PUTS = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}
_IGNORED = {"PROTO", "FRAME"}
