"""Session memory for the tables of a compression method."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edge_embed.methods import Parts
from edge_embed.packed.packed_form import TableShape, Use


@dataclass(frozen=True)
class SessionMemory:
    """Session memory of one node; the operator library computes the same values.

    Attributes:
        uses: the uses with session memory.
        least: smallest limit in bytes with which a table of these sizes gets session memory; 0 if it never does.
        taken: upper bound in bytes for a limit; the limit is None for a node without one.
    """

    uses: tuple[Use, ...]
    least: Callable[[Any], int]
    taken: Callable[[Any, int | None], int]


_MEMORIES: Parts[SessionMemory] = Parts("session memory")


def memory_uses(method: str) -> tuple[Use, ...]:
    """Return the uses for which a table of this method may have session memory."""
    return _MEMORIES[method].uses if method in _MEMORIES else ()


def session_bytes(method: str, shape: TableShape, use: Use, limit: int | None) -> int:
    """Return the upper bound of session memory of a node with ``memory_bytes=limit``, or without it for None."""
    return _MEMORIES[method].taken(shape, limit) if use in memory_uses(method) else 0


def least_session_bytes(method: str, shape: TableShape, use: Use) -> int:
    """Return the smallest limit with which such a node gets session memory, or 0 if it never does."""
    return _MEMORIES[method].least(shape) if use in memory_uses(method) else 0
