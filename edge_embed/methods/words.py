"""Words of reports about the tables of a method."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Words:
    """Words that a report uses for a table.

    Attributes:
        kind: kind of table, after "a table that is": ``product-quantised``.
        layout: function that returns the sizes of a packed form in a few letters, from its attributes.
        selects: name of the stored numbers that distinguish rows.
        made_of: name of the stored numbers that rows are computed from.
        begin: prefix of the names of the tensors that hold those.
        smaller: advice for a smaller table.
        why_large: function that returns the reason for a low compression ratio, from that ratio, the rows and the
            attributes of a packed form; empty without a known reason.
    """

    kind: str
    layout: Callable[[Mapping[str, Any]], str]
    selects: str
    made_of: str
    begin: str
    smaller: str
    why_large: Callable[[float, int, Mapping[str, Any]], str] = lambda ratio, rows, values: ""


def method_words(method: str, embedding_dim: int, settings: Mapping[str, Any]) -> str:
    """Return the method of a table; ``rows (as dpq)`` for rounded rows, stored as DPQ with one column a group.

    Args:
        method: ``dpq``, ...
        embedding_dim: columns d.
        settings: settings of the packed form: ``num_groups``, ``num_row_scales``, ...
    """
    is_rounded = method == "dpq" and settings.get("num_row_scales") and settings.get("num_groups") == embedding_dim
    return "rows (as dpq)" if is_rounded else method
