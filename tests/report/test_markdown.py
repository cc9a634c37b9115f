"""Validation report as Markdown: it is complete, and no name acts as markup."""

import re
from dataclasses import replace
from html import unescape

import pytest
from made_by_hand import GOOD, PATH, make_report
from markdown_it import MarkdownIt

from edge_embed.report.results.targets import TargetTimes
from edge_embed.report.results.validation import Check, TargetResult
from edge_embed.report.views.markdown.blocks import text
from edge_embed.report.views.markdown.validation import validation_markdown

TIMES = TargetTimes(0.5, 0.25, (0.001, 0.003))
RAN = TargetResult("local", "passed", "1 output(s)", (), "executed-native", {}, TIMES, {})
ABSENT = TargetResult("node", "not run", "no Node.js", (), "executed-native", {}, None, {})
HOSTILE = "a|b <img src=x> `c` @everyone #1 "


def test_markdown_shows_whole_report():
    failed = replace(PATH, status="failed", detail="off by 1")
    model = replace(make_report().model, paths=(failed,))
    report = validation_markdown(make_report(model=model, targets=(RAN, ABSENT)))
    assert report.startswith("### ❌ Validation of m.onnx: 2 check(s) failed\n")
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
        assert row in report, row
    assert validation_markdown(make_report()).startswith("### ✅")
    incomplete = make_report(structure=(replace(GOOD, status="not run"),))
    assert validation_markdown(incomplete).startswith("### ⚪")


@pytest.mark.parametrize(
    "words",
    [
        "a|b <img src=x> `c` *d* [e](http://f) ![g](h) ~~i~~ x:smile: $j$ k & &amp;",
        "_a_ __b__ c__d e_ _f",
        r"C:\\_g \\| \\* \\",
        HOSTILE,
    ],
)
def test_text_in_table_is_shown_as_it_is(words):
    page = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(f"| a |\n|---|\n| {text(words)} |\n")
    (cell,) = re.findall(r"<td>(.*)</td>", page)
    assert "<" not in cell
    assert unescape(cell).replace("\u200b", "") == words.strip()
    assert not re.search(r"[@#]\w", unescape(cell)), "would notify people, or link to an issue"
    assert not re.search(r"\w://", text(words)), "would be a link"


def test_text_keeps_names_legible():
    for words in ("num_codes=16, nonzeros=4", "mytask.metrics:accuracy", "0.5 to 1.25 (95 %)"):
        assert text(words) == words


def test_markdown_escapes_names_of_files_and_checks():
    report = validation_markdown(make_report(file=HOSTILE, structure=(Check(HOSTILE, "failed", HOSTILE),)))
    assert report.count(text(HOSTILE.strip())) == 3
    assert HOSTILE.strip() not in report
