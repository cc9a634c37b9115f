"""Validation report in the terminal: it counts and shows failures, and escapes markup and control characters."""

import io
import json
from dataclasses import replace

import pytest
from made_by_hand import GOOD, PATH, make_report
from rich.console import Console

from edge_embed.report.results.validation import Check, ValidationReport

BAD = Check("stored rows", "failed", "row 3, group 1")
ABSENT = Check("custom op", "not run", "no library")


def shown(report: ValidationReport, verbose: bool = False, **options) -> str:
    console = Console(width=200, record=True, file=io.StringIO(), **options)
    console.print(report.render(verbose=verbose))
    return console.export_text()


def test_report_without_failures_passes_and_lists_figures():
    report = make_report()
    assert (report.passed, report.complete, report.exit_code, report.failures()) == (True, True, 0, [])
    folded = shown(report)
    assert folded.startswith("all checks that ran passed")
    assert folded.rstrip().endswith("all checks that ran passed")
    assert "passed: --verbose lists them" in folded
    assert "stored rows: all of them" not in folded
    text = shown(report, verbose=True)
    assert "-[✓] stored rows: all of them" in text
    assert "-[✓] portable body: all 100 values close" in text
    assert "all checks that ran passed" in text
    assert "1.25 (1.20 to 1.30)" in text
    assert "-[not run] latency of table word against dense Gather: too large" in text
    for number in ("2,900", "900", "700", "5,000", "810", "77", "6.0x"):
        assert number in text


@pytest.mark.parametrize(
    "changes",
    [
        {"structure": (GOOD, BAD)},
        {"tables": (replace(make_report().tables[0], checks=(BAD,)),)},
        {"tables": (replace(make_report().tables[0], paths=(GOOD, BAD)),)},
        {"model": replace(make_report().model, paths=(replace(PATH, status="failed", detail="row 3, group 1"),))},
        {"model": replace(make_report().model, kernel=BAD)},
    ],
)
def test_report_with_any_failure_fails(changes):
    report = make_report(**changes)
    assert (report.passed, report.exit_code) == (False, 3)
    (failure,) = report.failures()
    assert "row 3, group 1" in failure
    assert report.to_json()["failures"] == [failure]
    assert "1 check(s) failed" in shown(report)


def test_report_with_skipped_check_passes_but_is_incomplete():
    report = make_report(tables=(replace(make_report().tables[0], paths=(ABSENT,)),))
    assert (report.passed, report.complete, report.exit_code) == (True, False, 0)
    assert "-[not run] custom op: no library" in shown(report)
    assert "some did not run" in shown(report)


def test_json_is_unchanged_by_round_trip():
    content = make_report().to_json()
    assert json.loads(json.dumps(content, allow_nan=False)) == json.loads(json.dumps(content))
    assert content["schema_version"] == 1
    assert content["latency"]["results"][1]["ratio"] is None


def test_terminal_escapes_markup_and_controls_in_names():
    hostile = Check("[bold]x[/bold] :boom:", "failed", "\x1b[2Jgone [/] \x07")
    text = shown(make_report(structure=(hostile,)), force_terminal=True)
    assert "[bold]x[/bold] :boom:" in text
    assert "\x1b[2J" not in text
    assert "?[2Jgone [/] ?" in text
