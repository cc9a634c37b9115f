"""The padding row of a compressed table, from what the uses of the dense one say."""

from collections.abc import Sequence

from torch import Tensor


def padding_row(
    weight: Tensor, lookups: Sequence[int | None], bags: Sequence[int | None], has_heads: bool
) -> tuple[int | None, str]:
    """The padding row of a table, and what speaks against its compression, if anything does.

    To look rows up, padding only says that a row does not learn: it is kept where that row is zero, as the padding row
    of a compressed table is. Bags leave the row out, which has to stay so.

    Args:
        weight: [n, d].
        lookups: the padding row of each use that looks rows up.
        bags: of each use that reduces bags.
        has_heads: whether it is multiplied with all rows as well.
    """
    if not bags:
        return next((row for row in lookups if row is not None and not weight[row].any()), None), ""
    row = bags[0]
    if any(other != row for other in bags):
        return row, f"bags leave different rows out, {row} and others"
    if row is not None and (lookups or has_heads) and weight[row].any():
        return row, f"bags leave row {row} out, while others use it and it is not zero"
    return row, ""
