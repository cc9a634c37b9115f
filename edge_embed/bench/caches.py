"""Cold caches: writing a buffer twice as large as the largest cache evicts their content."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

_UNKNOWN_BYTES = 64 << 20  # more than most processors have, if the system reports no size
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def cache_sizes() -> dict[int, int]:
    """Return bytes of the data caches by level; empty if the system does not report them."""
    sizes: dict[int, int] = {}
    for folder in sorted(_CACHES.glob("index*")):
        kind, level, size = ((folder / name).read_text().strip() for name in ("type", "level", "size"))
        if kind != "Instruction":
            sizes[int(level)] = int(size[:-1]) * _UNITS[size[-1]]
    return sizes


def eviction_bytes() -> int:
    """Return the bytes of a buffer that evicts everything else from the caches when it is written."""
    return 2 * max(cache_sizes().values(), default=_UNKNOWN_BYTES // 2)


class Evictor:
    """Callable that empties the caches.

    Attributes:
        nbytes: bytes of the buffer that it writes.
    """

    def __init__(self) -> None:
        self.nbytes = eviction_bytes()
        self._buffer = np.zeros(self.nbytes, np.uint8)

    def __call__(self) -> None:
        """Read and write every cache line."""
        np.add(self._buffer, 1, out=self._buffer)


def evictor(cache: str) -> Callable[[], object]:
    """Return the preparation of a call: nothing for ``warm``, an `Evictor` for ``cold``."""
    return Evictor() if cache == "cold" else lambda: None
