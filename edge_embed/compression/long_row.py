"""A row that is far longer than the others: it dominates the fit at the expense of the others."""

from edge_embed.fitting.dense_table import DenseTable

_FAR_LONGER = 1000  # times the mean of the others; trained tables reach some tens


def long_row(table: DenseTable) -> str:
    """Return the warning about the longest row of a table, or an empty string if it is not far longer."""
    mean = table.mean_of_others
    if not mean or table.longest <= _FAR_LONGER * mean:
        return ""
    return (
        f"row {table.longest_row} is {table.longest / mean:.3g} times as long as the others in the mean, and draws the "
        "fit to itself: is it trained? Set it to zero or to their length, or take --method rows, which has scales of "
        "its own for each row"
    )
