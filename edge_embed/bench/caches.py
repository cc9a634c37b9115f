"""Cold caches: everything that they hold is pushed out by writing a buffer that is twice the largest of them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

_UNKNOWN_BYTES = 64 << 20  # where the system does not say: more than most processors have
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def cache_sizes() -> dict[int, int]:
    """Bytes of the data caches by level; empty where the system does not say."""
    sizes: dict[int, int] = {}
    for folder in sorted(_CACHES.glob("index*")):
        kind, level, size = ((folder / name).read_text().strip() for name in ("type", "level", "size"))
        if kind != "Instruction":
            sizes[int(level)] = int(size[:-1]) * _UNITS[size[-1]]
    return sizes


def eviction_bytes() -> int:
    """Of a buffer that leaves nothing else in the caches when it is written."""
    return 2 * max(cache_sizes().values(), default=_UNKNOWN_BYTES // 2)


class Evictor:
    """Empties the caches of what was in them.

    Attributes:
        nbytes: of the buffer that is written.
    """

    def __init__(self) -> None:
        self.nbytes = eviction_bytes()
        self._buffer = np.zeros(self.nbytes, np.uint8)

    def __call__(self) -> None:
        """Read and write every line."""
        np.add(self._buffer, 1, out=self._buffer)


def evictor(cache: str) -> Callable[[], object]:
    """What is done before a call: nothing for ``warm``, everything is pushed out for ``cold``."""
    return Evictor() if cache == "cold" else lambda: None
