"""View of a check on the terminal."""

from rich.console import Group, RenderableType
from rich.text import Text

from edge_embed.report.results.check import CheckReport
from edge_embed.report.views.words import folded_lines, plain


def render(report: CheckReport, verbose: bool = False) -> RenderableType:
    """Return the findings as lines; failed ones come last, where the reader sees them.

    Passed findings are counted, and listed with ``verbose``.
    """
    order = ("passed", "not run", "failed")
    findings = sorted(report.shown(), key=lambda finding: (order.index(finding.status), finding.is_missing))
    found = [(each.status, f"{each.requirement}: {each.name}", each.detail, "") for each in findings]
    lines = folded_lines(found, verbose)
    lines += [Text(plain(report.note))] if report.note else []
    lines += [Text(plain(f"warning: {warning}"), "yellow") for warning in report.warnings]
    return Group(*lines, Text(f"\n{report.verdict}", "bold red" if report.exit_code else "bold green"))
