"""Words of reports about the tables of a method."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Words:
    """How a report speaks of a table.

    Attributes:
        kind: of table, after "a table that is": ``product-quantised``.
        layout: the sizes of a packed form in a few letters, from its attributes.
        selects: the stored numbers that tell rows apart.
        made_of: the stored numbers that rows are made of.
        begin: how the names of the tensors begin that hold those.
        smaller: how a user gets a smaller table.
    """

    kind: str
    layout: Callable[[Mapping[str, Any]], str]
    selects: str
    made_of: str
    begin: str
    smaller: str


def method_words(method: str, embedding_dim: int, settings: Mapping[str, Any]) -> str:
    """The method of a table; ``rows (as dpq)`` for rounded rows, which files store as DPQ of one column a group.

    Args:
        method: ``dpq``, ...
        embedding_dim: columns d.
        settings: of the packed form: ``num_groups``, ``num_row_scales``, ...
    """
    is_rounded = method == "dpq" and settings.get("num_row_scales") and settings.get("num_groups") == embedding_dim
    return "rows (as dpq)" if is_rounded else method
