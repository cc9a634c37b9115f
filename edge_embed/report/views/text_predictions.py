"""View of the predictions of next tokens on texts."""

from edge_embed.report.results.text_predictions import TextPredictions
from edge_embed.report.views.folded_table import FoldedTable

TEXT_TITLE = "Next tokens of texts: compressed model beside the original (informational)"
TEXT_COLUMNS = ("tokens", "KL divergence", "top-1 agreement", "acceptance", "perplexity, original", "compressed")


def text_table(texts: TextPredictions) -> FoldedTable:
    """Return the table for the terminal."""
    table = FoldedTable(*TEXT_COLUMNS, title=TEXT_TITLE, title_justify="left")
    table.add_row(*texts.figures())
    return table
