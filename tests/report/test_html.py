"""HTML page: it shows the whole report, escapes its text, and loads no other resource."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from made_by_hand import OUTPUT, PATH, make_report

from edge_embed.errors import BadInputError
from edge_embed.report.results.targets import TargetTimes
from edge_embed.report.results.validation import Check, TargetResult
from edge_embed.report.views.html.page import check_html
from edge_embed.report.views.html.validation import validation_page


class Reader(HTMLParser):
    """Parser that collects tags, links and text of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.links, self.words = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src", "xlink:href", "srcset", "action")]

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


TARGET = TargetResult(
    "arm64:max", "passed", "1 output(s)", (OUTPUT,), "executed-emulated", {"onnxruntime": "1.2"}, None, {}
)
TIMED = TargetResult(
    "local", "passed", "1 output(s)", (OUTPUT,), "executed-native", {}, TargetTimes(0.5, 0.25, (0.001, 0.003)), {}
)


def test_page_shows_whole_report():
    text = Reader(validation_page(make_report(targets=(TARGET, TIMED)))).text
    for words in (
        "Validation of m.onnx",
        "all checks passed",
        "2,400",
        "6.0x",
        "stored rows: all of them",
        "the example",
    ):
        assert words in text
    for words in (
        "1.25 (1.20 to 1.30)",
        "empty call",
        "arm64:max",
        "executed-emulated",
        "onnxruntime 1.2",
        "processor",
    ):
        assert words in text
    for words in ("500.00", "250.00", "2.00"):  # times of the target, in ms
        assert words in text
    for words in ("portable body", "absolute error up to", "dense equivalent", "2,900"):  # in the pictures
        assert words in text


def test_page_loads_no_resource_and_runs_no_code():
    page = validation_page(make_report(targets=(TARGET,)))
    reader = Reader(page)
    assert not {"script", "iframe", "link", "img", "object", "form"} & set(reader.tags)
    assert all(link.startswith("#") for link in reader.links)
    assert "default-src 'none'" in page
    assert not re.search(r"url\((?!#)|@import", page)


def test_page_escapes_markup_in_names():
    hostile = "<script>alert(1)</script> \"' & $\\frac{1$ {{ 7*7 }}"
    output = replace(OUTPUT, name=hostile)
    report = make_report(
        file=hostile,
        structure=(Check(hostile, "failed", hostile),),
        model=replace(make_report().model, cases=(hostile,), paths=(replace(PATH, name=hostile, outputs=(output,)),)),
        latency=replace(make_report().latency, machine={hostile: hostile}),
    )
    page = validation_page(report)
    reader = Reader(page)
    assert "script" not in reader.tags
    assert hostile in "".join(reader.words)
    assert "49" not in re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL).partition("<main>")[0]


def test_pictures_are_valid_and_use_text_colour():
    page = validation_page(make_report())
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(pictures) == 3  # sizes, errors, latency
    for picture in pictures:
        ET.fromstring(picture)
        assert "currentColor" in picture
        assert "#010203" not in picture


def test_page_of_same_report_is_equal():
    assert validation_page(make_report()) == validation_page(make_report())


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, ("passed", "all checks passed")),
        ({"structure": (Check("x", "failed", "y"),)}, ("failed", "1 check(s) failed")),
        ({"structure": (Check("x", "not run", "y"),)}, ("not-run", "some did not run")),
    ],
)
def test_verdict_states_outcome_of_checks(changes, outcome):
    page = validation_page(make_report(**changes))
    (found,) = re.findall(r'<p class="verdict ([a-z-]+)">(.*?)</p>', page)
    assert found[0] == outcome[0]
    assert outcome[1] in found[1]


def test_page_without_measurements_has_no_latency():
    report = make_report()
    bare = replace(report, latency=replace(report.latency, results=()), model=replace(report.model, paths=()))
    assert "Latency" not in Reader(validation_page(bare)).words


def test_missing_jinja_is_named_with_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(BadInputError, match=r'HTML report: .*jinja2.*pip install "edge-embed\[report\]"'):
        check_html()
