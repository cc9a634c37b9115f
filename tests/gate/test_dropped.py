"""Parts of an earlier report that a new one lacks: a finding, or a warning where the report is replaced."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from edge_embed.cli import main

from .conftest import Project

TABLE = {"table": "verbs", "name": "codes", "bytes": 10}
TARGET = {"name": "local", "status": "passed", "counters": {}}
METRIC = {"function": "tests:accuracy", "exported": 0.5, "model": 0.5, "base": None}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


@pytest.fixture
def earlier(project: Project) -> Any:
    """Return a function that makes a report of the project with additional parts."""
    path = project.folder / "baseline.json"
    assert run("--budget", project.budget, "--output", path).exit_code == 0
    report = json.loads(path.read_text())

    def make(metric: Any = None, target: Any = None, table: Any = None) -> str:
        report["metric"] = metric
        report["validation"]["targets"] = [target] if target else []
        report["validation"]["sizes"]["parts"] += [table] if table else []
        path.write_text(json.dumps(report))
        return str(path)

    return make


@pytest.mark.parametrize(
    ("more", "finding", "exit_code"),
    [
        ({}, None, 0),
        ({"metric": METRIC}, "parity: metric tests:accuracy: not run: measured for the baseline (0.5)", 1),
        ({"target": TARGET}, "parity: target local: not run: run for the baseline", 1),
        ({"table": TABLE}, "growth of table verbs", 0),
    ],
)
def test_dropped_part_of_baseline_is_not_run(
    project: Project, earlier: Any, more: dict[str, Any], finding: str | None, exit_code: int
) -> None:
    result = run("--budget", project.budget, "--baseline", earlier(**more), "--json")
    assert result.exit_code == exit_code
    report = json.loads(result.stdout)
    assert report["complete"] == (finding is None)
    if exit_code:
        (failure,) = report["failures"]
        assert failure.startswith(finding)
        assert "create the baseline again without it" in failure
    elif finding:
        (dropped,) = [found for found in report["findings"] if found["name"] == finding]
        assert dropped["status"] == "not run"
        assert "(--accept)" in dropped["detail"]


def test_allow_not_run_does_not_allow_a_dropped_metric(project: Project, earlier: Any) -> None:
    project.write_budget("allow_not_run = true")
    assert run("--budget", project.budget, "--baseline", earlier(metric=METRIC)).exit_code == 1


def test_report_that_replaces_another_warns_of_dropped_parts(project: Project, earlier: Any) -> None:
    path = earlier(METRIC, TARGET, TABLE)
    result = run("--budget", project.budget, "--output", path, "--force", "--quiet")
    assert result.exit_code == 0
    names = [line.split(": ")[0] for line in result.stderr.splitlines()]
    assert names == ["metric tests:accuracy", "target local", "growth of table verbs"]
    result = run("--budget", project.budget, "--output", path, "--force", "--quiet")
    assert result.stderr == ""


def test_file_that_is_no_report_is_replaced_without_warning(project: Project) -> None:
    path = project.folder / "notes.txt"
    path.write_text("mine")
    result = run("--budget", project.budget, "--output", path, "--force", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
