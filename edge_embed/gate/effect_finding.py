"""Finding on a figure of the effect of compression, and its limit in the budget."""

from edge_embed.report.beside_limit import beside_limit
from edge_embed.report.results.finding import Finding
from edge_embed.report.results.validation import Status


def effect_finding(owner: str, name: str, got: float | None, key: str, limit: float) -> Finding:
    """Return the finding.

    Args:
        owner: what the figure describes, such as a table.
        name: name of the figure.
        got: the figure, None if it is undefined.
        key: section and key of the limit; keys that begin with ``min`` are lowest values, others largest ones.
        limit: the limit.
    """
    is_least = key.rpartition(".")[2].startswith("min")
    title = f"{owner}: {name}"
    if got is None:
        return Finding("parity", title, "failed", f"undefined: values are not finite ({key})", None, limit, name)
    status: Status = "passed" if (got >= limit if is_least else got <= limit) else "failed"
    shown, bound = beside_limit(got, limit, digits=6)
    detail = f"{shown}, at {'least' if is_least else 'most'} {bound}"
    if status == "failed":
        detail = f"{shown}, {'less' if is_least else 'more'} than {bound} ({key})"
    return Finding("parity", title, status, detail, got, limit, name)
