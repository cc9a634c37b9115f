"""The fixture ``edge_embed`` in a user's own test, with the plugin as pytest finds it."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

import edge_embed.workflow  # pytester forgets modules imported while it runs; torch cannot be imported twice

from .conftest import Project

pytest_plugins = ["pytester"]

TEST = """
def test_model(edge_embed):
    report = edge_embed.check("model.onnx", model="model.pt", budget="edge-embed.toml")
    assert report.passed
"""
UPDATE = "--edge-embed-update-baseline"

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run_pytest(project: Project, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the user's test in the folder of the project."""
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("COLUMNS", "300")
    (project.folder / "test_model.py").write_text(TEST)
    edge_embed.check(budget=project.budget)
    return lambda *options: pytester.runpytest_inprocess("-p", "no:cacheprovider", *options, project.folder)


def test_failures_are_reported_without_traceback(project: Project, run_pytest: Run) -> None:
    project.write_budget("[size]\non_disk = 100")
    done = run_pytest()
    assert done.ret == 1
    assert "edge-embed check: 1 failed" in done.stdout.str()
    assert f"size: on disk: {project.exported.stat().st_size:,} bytes, more than 100" in done.stdout.str()
    assert "Traceback" not in done.stdout.str()
    assert "def test_model" not in done.stdout.str()


@pytest.mark.slow
def test_baseline_is_made_kept_and_replaced_on_demand(project: Project, run_pytest: Run) -> None:
    project.write_budget('baseline = "baseline.json"')
    baseline = project.folder / "baseline.json"
    assert "no such file: expected a report of `edge-embed check`" in run_pytest().stdout.str()
    assert run_pytest(UPDATE).ret == 0
    first = json.loads(baseline.read_text())
    assert first["validation"]["sizes"]["on_disk"] == project.exported.stat().st_size
    assert run_pytest().ret == 0

    project.grow(0.01)
    done = run_pytest()
    assert done.ret == 1
    assert "size: growth: on disk" in done.stdout.str()
    assert "to accept it: pytest --edge-embed-update-baseline" in done.stdout.str()
    assert json.loads(baseline.read_text()) == first
    assert run_pytest(UPDATE).ret == 0
    assert run_pytest().ret == 0


def test_update_warns_of_dropped_parts(project: Project, run_pytest: Run) -> None:
    project.write_budget('baseline = "baseline.json"\n[targets]\nrequire = ["local"]')
    assert run_pytest(UPDATE).ret == 0
    project.write_budget('baseline = "baseline.json"')
    done = run_pytest()
    assert done.ret == 1
    assert "parity: target local: not run" in done.stdout.str()
    done = run_pytest(UPDATE)
    assert done.ret == 0
    assert "UserWarning: target local: in the replaced report" in done.stdout.str()
    assert run_pytest().ret == 0


def test_failing_state_never_becomes_baseline(project: Project, run_pytest: Run) -> None:
    project.write_budget('baseline = "baseline.json"')
    project.flip_code_bit()
    done = run_pytest(UPDATE)
    assert done.ret == 1
    assert "parity: table words: stored rows" in done.stdout.str()
    assert "baseline.json was not created: a check other than growth failed" in done.stdout.str()
    assert "baseline.json" not in project.names


@pytest.mark.slow
def test_pytest_log_does_not_enable_torch_traces(project: Project) -> None:
    """A process of its own traces the model; the tests in this one share what was traced before."""
    (project.folder / "test_model.py").write_text(TEST + "    assert False, 'the log is shown'\n")
    edge_embed.check(budget=project.budget)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", project.folder]
    printed = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, check=False).stdout
    assert "the log is shown" in printed
    assert "torch.__trace" not in printed


def test_plugin_without_use_imports_no_heavy_package() -> None:
    code = "import sys; import edge_embed.gate.pytest_plugin; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert not {"torch", "numpy", "onnx", "onnxruntime", "rich", "click"} & set(done.stdout.split())


def test_update_option_is_in_help(run_pytest: Run) -> None:
    assert UPDATE in run_pytest("--help").stdout.str()
