"""`edge-embed compare`: reports of check and validate side by side, and refusal of other files."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from edge_embed.cli import main

from ..error_line import error_line
from .conftest import Project


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def report(on_disk: int, accuracy: float | None, **changes: Any) -> dict[str, Any]:
    """Return a report of a check with only the compared parts."""
    latency = {"subject": "model", "peer": "portable body", "ratio": 0.5}
    measured = {"function": "tests:accuracy", "exported": accuracy, "model": 0.9, "base": None}
    return {
        "kind": "edge-embed check",
        "schema_version": 1,
        "passed": True,
        "complete": True,
        "metric": None if accuracy is None else measured,
        "base": {"comparisons": [{"subject": "model", "cpu": {"median": 1.25, "low": 1.2, "high": 1.3}}]},
        "validation": {
            "file": "model.onnx",
            "tables": [{"method": "dpq"}, {"method": "dpq"}, {"method": "ant"}],
            "sizes": {"on_disk": on_disk, "zipped": on_disk - 1, "dense_equivalent": 4000},
            "latency": {"machine": {"processor": "some"}, "results": [latency, {**latency, "ratio": None}]},
        },
        **changes,
    }


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def made(**reports: Any) -> list[Path]:
        for name, content in reports.items():
            (tmp_path / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))
        return [tmp_path / f"{name}.json" for name in reports]

    return made


def test_front_holds_candidates_that_no_other_dominates(write: Any) -> None:
    paths = write(
        large=report(2000, 0.95),
        good=report(1000, 0.9),
        beaten=report(1500, 0.9),
        equal=report(1000, 0.9, base=None),
        small=report(500, 0.7),
        wrong=report(100, 0.99, passed=False),
    )
    result = run("compare", *paths, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["kind"], found["schema_version"], found["metric"]) == ("edge-embed compare", 1, "tests:accuracy")
    assert found["front"] == ["small", "equal", "good", "large"]
    assert [one["name"] for one in found["candidates"]] == ["wrong", "small", "equal", "good", "beaten", "large"]
    small = found["candidates"][1]
    assert (small["methods"], small["on_disk"], small["zipped"], small["ratio"]) == (["dpq", "ant"], 500, 499, 8)
    assert (small["metric"], small["model_metric"]) == (0.7, 0.9)
    assert small["latency"] == {"portable body": 0.5, "its base": 1.25}
    assert [one["status"] for one in found["candidates"][:2]] == ["failed", "passed"]


def test_report_without_metric_is_listed_but_not_on_front(write: Any) -> None:
    result = run("compare", *write(first=report(10, None), second=report(20, 0.5)))
    assert result.exit_code == 0
    assert "Not on the Pareto front, because the metric is missing: first." in result.stdout
    result = run("compare", *write(first=report(10, None), second=report(20, None)))
    assert result.exit_code == 0
    assert "No report has a metric" in result.stdout


def test_reports_of_check_and_validate_are_compared(project: Project, tmp_path: Path) -> None:
    checked, validated = tmp_path / "checked.json", tmp_path / "validated.json"
    assert run("check", project.model, project.exported, "--output", checked).exit_code == 0
    result = run("validate", project.model, project.exported, "--iterations", 2, "--warmup", 0, "--json")
    validated.write_text(result.stdout)
    page, comment = tmp_path / "page.html", tmp_path / "comment.md"
    result = run("compare", checked, validated, "--html", page, "--markdown", comment, "--json")
    assert result.exit_code == 0, result.output
    size = project.exported.stat().st_size
    first, second = json.loads(result.stdout)["candidates"]
    assert (first["on_disk"], second["on_disk"], first["methods"]) == (size, size, ["dpq"])
    assert "portable body" in second["latency"]
    assert "checked" in page.read_text()
    assert f"| checked | dpq | {size:,} |" in comment.read_text()
    assert run("compare", checked, validated, "--html", page).exit_code == 2
    assert run("compare", checked, validated, "--markdown", checked, "--force").exit_code == 2


def test_page_has_figure_and_table(write: Any, tmp_path: Path) -> None:
    page, paths = tmp_path / "page.html", write(small=report(500, 0.7), wrong=report(100, 0.99, passed=False))
    assert run("compare", *paths, "--html", page, "--quiet").exit_code == 0
    text = page.read_text()
    assert "mathdefault" not in text  # numbers of a logarithmic scale are no formulas
    for words in ("Pareto front: small", "wrong (failed)", "tests:accuracy", "currentColor", "8.0x", "<svg"):
        assert words in text


OTHER = {"function": "tests:loss", "exported": 0.1, "model": 0.1, "base": None}


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (None, "got 1 report, expected 2 or more"),
        (report(10, 0.5), "first, second: got the same report twice"),
        (report(10, 0.5, metric=OTHER), "first has tests:accuracy, second has tests:loss, expected one metric"),
        ("", "is not valid JSON"),
        ("[]", "report: got []"),
        ({"error": "m.onnx: no such file", "exit_code": 2}, "got the error of a failed command (m.onnx: no such file)"),
        ({"schema_version": 1, "tables": []}, "expected a report of `edge-embed check` or `edge-embed validate`"),
        (report(10, 0.5, kind="edge-embed compare"), "kind: got 'edge-embed compare'"),
        (report(10, 0.5, schema_version=2), "schema_version: got 2, expected 1"),
        (report(10, 0.5, passed=None), "passed: got None"),
        (report(10, 0.5, validation=None), "validation: got None"),
        (report(0, 0.5), "on_disk: got 0, expected at least 1"),
        (report(10, float("nan")), "NaN is not a JSON number"),
        (report(10, 0.5, base=7), "base: got 7"),
    ],
)
def test_mistakes_print_one_line_and_exit_with_2(write: Any, tmp_path: Path, second: Any, message: str) -> None:
    paths = write(first=report(10, 0.5), **({} if second is None else {"second": second}))
    result = run("compare", *paths, "--html", tmp_path / "page.html")
    assert result.exit_code == 2
    assert message in error_line(result)
    assert not (tmp_path / "page.html").exists()


def test_reports_of_equal_names_are_named_by_path(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "report.json" for folder in ("dpq", "ant")]
    for size, path in enumerate(paths, 10):
        path.parent.mkdir()
        path.write_text(json.dumps(report(size, 0.5)))
    result = run("compare", *paths, "--json")
    assert [one["name"] for one in json.loads(result.stdout)["candidates"]] == list(map(str, paths))
