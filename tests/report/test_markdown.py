"""Validation report as Markdown: it is complete, and no name acts as markup."""

from dataclasses import replace

from made_by_hand import GOOD, PATH, make_report

from edge_embed.report.results.targets import TargetTimes
from edge_embed.report.results.validation import Check, TargetResult
from edge_embed.report.views.markdown.validation import validation_markdown

TIMES = TargetTimes(0.5, 0.25, (0.001, 0.003))
RAN = TargetResult("local", "passed", "1 output(s)", (), "executed-native", {}, TIMES, {})
ABSENT = TargetResult("node", "not run", "no Node.js", (), "executed-native", {}, None, {})
HOSTILE = "a|b <img src=x> `c` @everyone #1 "


def test_markdown_shows_whole_report():
    failed = replace(PATH, status="failed", detail="off by 1")
    model = replace(make_report().model, paths=(failed,))
    text = validation_markdown(make_report(model=model, targets=(RAN, ABSENT)))
    assert text.startswith("### ❌ Validation of m.onnx: 2 check(s) failed\n")
    for row in (
        "| ❌ | model | portable body | off by 1 |",
        "| ⚪ | target | node | no Node.js |",
        "| word, dpq | 50 x 12 | 2,400 | 400 | 6.0x |",
        "| on disk | 900 |",
        "| word codes | 400 |",
        "| table word, 1 ids, uniform / empty call | 1.25 (1.20 to 1.30) |",
        "| ✅ local | executed-native | 500.00 | 250.00 | 2.00 |",
        "| ⚪ node |  |  |  |  |",
        "<details><summary>5 passed</summary>",
        "<sub>seed 0, processor some</sub>",
    ):
        assert row in text, row
    assert validation_markdown(make_report()).startswith("### ✅")
    incomplete = make_report(structure=(replace(GOOD, status="not run"),))
    assert validation_markdown(incomplete).startswith("### ⚪")


def test_markdown_escapes_markup_in_names():
    text = validation_markdown(make_report(file=HOSTILE, structure=(Check(HOSTILE, "failed", HOSTILE),)))
    for mark in ("<img", "`", "@everyone", "#1 "):
        assert mark not in text
