"""Forms of ANT in a saved program: a trainable table, a mixture of anchor sets, or a frozen table."""

from torch import Tensor

from edge_embed.inspection.table_forms import Forms, Sizes, TableForm, value_type
from edge_embed.ops import ant, ant_mixture
from edge_embed.packed.ant_shape import ANTShape
from edge_embed.program.program import dtype_name


def _trainable(transform: Tensor, anchors: Tensor, padding_idx: int | None) -> Sizes:
    """Return the sizes that packing would have now; training changes which entries are zero."""
    (rows, num_anchors), dim = transform.shape, anchors.shape[1]
    padding = 0 if padding_idx is None else _positive(transform[padding_idx])
    kept = _positive(transform) - padding
    return ANTShape(rows, dim, num_anchors, kept, value_type(transform), value_type(anchors)), padding_idx


def _mixture(transform: Tensor, anchors: Tensor, set_sizes: list[int], mixing: str, padding_idx: int | None) -> Sizes:
    return _trainable(*ant_mixture.linear_form(transform, anchors, set_sizes, mixing), padding_idx)


def _frozen(
    row_offsets: Tensor,
    anchor_ids: Tensor,
    weights: Tensor,
    weight_scale: Tensor,
    anchors: Tensor,
    padding_idx: int | None,
) -> Sizes:
    (num_anchors, dim), types = anchors.shape, (dtype_name(weights.dtype), value_type(anchors))
    return ANTShape(row_offsets.shape[0] - 1, dim, num_anchors, weights.shape[0], *types), padding_idx


def _positive(transform: Tensor) -> int:
    return int((transform > 0).sum())


FORMS: Forms = {
    ant.TRAINABLE: TableForm("trainable", _trainable),
    ant_mixture.MIXTURE: TableForm("trainable", _mixture),
    ant.FROZEN: TableForm("frozen", _frozen),
}
