"""WebAssembly modules: the names that one imports and exports."""

from dataclasses import dataclass

from edge_embed.errors import BadInputError

_MAGIC = b"\0asm\1\0\0\0"
_IMPORTS, _EXPORTS = 2, 7  # numbers of sections


@dataclass(frozen=True)
class Module:
    """Interface of a module.

    Attributes:
        imports: number of functions, memories and other parts that it imports.
        exports: names that it exports.
    """

    imports: int
    exports: frozenset[str]


def read_module(data: bytes) -> Module:
    """Return the interface of a module.

    Raises:
        BadInputError: it is no module, or damaged.
    """
    if not data.startswith(_MAGIC):
        raise BadInputError("got no WebAssembly module, expected one of version 1")
    try:
        return _read(data)
    except IndexError as error:
        raise BadInputError("the WebAssembly module ends within a section: build it again") from error


def _read(data: bytes) -> Module:
    imports, exports, at = 0, [], len(_MAGIC)
    while at < len(data):
        section = data[at]
        size, start = _number(data, at + 1)
        at = start + size
        if section == _IMPORTS:
            imports, _ = _number(data, start)
        elif section == _EXPORTS:
            count, place = _number(data, start)
            for _ in range(count):
                length, place = _number(data, place)
                exports.append(data[place : place + length].decode())
                _, place = _number(data, place + length + 1)  # after the kind: an index
    if at != len(data):
        raise IndexError
    return Module(imports, frozenset(exports))


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned LEB128 number, and the place after it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
