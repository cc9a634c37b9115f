"""A row that is far longer than the others: it dominates the fit at the expense of the others."""

from edge_embed.fitting.dense_table import DenseTable

_FAR_LONGER = 1000  # times the mean of the others; trained tables reach some tens


def long_row(table: DenseTable) -> str:
    """Return the warning about the longest row of a table, or an empty string if it is not far longer."""
    mean = table.mean_of_others
    if not mean or table.longest <= _FAR_LONGER * mean:
        return ""
    return (
        f"the norm of row {table.longest_row} is {table.longest / mean:.3g} times the mean norm of the others, so the "
        "row dominates the fit; check that it is trained. Set it to zero or scale it down, or use --method rows, which "
        "stores scales for each row"
    )
