"""Regular expressions of ICU, which are those of Android and of iOS."""

import ctypes
from ctypes.util import find_library
from typing import Any

import pytest

_UNKNOWN_ESCAPES_ARE_ERRORS = 512  # the flag that Android sets


def _loaded() -> tuple[ctypes.CDLL, str]:
    """Return the library, and the version that ends the names of its functions."""
    name = find_library("icui18n")
    if name is None:
        pytest.skip("ICU is missing: apt-get install libicu-dev")
    return ctypes.CDLL(name), name.rpartition(".so.")[2].partition(".")[0]


class _Icu:
    def __init__(self) -> None:
        self._library, self._version = _loaded()
        self._status = ctypes.c_int(0)

    def __call__(self, name: str, *arguments: Any, result: Any = ctypes.c_int) -> Any:
        function = self._library[f"uregex_{name}_{self._version}"]
        function.restype = result
        returned = function(*arguments, ctypes.byref(self._status))
        assert self._status.value <= 0, f"{name}: got status {self._status.value} of ICU, expected at most 0"
        return returned


def find_all(pattern: str, texts: list[str]) -> list[list[str]]:
    """Return what a pattern finds in each text."""
    icu = _Icu()
    units = pattern.encode("utf-16-le")
    flags = ctypes.c_uint32(_UNKNOWN_ESCAPES_ARE_ERRORS)
    expression = ctypes.c_void_p(icu("open", units, len(units) // 2, flags, None, result=ctypes.c_void_p))
    found = []
    for text in texts:
        content = text.encode("utf-16-le", "surrogatepass")
        icu("setText", expression, content, len(content) // 2)
        words = []
        while icu("findNext", expression, result=ctypes.c_int8):
            begin, end = (2 * icu(side, expression, 0) for side in ("start", "end"))
            words.append(content[begin:end].decode("utf-16-le", "surrogatepass"))
        found.append(words)
    return found
