"""Targets in a budget: they must run and agree, and instruction counts must not grow."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from edge_embed import workflow
from edge_embed.cli import main
from edge_embed.gate.baseline import read_baseline
from edge_embed.gate.budget import Budget, TargetsBudget
from edge_embed.gate.quantities import read_growth
from edge_embed.gate.target_findings import target_findings
from edge_embed.report.results.finding import Finding
from edge_embed.report.results.validation import TargetResult, ValidationReport
from edge_embed.validation.options import ValidationOptions

from .conftest import Project


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


def test_required_target_runs_within_bounds(project: Project) -> None:
    project.write_budget('[targets]\nrequire = ["local"]\n[parity]\nmax = 0.001')
    result = run("--budget", project.budget, "--json")
    assert result.exit_code == 0, result.output
    found = {finding["name"]: finding["status"] for finding in json.loads(result.stdout)["findings"]}
    assert found["target local"] == found["target local: logits: max"] == "passed"
    project.write_budget('[targets]\nrequire = ["local"]\n[parity]\nmax = 1e-30')
    result = run("--budget", project.budget, "--quiet")
    assert result.exit_code == 3
    assert "target local: logits: max" in result.stderr


def test_required_target_that_cannot_run_is_no_pass(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    project.write_budget('[targets]\nrequire = ["torch-cuda"]')
    result = run("--budget", project.budget, "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert (report["passed"], report["complete"], report["exit_code"]) == (True, False, 1)


@pytest.mark.parametrize("value", ['"local"', '["phone"]', "[1]", '["ssh"]'])
def test_invalid_list_of_targets_is_refused(project: Project, value: str) -> None:
    project.write_budget(f"[targets]\nrequire = {value}")
    result = run("--budget", project.budget)
    assert result.exit_code == 2
    assert "targets: require: " in result.stderr


@pytest.fixture(scope="module")
def report(original: Path) -> ValidationReport:
    program = workflow.load(original / "model.pt")
    return workflow.validate(program, original / "model.onnx", options=ValidationOptions(iterations=0))


def counted(report: ValidationReport, counters: dict[str, int]) -> ValidationReport:
    target = TargetResult("arm64:max", "passed", "", (), "executed-emulated", {}, None, counters)
    return replace(report, targets=(target,))


def baseline(folder: Path, project: Project, targets: list[Any]) -> Path:
    path = folder / "baseline.json"
    assert run("--budget", project.budget, "--output", path, "--force").exit_code == 0
    content = json.loads(path.read_text())
    content["validation"]["targets"] = targets
    path.write_text(json.dumps(content))
    return path


def instructions(report: ValidationReport, path: Path, growth: str) -> Finding:
    budget = Budget(targets=TargetsBudget(instructions=read_growth(growth)))
    (found,) = [one for one in target_findings(budget, report, read_baseline(path)) if "instructions" in one.name]
    return found


def test_instructions_may_grow_up_to_budget(report, project, tmp_path):
    path = baseline(tmp_path, project, [{"name": "arm64:max", "counters": {"instructions": 1000}}])
    for growth, now, status in (("0 B", 1000, "passed"), ("0 B", 1001, "failed"), ("1 %", 1010, "passed")):
        found = instructions(counted(report, {"instructions": now}), path, growth)
        assert (found.requirement, found.status, found.got) == ("latency", status, now), found
    assert instructions(counted(report, {"instructions": 1011}), path, "1 %").status == "failed"
    (parity,) = target_findings(Budget(), counted(report, {"loads": 5}), read_baseline(path))
    assert parity.requirement == "parity"  # without a count nothing is compared


def test_baseline_without_counts_is_not_run(report, project, tmp_path):
    path = baseline(tmp_path, project, [])
    found = instructions(counted(report, {"instructions": 7}), path, "0 B")
    assert (found.status, found.limit) == ("not run", None)
    assert "create the baseline again" in found.detail


@pytest.mark.parametrize(
    "targets", [7, [7], [{"name": 1, "counters": {}}], [{"name": "a", "counters": {"instructions": -1}}]]
)
def test_damaged_baseline_is_refused(project, tmp_path, targets):
    path = baseline(tmp_path, project, targets)
    result = run("--budget", project.budget, "--baseline", path)
    assert result.exit_code == 2
    assert "baseline.json" in result.stderr


def test_page_has_requirements_and_parts(project: Project) -> None:
    page = project.folder / "check.html"
    project.write_budget('[size]\non_disk = "1 B"')
    result = run("--budget", project.budget, "--html", page, "--quiet")
    assert result.exit_code == 4
    text = page.read_text()
    for words in ("size: on disk", "words codes", "Requirements", "table words", "currentColor"):
        assert words in text
    assert run("--budget", project.budget, "--html", project.model, "--force").exit_code == 2
