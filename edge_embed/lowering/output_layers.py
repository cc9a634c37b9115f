"""Output layers without a shared lookup: weights [n, d] that only compute scores of n rows.

A linear layer inside a model has the same operators. Two properties distinguish an output layer: it has more rows than
columns, and no later operator multiplies its result with weights.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import fx

from edge_embed.fitting.worth import WORTH

if TYPE_CHECKING:
    from edge_embed.lowering.dense_tables import UsedTable, UsedTables  # which imports this module


def output_layers(used: "UsedTables") -> Iterator["UsedTable"]:
    """Yield output layers with at least 5 % of the parameters, the share that `compress` uses by default."""
    calls = {call.node for table in used.tables for call in table.calls}
    for table in used.tables:
        rows, columns = table.size
        is_large = rows > columns and rows * columns >= WORTH * used.program.numbers
        if is_large and not table.looks_up and not any(_leads_to(call.node, calls) for call in table.calls):
            yield table


def _leads_to(node: fx.Node, others: set[fx.Node]) -> bool:
    """Return whether one of the others is computed from a node."""
    waiting, seen = [*node.users], set(node.users)
    while waiting:
        user = waiting.pop()
        if user in others:
            return True
        waiting += user.users.keys() - seen
        seen |= user.users.keys()
    return False
