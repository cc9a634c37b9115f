"""Opaque torch operators of a table, one for each use, all derived from the function that computes its rows.

    rows    ids [*]                                             -> E[ids]           [*, d]
    bag     ids [N], offsets [B + 1], sample_weights [N], mode  -> reduced E[ids]   [B, d]
    logits  hidden [*, d]                                       -> hidden E^T       [*, n]
    topk    hidden [*, d], bias [n], k                          -> the k largest logits [*, k], and their ids

During capture, a layer calls them on its parameters. Lowering finds them in the graph and replaces them by the same
uses of the packed table. The arguments of a table come last and end with ``padding_idx``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from edge_embed.ops.bag import check_offsets, reduce_bags
from edge_embed.ops.logits import block_logits
from edge_embed.ops.topk import TopK, block_topk
from edge_embed.packed.packed_form import Use

# Arguments before those of the table in the schema of each use.
LEADING: dict[Use, tuple[str, ...]] = {
    "rows": ("Tensor ids",),
    "bag": ("Tensor ids", "Tensor offsets", "Tensor? sample_weights", "str mode"),
    "logits": ("Tensor hidden",),
    "topk": ("Tensor hidden", "Tensor? bias", "int k"),
}
_RETURNS: dict[Use, str] = {"rows": "Tensor", "bag": "Tensor", "logits": "Tensor", "topk": "(Tensor, Tensor)"}


@dataclass(frozen=True, eq=False)
class TableOperators:
    """Operators over one form of table, trainable or frozen.

    Attributes:
        name: name of the form, such as ``dpq_frozen``; the operators are ``edge_embed::<name>_<use>``.
        rows: operator that looks up rows.
        bag: operator that reduces bags of rows.
        logits: operator that multiplies with every row.
        topk: operator that finds the rows with the largest products.
        plain: functions behind the operators, differentiable if the table is.
        size: function that returns n and d from the arguments of a table.
    """

    name: str
    rows: Any
    bag: Any
    logits: Any
    topk: Any
    plain: Mapping[Use, Callable[..., Any]]
    size: Callable[..., tuple[int, int]]

    @property
    def uses(self) -> dict[Use, Any]:
        """Operators by use."""
        return {"rows": self.rows, "bag": self.bag, "logits": self.logits, "topk": self.topk}

    def __call__(self, use: Use, *arguments: Any) -> Any:
        """Compute a use; opaque during capture."""
        chosen = self.uses if torch.compiler.is_exporting() else self.plain
        return chosen[use](*arguments)


def define(
    name: str,
    table: str,
    rows: Callable[..., Tensor],
    size: Callable[..., tuple[int, int]],
    like: Callable[..., Tensor],
) -> TableOperators:
    """Register the operators of one form of table.

    Args:
        name: name of the form.
        table: schema of its arguments, ``padding_idx`` last: ``"Tensor codes, ..., int? padding_idx"``.
        rows: (ids of any shape, *table) -> [*ids, d], with a padding row of zeros; raises for ids out of range.
        size: (*table) -> n and d.
        like: (*table) -> a tensor with dtype and device of the rows.
    """
    plain = plain_uses(rows, size)
    fakes: dict[Use, Callable[..., Any]] = {
        "rows": lambda ids, *arguments: like(*arguments).new_empty(*ids.shape, size(*arguments)[1]),
        "bag": lambda ids, offsets, weights, mode, *arguments: like(*arguments).new_empty(
            offsets.shape[0] - 1, size(*arguments)[1]
        ),
        "logits": lambda hidden, *arguments: hidden.new_empty(*hidden.shape[:-1], size(*arguments)[0]),
        "topk": lambda hidden, bias, k, *arguments: (
            hidden.new_empty(*hidden.shape[:-1], k),
            hidden.new_empty(*hidden.shape[:-1], k, dtype=torch.int64),
        ),
    }
    operators: dict[str, Any] = {}
    for use, function in plain.items():
        schema = f"({', '.join(LEADING[use])}, {table}) -> {_RETURNS[use]}"
        operator = torch.library.custom_op(f"edge_embed::{name}_{use}", function, mutates_args=(), schema=schema)
        operator.register_fake(fakes[use])
        operators[use] = getattr(torch.ops.edge_embed, f"{name}_{use}").default
    return TableOperators(name, **operators, plain=plain, size=size)


def without_capture(name: str, rows: Callable[..., Tensor], size: Callable[..., tuple[int, int]]) -> TableOperators:
    """Return the uses of a form of table that is never captured as it is; see `define` for the arguments."""
    plain = plain_uses(rows, size)
    return TableOperators(name, **plain, plain=plain, size=size)


def plain_uses(rows: Callable[..., Tensor], size: Callable[..., tuple[int, int]]) -> dict[Use, Callable[..., Any]]:
    """Return the functions behind the operators of one form of table; see `define` for the arguments."""

    def bag(ids: Tensor, offsets: Tensor, sample_weights: Tensor | None, mode: str, *arguments: Any) -> Tensor:
        check_offsets(offsets, ids.shape[0])
        found = rows(ids, *arguments)
        wide = torch.promote_types(found.dtype, torch.float32)  # float16 would round after every term
        weights = None if sample_weights is None else sample_weights.to(wide)
        return reduce_bags(found.to(wide), ids, offsets, weights, mode, arguments[-1]).to(found.dtype)

    def logits(hidden: Tensor, *arguments: Any) -> Tensor:
        return block_logits(hidden, lambda ids: rows(ids, *arguments), *size(*arguments))

    def topk(hidden: Tensor, bias: Tensor | None, k: int, *arguments: Any) -> TopK:
        return block_topk(hidden, bias, k, lambda ids: rows(ids, *arguments), *size(*arguments))

    return {"rows": rows, "bag": bag, "logits": logits, "topk": topk}


def finish_rows(rows: Tensor, ids: Tensor, padding_idx: int | None) -> Tensor:
    """Reshape rows [B, d] of flattened ids to [*ids, d], with a padding row of exact zeros."""
    if padding_idx is not None:
        rows = rows.masked_fill((ids.reshape(-1) == padding_idx).unsqueeze(-1), 0.0)
    return rows.reshape(*ids.shape, rows.shape[-1])
