"""Padding row of a compressed table, derived from the uses of the dense table."""

from collections.abc import Sequence

from torch import Tensor


def padding_row(
    weight: Tensor, lookups: Sequence[int | None], bags: Sequence[int | None], has_output_layer: bool
) -> tuple[int | None, str]:
    """Return the padding row of a table, and a reason against its compression, or an empty string.

    For lookups, padding only means that the row is not trained. It is kept if that row is zero, as the padding row of a
    compressed table is. Bags ignore the row, which must stay so.

    Args:
        weight: [n, d].
        lookups: padding row of each use that looks up rows.
        bags: padding row of each use that reduces bags.
        has_output_layer: whether an output layer also multiplies with all rows.
    """
    if not bags:
        return next((row for row in lookups if row is not None and not weight[row].any()), None), ""
    row = bags[0]
    if any(other != row for other in bags):
        return row, f"bags have different padding rows, {row} and others"
    if row is not None and (lookups or has_output_layer) and weight[row].any():
        return row, f"bags skip row {row} as padding, but other uses read it and it is not zero"
    return row, ""
