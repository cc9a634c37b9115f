"""Forms of tensor trains and rings in a saved program: cores, and cores with a row order."""

from dataclasses import replace

from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.inspection.table_forms import Forms, Sizes, TableForm, value_type
from edge_embed.ops import tt
from edge_embed.packed.tt_shape import TTShape


def _cores(cores: list[Tensor], num_embeddings: int, padding_idx: int | None) -> tuple[TTShape, int | None]:
    rows, befores, columns, afters = zip(*(core.shape for core in cores), strict=True)
    return TTShape(num_embeddings, rows, columns, (befores[0], *afters), value_type(cores[0])), padding_idx


def _ordered(cores: list[Tensor], row_order: Tensor, num_embeddings: int, padding_idx: int | None) -> Sizes:
    if row_order.shape != (num_embeddings,):
        raise BadInputError(f"row_order: got {list(row_order.shape)}, expected [{num_embeddings}]")
    shape, padding_idx = _cores(cores, num_embeddings, padding_idx)
    return replace(shape, has_row_order=True), padding_idx


FORMS: Forms = {tt.TT: TableForm("stored", _cores), tt.ORDERED: TableForm("stored", _ordered)}
