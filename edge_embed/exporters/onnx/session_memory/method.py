"""Memory that a session takes for the tables of a compression method."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edge_embed.methods import Parts
from edge_embed.packed.packed_form import TableShape, Use


@dataclass(frozen=True)
class SessionMemory:
    """Memory of one node; the operator library decides the same.

    Attributes:
        uses: those for which a session may take memory.
        least: bytes from which on it takes any for a table of these sizes; 0 where it never does.
        taken: bytes that it takes at most, of a limit; the limit is None where the node has none.
    """

    uses: tuple[Use, ...]
    least: Callable[[Any], int]
    taken: Callable[[Any, int | None], int]


_MEMORIES: Parts[SessionMemory] = Parts("session memory")


def memory_uses(method: str) -> tuple[Use, ...]:
    """The uses for which a session may take memory beside a table of this method."""
    return _MEMORIES[method].uses if method in _MEMORIES else ()


def session_bytes(method: str, shape: TableShape, use: Use, limit: int | None) -> int:
    """Bytes that a session takes at most for a node with ``memory_bytes=limit``; None: without that attribute."""
    return _MEMORIES[method].taken(shape, limit) if use in memory_uses(method) else 0


def least_session_bytes(method: str, shape: TableShape, use: Use) -> int:
    """The least limit with which a session takes any for such a node; 0 where it never does."""
    return _MEMORIES[method].least(shape) if use in memory_uses(method) else 0
