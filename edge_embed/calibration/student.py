"""A compressed program as a differentiable function of the rows of its tables.

Operators of tables compute with dense rows E [n, d], and opaque operators without a gradient with their arithmetic.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn import functional

from edge_embed.lowering.graph import CALLS, table_of
from edge_embed.ops.logits import check_hidden
from edge_embed.ops.operators import plain_uses
from edge_embed.ops.pairwise import product
from edge_embed.ops.recurrent import OPERATORS as RECURRENT
from edge_embed.program.program import ProgramInterpreter, ProgramModule


def _rows(ids: Tensor, table: Tensor, padding_idx: int | None) -> Tensor:
    return functional.embedding(ids, table)


def _logits(hidden: Tensor, table: Tensor, padding_idx: int | None) -> Tensor:
    """Return logits in one product: the gradient of a product in blocks copies all logits for each block."""
    check_hidden(hidden, table.shape[1])
    return product(hidden, table.to(hidden.dtype).t())


_USES = plain_uses(_rows, lambda table, padding_idx: (table.shape[0], table.shape[1])) | {"logits": _logits}
_DIFFERENTIABLE = {operator: getattr(torch.ops.aten, name).input for name, operator in RECURRENT.items()}


class Student(ProgramInterpreter):
    """Interpreter of a program with these rows in its tables.

    Args:
        module: the compressed program.
        rows: [n, d] for each table by name, of the dtype of its rows in the program.
    """

    def __init__(self, module: ProgramModule, rows: Mapping[str, Tensor]) -> None:
        super().__init__(module)
        self._tables = rows

    def run_node(self, n: fx.Node) -> Any:
        """Compute one node."""
        if n.target not in CALLS:
            return super().run_node(n)
        call = CALLS[n.target]
        arguments, _ = self.fetch_args_kwargs_from_env(n)
        return _USES[call.use](*arguments[: call.leading], self._tables[table_of(n)], arguments[-1])

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Compute one operator, by arithmetic that has a gradient."""
        return super().call_function(_DIFFERENTIABLE.get(target, target), args, kwargs)
