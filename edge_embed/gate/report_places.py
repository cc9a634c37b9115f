"""Files for the reports of a command: their paths are checked before the work, and written after it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from edge_embed.files import StrPath, check_once, keep_inputs, new_file
from edge_embed.gate.missing_checks import warnings_of_replacing
from edge_embed.report.results.check import CheckReport
from edge_embed.report.views.html.check import check_page
from edge_embed.report.views.html.compare import compare_page
from edge_embed.report.views.html.page import check_html
from edge_embed.report.views.html.validation import validation_page
from edge_embed.report.views.junit import to_junit
from edge_embed.report.views.markdown.check import check_markdown
from edge_embed.report.views.markdown.compare import compare_markdown
from edge_embed.report.views.markdown.validation import validation_markdown

Form = Callable[[Any], str]


def to_json_text(report: CheckReport) -> str:
    """Return the JSON report, which is also a baseline: stable order, and one entry a line for readable diffs."""
    return json.dumps(report.to_json(), indent=1, allow_nan=False) + "\n"


def replace_baseline(path: Path, report: CheckReport) -> tuple[str, ...]:
    """Make a report the baseline; return a sentence for each entry of the old one that this one lacks.

    Raises:
        OutputError: it cannot be written; the old one stays.
    """
    warnings = warnings_of_replacing(path, report)
    written = path.resolve() if path.is_symlink() else path  # a link stays a link
    with new_file(written, force=True) as temporary:
        temporary.write_text(to_json_text(report), encoding="utf-8")
    return warnings


def accept_report(path: Path, report: CheckReport) -> CheckReport:
    """Make a report the baseline unless a finding fails; the returned report states the outcome.

    Raises:
        OutputError: as of `replace_baseline`.
    """
    if report.exit_code:
        return replace(report, acceptance=baseline_kept(path))
    return replace(report, warnings=replace_baseline(path, report), acceptance=f"{path} is the new baseline: commit it")


def baseline_kept(path: Path) -> str:
    """Describe that a baseline was not replaced, and why."""
    state = "is unchanged" if path.exists() else "was not created"
    return f"the baseline {path} {state}: a check other than growth failed or did not run"


CHECK: Mapping[str, Form] = {
    "output": to_json_text,
    "junit": to_junit,
    "markdown": check_markdown,
    "html": check_page,
}
VALIDATION: Mapping[str, Form] = {"markdown": validation_markdown, "html": validation_page}
COMPARE: Mapping[str, Form] = {"markdown": compare_markdown, "html": compare_page}


@contextmanager
def reports_at(
    places: Mapping[str, StrPath | None],
    forms: Mapping[str, Form],
    *,
    keep: Iterable[StrPath | None],
    replaced: Path | None = None,
    force: bool,
) -> Iterator[Callable[[Any], None]]:
    """Yield a function that writes a report in every form that has a path.

    Args:
        places: path by option, a key of ``forms``; a form with None is not written.
        forms: functions that make the text of a report.
        keep: files that no report may replace, not even with ``force``, and their external data.
        replaced: the baseline, which only ``--output`` may replace.
        force: overwrite existing files.

    Raises:
        BadInputError: packages for HTML are missing; a path exists, is invalid, is an input, or is given twice.
        OutputError: a report could not be written; no partial report remains.
    """
    chosen = {option: Path(path) for option, path in places.items() if path is not None}
    if "html" in chosen:
        check_html()
    kept = list(keep)
    for option, path in chosen.items():
        keep_inputs([path], [*kept, None if option == "output" else replaced])
    check_once(chosen)
    with ExitStack() as stack:
        temporary = {option: stack.enter_context(new_file(path, force=force)) for option, path in chosen.items()}

        def write(report: Any) -> None:
            for option, path in temporary.items():
                path.write_text(forms[option](report), encoding="utf-8")

        yield write
