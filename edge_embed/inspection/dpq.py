"""Forms of DPQ in a saved program: a trainable table, a frozen one, or one with row scales."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.inspection.table_forms import Forms, Sizes, TableForm, value_type
from edge_embed.ops import dpq, integers
from edge_embed.packed.dpq_shape import DPQShape


def _trainable(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> Sizes:
    groups, num_codes, width = value.shape
    num_groups = query.shape[1] // key.shape[2]
    return _shape((query.shape[0], num_groups * width), groups, num_codes, num_groups, value_type(value)), rest[-1]


def _frozen(
    codes: Tensor, value: Tensor, value_scales: Tensor | None, num_groups: int, padding_idx: int | None
) -> tuple[DPQShape, int | None]:
    groups, num_codes, width = value.shape
    stored = "int8" if value.dtype == torch.int8 else value_type(value)
    return _shape((codes.shape[0], width * num_groups), groups, num_codes, num_groups, stored), padding_idx


def scaled(
    codes: Tensor,
    value: Tensor,
    value_scales: Tensor | None,
    row_scale_codes: Tensor | None,
    row_scales: Tensor | None,
    num_groups: int,
    unused_columns: int,
    padding_idx: int | None,
) -> tuple[DPQShape, int | None]:
    """Return the sizes of a table from the arguments of `edge_embed.ops.dpq.SCALED`.

    Raises:
        BadInputError: the tensors are those of no table.
    """
    shape, padding_idx = _frozen(codes, value, value_scales, num_groups, padding_idx)
    num_row_scales = 0 if row_scales is None else len(row_scales)
    dim = shape.embedding_dim - unused_columns
    cut = replace(shape, embedding_dim=dim, num_row_scales=num_row_scales, unused_columns=unused_columns)
    return cut, padding_idx


def _integers(latent: Tensor, bits: int, padding_idx: int | None) -> Sizes:
    return integers.shape_of(int(latent.shape[0]), int(latent.shape[1]), bits), padding_idx


def _shape(size: tuple[int, int], stored: int, num_codes: int, num_groups: int, value_type: str) -> DPQShape:
    if stored not in (1, num_groups):
        raise BadInputError(f"got {stored} codebooks, expected {num_groups}, or 1 for shared subspaces")
    return DPQShape(int(size[0]), int(size[1]), num_codes, num_groups, stored != num_groups, value_type)


FORMS: Forms = {
    dpq.TRAINABLE: TableForm("trainable", _trainable),
    integers.TRAINABLE: TableForm("trainable", _integers),
    dpq.FROZEN: TableForm("frozen", _frozen),
    dpq.SCALED: TableForm("frozen", scaled),
}
