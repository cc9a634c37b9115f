"""View of a calibration."""

from edge_embed.report.results.calibration import Calibration
from edge_embed.report.views.folded_table import FoldedTable

CALIBRATION_COLUMNS = ("examples", "held out", "steps", "measure on those", "before", "after")
OF_TABLES = "Figures of the tables are those before the calibration, which brings outputs closer, not rows."
_NOT_KEPT = "not closer, so the tables stay as they were"


def calibration_cells(found: Calibration) -> tuple[str, ...]:
    """Return the cells of its only row."""
    after = f"{found.after:.4g}" if found.is_kept else f"{found.after:.4g}: {_NOT_KEPT}"
    examples = f"{found.count:,} {found.unit}"
    return examples, f"{found.held_out:.0%}", f"{found.steps:,}", found.measure, f"{found.before:.4g}", after


def calibration_table(found: Calibration) -> FoldedTable:
    """Return the table for the terminal."""
    title = f"Calibration on {found.file}"
    table = FoldedTable(*CALIBRATION_COLUMNS, title=title, caption=OF_TABLES, title_justify="left")
    table.add_row(*calibration_cells(found))
    return table
