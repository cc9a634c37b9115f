"""Drawing of the tiers of a table: bits a number against the rank of a row, and the share of the counts."""

from typing import TYPE_CHECKING

from edge_embed.report.results.compressed import CompressedTable
from edge_embed.report.views.words import plain

if TYPE_CHECKING:  # matplotlib is an extra
    from matplotlib.axes import Axes

_ROOM = 1.25  # above the highest bar, for its label


def draw_tiers(panel: "Axes", table: CompressedTable) -> None:
    """Draw a bar for each tier: from its first to its last rank, as high as its bits a number."""
    plan = table.plan
    assert plan is not None
    begin, bits = 1, [8 * tier.nbytes / (tier.rows * table.embedding_dim) for tier in plan.tiers]
    for number, (tier, height) in enumerate(zip(plan.tiers, bits, strict=True)):
        end = begin + tier.rows
        panel.bar(begin, height, end - begin, align="edge", color=f"C{number}", edgecolor="white")
        text = f"{tier.format}\n{tier.rows:,} rows\n{tier.share:.1%} of counts"
        panel.annotate(text, ((begin * end) ** 0.5, height), ha="center", va="bottom", fontsize="small")
        begin = end
    title = plain(f"{table.name}: tiers")
    panel.set_title(title, parse_math=False)  # dollars in a name are no formula
    panel.set(xscale="log", xlabel="rank of a row by its count", ylabel="bits a number", ylim=(0, _ROOM * max(bits)))
