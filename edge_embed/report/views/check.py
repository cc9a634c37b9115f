"""View of a check on the terminal."""

from rich.console import Group, RenderableType
from rich.text import Text

from edge_embed.report.results.check import CheckReport
from edge_embed.report.views.words import line, plain


def render(report: CheckReport) -> RenderableType:
    """Return the findings as lines; failed ones come last, where the reader sees them."""
    order = ("passed", "not run", "failed")
    findings = sorted(report.shown(), key=lambda finding: (order.index(finding.status), finding.is_missing))
    lines = [line(found.status, f"{found.requirement}: {found.name}", found.detail) for found in findings]
    lines += [Text(plain(report.note))] if report.note else []
    lines += [Text(plain(f"warning: {warning}"), "yellow") for warning in report.warnings]
    return Group(*lines, Text(f"\n{report.verdict}", "bold red" if report.exit_code else "bold green"))
