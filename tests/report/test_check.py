"""Reports of `check` in every form: failures stand out, and no name acts as markup."""

import io
import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from rich.console import Console

from edge_embed.gate.budget import ParityBudget
from edge_embed.gate.validation_findings import parity_findings
from edge_embed.report.results.check import BaseResult, CheckReport, Comparison, Side
from edge_embed.report.results.finding import Finding
from edge_embed.report.results.growth import Change, changed, growth_words
from edge_embed.report.results.interval import Interval
from edge_embed.report.results.validation import Check
from edge_embed.report.views.html.check import check_page
from edge_embed.report.views.html.validation import validation_page
from edge_embed.report.views.junit import to_junit
from edge_embed.report.views.markdown.blocks import text
from edge_embed.report.views.markdown.check import check_markdown

from .test_results import make_report

PARITY = Finding("parity", "table words: stored rows", "passed", "all of them")
SIZE = Finding("size", "on disk", "failed", "900 bytes, more than 800", 900, 800, "bytes")
LATENCY = Finding("latency", "model against the base", "failed", "1.2 times", 1.2, 1.1, "ratio")
ABSENT = Finding("latency", "model beside portable body", "not run", "no library", None, 1.0, "ratio", must_run=False)
MISSING = replace(ABSENT, must_run=True)
HOSTILE = "a|b <img src=x> `c` *d* [e](http://f) @everyone #1 \x1b[2J $g$ [bold]h[/bold]"


def report_of(*findings: Finding, base: BaseResult | None = None) -> CheckReport:
    return CheckReport({}, {"zlib": "1"}, findings, None, base, None, make_report(), {"on disk": 5, "graph": -3})


@pytest.mark.parametrize(
    ("found", "exit_code"),
    [
        ((), 0),
        ((PARITY, ABSENT), 0),
        ((PARITY, MISSING), 1),
        ((SIZE, MISSING), 4),
        ((PARITY, LATENCY), 5),
        ((LATENCY, SIZE), 4),
        ((LATENCY, SIZE, replace(PARITY, status="failed")), 3),
    ],
)
def test_exit_code_is_that_of_most_important_failure(found, exit_code):
    report = report_of(*found)
    assert report.exit_code == exit_code
    assert report.passed == (exit_code in (0, 1))
    assert report.complete == all(finding.status != "not run" for finding in found)
    assert len(report.failures()) == sum(finding.status == "failed" or finding == MISSING for finding in found)


def test_json_is_finite_and_names_schema():
    content = json.loads(json.dumps(report_of(PARITY, SIZE, ABSENT).to_json(), allow_nan=False))
    assert (content["schema_version"], content["kind"], content["exit_code"]) == (1, "edge-embed check", 4)
    assert content["validation"]["schema_version"] == 1
    assert content["findings"][2]["got"] is None


def test_terminal_shows_failures_last():
    console = Console(width=200, record=True, file=io.StringIO(), force_terminal=True)
    console.print(report_of(SIZE, ABSENT, replace(PARITY, name=HOSTILE)).render(verbose=True))
    shown = console.export_text()
    assert shown.index("all of them") < shown.index("no library") < shown.index("more than 800")
    assert "1 failed, 1 passed, 1 not run" in shown
    assert "[bold]h[/bold]" in shown
    assert "\x1b[2J" not in shown


def test_terminal_counts_passed_findings_and_lists_them_with_verbose():
    report = report_of(PARITY, replace(PARITY, name="other"), SIZE, ABSENT)
    folded, whole = io.StringIO(), io.StringIO()
    report.show(Console(file=folded, width=200))
    report.show(Console(file=whole, width=200), verbose=True)
    lines = folded.getvalue().splitlines()
    assert lines[:3] == [
        "-[✓] 2 passed: --verbose lists them",
        "-[not run] latency: model beside portable body: no library",
        "-[✗] size: on disk: 900 bytes, more than 800",
    ]
    assert "-[✓] parity: other: all of them\n" in whole.getvalue()
    assert "--verbose" not in whole.getvalue()


def test_junit_has_case_for_each_finding():
    hostile = replace(SIZE, name=HOSTILE, detail=HOSTILE)
    root = ElementTree.fromstring(to_junit(report_of(PARITY, hostile, ABSENT, MISSING)))
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == ["parity", "size", "latency"]
    assert [suites["size"].get(count) for count in ("tests", "failures", "skipped")] == ["1", "1", "0"]
    (case,) = suites["size"]
    assert case.get("name") == HOSTILE.replace("\x1b", "?")
    assert case.find("failure").get("message") == HOSTILE.replace("\x1b", "?")
    assert [suites["latency"].get(count) for count in ("tests", "errors", "skipped")] == ["2", "1", "1"]
    assert suites["latency"].find("testcase/skipped").get("message") == "no library"
    assert suites["latency"].find("testcase/error").get("message") == "no library"  # CI servers show errors in red
    assert suites["parity"].find("testcase/system-out").text == "all of them"


def test_markdown_escapes_markup_in_names():
    report = check_markdown(report_of(replace(SIZE, name=HOSTILE)))
    (row,) = [line for line in report.splitlines() if "everyone" in line]
    assert len(re.findall(r"(?<!\\)\|", row)) == 5
    assert text(HOSTILE.replace("\x1b", "?")) in row
    assert "\x1b" not in row


def test_markdown_shows_sizes_times_and_failures():
    sides = (
        Side("base", "old.onnx", "00", 10_000, 20_000, 0.0123, 0.001, ""),
        Side("candidate", "new.onnx", "00", None, None, None, None, "no /proc"),
    )
    measured = Comparison("model", None, Interval(1.2, 1.1, 1.3), Interval(1.1, 1.0, 1.2), 10.0, 12.0, "")
    text = check_markdown(report_of(PARITY, SIZE, base=BaseResult("how", sides, (measured,))))
    assert text.startswith("### ❌ edge-embed check: 1 failed, 1 passed, 0 not run\n")
    for row in (
        "| ❌ | size | on disk | 900 bytes, more than 800 |",
        "| on disk | 900 | +5 |",
        "| graph | 500 | -3 |",
        "| word codes | 400 |  |",
        "| model | 1.200 (1.100 to 1.300) | 1.100 (1.000 to 1.200) | 10.0 | 12.0 |",
        "| base | 12.3 | 1.0 | 10,000 | 20,000 |",
        "| candidate | no /proc |  |  |  |",
        "<details><summary>1 passed</summary>",
    ):
        assert row in text, row
    assert check_markdown(report_of(PARITY)).startswith("### ✅")
    assert check_markdown(report_of(MISSING)).startswith("### ❌ edge-embed check: 0 failed, 0 passed, 1 not run, 1 of")


def test_warnings_are_in_each_form_of_report():
    report = replace(report_of(PARITY), warnings=("metric m:f: is gone",))
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(report.render())
    texts = (console.export_text(), check_markdown(report).replace("\\:", ":"), check_page(report))
    assert all("metric m:f: is gone" in text for text in texts)
    assert report.to_json()["warnings"] == ("metric m:f: is gone",)
    assert report.exit_code == 0


def _changed(before: str, now: str) -> Change:
    return Change("table words: num_codes", before, now)


def test_log_keeps_finding_and_command_on_one_line():
    command = "edge-embed check models/a/rather/long/path/model.pt models/a/rather/long/path/model.onnx --accept"
    grown = replace(SIZE, name="growth of on disk")
    report = replace(report_of(grown, PARITY), changes=(_changed("16", "32"),), accept=command)
    out = io.StringIO()
    report.show(Console(file=out, width=80))
    lines = out.getvalue().splitlines()
    (line,) = [line for line in lines if "growth" in line]
    assert line.endswith(f"to accept it: {command}")
    assert line in str(report).splitlines()
    terminal = io.StringIO()
    report.show(Console(file=terminal, width=80, force_terminal=True, no_color=True))
    assert len(terminal.getvalue().splitlines()) > len(lines)


def test_page_shows_each_check_once():
    checks = [Check(f"check {number} of {place}", "passed", "well") for place in ("file", "table") for number in (1, 2)]
    kernel = Check("check of the kernel", "passed", "well")
    made = make_report()
    validation = replace(
        made,
        structure=tuple(checks[:2]),
        tables=(replace(made.tables[0], checks=tuple(checks[2:3]), paths=tuple(checks[3:])),),
        model=replace(made.model, kernel=kernel),
    )
    findings = (*parity_findings(ParityBudget(), validation), SIZE, LATENCY, MISSING)
    page = check_page(replace(report_of(*findings), validation=validation))
    words = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
    for check in (*checks, kernel):
        assert words.count(check.name) == 1, check.name
        assert validation_page(validation).count(check.name) == 1, check.name
    for finding in findings:
        assert words.count(f"{finding.requirement}: {finding.name}: {finding.detail}") == 1, finding.name
    assert "Sizes" in words
    assert "Checks" not in words  # the checks are among the requirements


def test_page_shows_growth_as_one_requirement():
    grown = [replace(SIZE, name=f"growth of {name}") for name in ("on disk", "table words", "part words codes")]
    report = replace(report_of(PARITY, *grown), changes=(_changed("16", "32"),), accept="edge-embed check --accept")
    page = check_page(report)
    assert page.count("table words: num_codes 16 -&gt; 32") == 1
    assert page.count("edge-embed check --accept") == 1
    assert "1 failed, 1 passed" in page


def test_growth_without_changed_parts_lists_no_parts():
    words = growth_words([replace(SIZE, name="growth of on disk")], (), {"on disk": 5, "graph": 0}, "")
    assert (
        words
        == f"on disk +5 bytes since the baseline; changed: {changed(())}; more than allowed (size.growth): on disk"
    )
