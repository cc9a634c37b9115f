"""`edge-embed check` in a pull request: planted regressions fail with their exit code, and name the place."""

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

import edge_embed
from edge_embed import workflow
from edge_embed.cli import main
from edge_embed.runtime.library import ENVIRONMENT_NAME
from tests.error_line import error_line
from tests.full_disk import full_disk

from .conftest import Project, Tagger


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


def findings(result: Result) -> dict[str, dict[str, Any]]:
    """Return the findings of ``--json`` by requirement and name."""
    found = json.loads(result.stdout)["findings"]
    return {f"{finding['requirement']}: {finding['name']}": finding for finding in found}


@pytest.fixture
def with_baseline(project: Project) -> Project:
    """Return the project with its state as the baseline."""
    result = run("--budget", project.budget, "--output", project.folder / "baseline.json")
    assert result.exit_code == 0, result.output
    project.write_budget('baseline = "baseline.json"')
    return project


class TestRegressions:
    def test_unchanged_project_passes_without_growth(self, with_baseline: Project) -> None:
        result = run("--budget", with_baseline.budget, "--json")
        assert result.exit_code == 0, result.output
        report = json.loads(result.stdout)
        assert (report["passed"], report["complete"]) == (True, True)
        found = findings(result)
        assert found["parity: table words: stored rows"]["status"] == "passed"
        names = {name.partition(" of ")[2] for name in found if name.startswith("size: growth of")}
        parts = {"part words codes", "part words values", "part dense", "part graph", "part bodies", "part manifest"}
        assert names == {"on disk", "table words", "part vocabulary", "part metadata", *parts}
        assert set(report["grown"].values()) == {0}

    def test_flipped_code_bit_fails_parity(self, with_baseline: Project) -> None:
        with_baseline.flip_code_bit()
        result = run("--budget", with_baseline.budget, "--quiet")
        assert result.exit_code == 3
        assert "parity: table words: stored rows: codes differ at row 7" in result.stderr
        assert result.stdout == ""

    def test_growth_of_one_percent_fails_size(self, with_baseline: Project) -> None:
        grown = with_baseline.grow(0.01)
        result = run("--budget", with_baseline.budget, "--json")
        assert result.exit_code == 4
        found = findings(result)
        failed = {name for name, finding in found.items() if finding["status"] == "failed"}
        assert failed == {f"size: growth of {name}" for name in ("on disk", "part metadata", "part graph")}
        on_disk = found["size: growth of on disk"]
        assert on_disk["got"] - on_disk["limit"] == grown
        assert f"({grown:+,} since the baseline" in on_disk["detail"]

    def test_growth_is_reported_once_with_cause_and_accept_command(self, with_baseline: Project) -> None:
        torch.manual_seed(0)
        model = Tagger()
        model.words = edge_embed.DPQEmbedding(300, 16, num_codes=64, num_groups=4, padding_idx=0)
        edge_embed.save(model, with_baseline.model, torch.tensor([[3, 1, 2]]), force=True)
        edge_embed.export(with_baseline.model, "onnx", with_baseline.exported, force=True)
        result = run("--budget", with_baseline.budget, "--quiet")
        assert result.exit_code == 4
        (line,) = result.stderr.splitlines()
        assert "changed: table words: num_codes 16 -> 64;" in line
        command = f"edge-embed check --budget {with_baseline.budget} --accept"
        assert line.endswith(f"to accept it: {command}")
        accepted = run(*command.split()[2:])
        assert accepted.exit_code == 0
        assert f"{with_baseline.folder / 'baseline.json'} is the new baseline: commit it" in accepted.stdout
        assert run("--budget", with_baseline.budget).exit_code == 0

    def test_accept_writes_through_a_link(self, with_baseline: Project) -> None:
        link, shared = with_baseline.folder / "link.json", with_baseline.folder / "baseline.json"
        link.symlink_to(shared.name)
        with_baseline.grow(0.01)
        before = shared.read_bytes()
        result = run(with_baseline.model, with_baseline.exported, "--baseline", link, "--accept")
        assert result.exit_code == 0
        assert link.is_symlink()
        assert shared.read_bytes() != before

    @pytest.mark.parametrize("groups", [4, 8], ids=["trained on", "other settings"])
    def test_outdated_export_is_reported_once_with_command(self, project: Project, groups: int) -> None:
        torch.manual_seed(1)
        model = Tagger()
        model.words = edge_embed.DPQEmbedding(300, 16, num_codes=16, num_groups=groups, padding_idx=0)
        edge_embed.save(model, project.model, torch.tensor([[3, 1, 2]]), force=True)
        result = run("--budget", project.budget, "--quiet")
        assert result.exit_code == 3
        first, *others = result.stderr.splitlines()
        assert first.startswith(f"likely cause: {project.exported} was made from another state of the model")
        command = f"edge-embed export {project.model} --target onnx --output {project.exported} --force"
        assert first.endswith(f"export again: {command}")
        assert not any("likely cause" in line for line in others)

    def test_damaged_file_is_not_blamed_on_another_state(self, project: Project) -> None:
        project.flip_code_bit()
        os.utime(project.exported, (0, 0))  # a checkout may write them in this order
        result = run("--budget", project.budget, "--quiet")
        assert result.exit_code == 3
        assert "likely cause" not in result.stderr

    def test_failed_limits_name_their_keys(self, project: Project) -> None:
        project.write_budget("[size]\non_disk = 1\ntables.words = 2\nparts.graph = 3\nzipped = 9000000")
        result = run("--budget", project.budget, "--quiet")
        assert result.exit_code == 4
        keys = [line.rpartition(" (")[2] for line in result.stderr.splitlines()]
        assert keys == ["size.on_disk)", "size.tables.words)", "size.parts.graph)"]

    def test_accept_keeps_baseline_if_something_else_fails(self, with_baseline: Project) -> None:
        before = (with_baseline.folder / "baseline.json").read_bytes()
        with_baseline.flip_code_bit()
        for options, stream in ((), "stdout"), (("--quiet",), "stderr"):
            result = run("--budget", with_baseline.budget, "--accept", *options)
            assert result.exit_code == 3
            assert "baseline.json is unchanged: a check other than growth failed" in getattr(result, stream)
        assert (with_baseline.folder / "baseline.json").read_bytes() == before

    def test_unwritable_baseline_is_refused_before_the_work(self, project: Project) -> None:
        project.flip_code_bit()  # the work would find it
        places = {
            project.folder: "is a directory",
            project.folder / "absent" / "b.json": "not an existing directory",
            project.exported: "is read by this command",
        }
        for place, words in places.items():
            result = run(project.model, project.exported, "--baseline", place, "--accept")
            assert result.exit_code == 2
            assert words in result.stderr

    def test_growth_within_budget_passes(self, with_baseline: Project) -> None:
        grown = with_baseline.grow(0.01)
        for allowed, exit_code in ((grown, 0), (grown - 1, 4)):
            with_baseline.write_budget(f'baseline = "baseline.json"\n[size]\ngrowth = "{allowed} B"')
            assert run("--budget", with_baseline.budget).exit_code == exit_code

    def test_smaller_model_passes_with_negative_growth(self, project: Project) -> None:
        original = project.exported.read_bytes()
        project.grow(0.01)
        baseline = project.folder / "baseline.json"
        assert run(project.model, project.exported, "--output", baseline).exit_code == 0
        project.exported.write_bytes(original)
        result = run(project.model, project.exported, "--baseline", baseline, "--json")
        assert result.exit_code == 0
        assert json.loads(result.stdout)["grown"]["on disk"] < 0

    def test_parity_failure_precedes_size_failure(self, with_baseline: Project) -> None:
        with_baseline.flip_code_bit()
        with_baseline.grow(0.01)
        assert run("--budget", with_baseline.budget).exit_code == 3

    def test_latency_of_wrong_file_is_not_run(self, project: Project) -> None:
        project.flip_code_bit()
        project.write_budget('[latency]\niterations = 2\n[latency.at_most]\n"dense Gather" = 1.0')
        result = run("--budget", project.budget, "--json")
        assert result.exit_code == 3
        assert findings(result)["latency: beside dense Gather"]["status"] == "not run"

    @pytest.mark.parametrize("size", ["on_disk", "zipped", "resident", "tables.words", "parts.codes", "parts.library"])
    def test_size_limits_apply_to_each_size(self, project: Project, size: str) -> None:
        library = edge_embed.get_library_path().stat().st_size
        exact = {"on_disk": project.exported.stat().st_size, "tables.words": 1624, "parts.codes": 600}
        limit = exact.get(size, library if size == "parts.library" else 1 << 30)
        name = {"on_disk": "on disk"}.get(size, size.replace("tables.", "table ").replace("parts.", "part "))
        too_small = limit - 1 if limit < 1 << 30 else 1000
        for number, exit_code in ((limit, 0), (too_small, 4)):
            project.write_budget(f"[size]\n{size} = {number}")
            result = run("--budget", project.budget, "--json")
            assert result.exit_code == exit_code, result.output
            assert findings(result)[f"size: {name}"]["status"] == ("failed" if exit_code else "passed")

    @pytest.mark.parametrize("statistic", ["max", "mean", "quantile"])
    def test_parity_bounds_apply_to_each_statistic(self, project: Project, statistic: str) -> None:
        project.write_budget(f"[parity]\n{statistic} = 1.0\n[parity.outputs.logits]\n{statistic} = 0")
        result = run("--budget", project.budget, "--json")
        failed = [name for name, found in findings(result).items() if found["status"] == "failed"]
        if failed:  # some path rounds in another order than the training form
            assert result.exit_code == 3
            assert all(name.endswith(f": logits: {statistic}") for name in failed)
        project.write_budget(f"[parity]\n{statistic} = 1.0")
        result = run("--budget", project.budget, "--json")
        assert result.exit_code == 0
        assert findings(result)[f"parity: model: custom op: logits: {statistic}"]["limit"] == 1.0

    def test_size_zipped_by_another_zlib_is_not_compared(self, with_baseline: Project) -> None:
        path = with_baseline.folder / "baseline.json"
        report = json.loads(path.read_text())
        report["environment"]["zlib"] = "0.9"
        path.write_text(json.dumps(report))
        for switch, exit_code in (("false", 1), ("true", 0)):
            with_baseline.write_budget(
                f'baseline = "baseline.json"\nallow_not_run = {switch}\n[size]\nzipped_growth = "1 %"'
            )
            result = run("--budget", with_baseline.budget, "--json")
            assert (result.exit_code, json.loads(result.stdout)["complete"]) == (exit_code, False)
            assert findings(result)["size: growth of zipped"]["status"] == "not run"
        with_baseline.write_budget('baseline = "baseline.json"\n[size]\nzipped_growth = "1 %"')
        result = run("--budget", with_baseline.budget, "--quiet")
        assert result.stderr.startswith("size: growth of zipped: not run: got zlib ")
        assert "expected zlib 0.9 of the baseline" in result.stderr
        assert "`allow_not_run = true` in the budget" in result.stderr

    def test_latency_limits_apply_to_peers(self, project: Project) -> None:
        for limit, exit_code in ((1e6, 0), (0, 5)):
            project.write_budget(f'[latency]\niterations = 2\n[latency.at_most]\n"portable body" = {limit}')
            result = run("--budget", project.budget, "--json")
            assert result.exit_code == exit_code
            names = [name for name in findings(result) if name.startswith("latency: ")]
            assert "latency: model beside portable body" in names
            assert "latency: table words, 4,096 zipf ids beside portable body" in names


class TestReports:
    def test_reports_are_written_for_failures_too(self, with_baseline: Project) -> None:
        with_baseline.grow(0.01)
        places = {form: with_baseline.folder / f"out.{form}" for form in ("output", "junit", "markdown")}
        options = [part for form, path in places.items() for part in (f"--{form}", path)]
        result = run("--budget", with_baseline.budget, *options, "--json")
        assert result.exit_code == 4
        assert json.loads(places["output"].read_text()) == json.loads(result.stdout)
        suites = ElementTree.parse(places["junit"]).getroot()
        assert {suite.get("name"): suite.get("failures") for suite in suites} == {
            "parity": "0", "size": "3", "latency": "0",
        }  # fmt: skip
        for failure in suites.iter("failure"):
            assert "changed: no settings, tables or versions" in str(failure.text)
            assert str(failure.text).endswith(f"edge-embed check --budget {with_baseline.budget} --accept")
        text = places["markdown"].read_text()
        assert text.startswith("### ❌ edge-embed check: 1 failed")
        assert "| metadata |" in text

    def test_reports_replace_files_only_if_forced_and_never_inputs(self, with_baseline: Project) -> None:
        folder, budget = with_baseline.folder, ("--budget", with_baseline.budget)
        before = {path: path.read_bytes() for path in folder.iterdir()}
        (folder / "taken").write_text("precious")
        for options, message in (
            (["--junit", folder / "taken"], "--force"),
            (["--junit", folder / "absent" / "junit.xml"], "not an existing directory"),
            (["--junit", with_baseline.exported, "--force"], "is read by this command"),
            (["--markdown", with_baseline.model, "--force"], "is read by this command"),
            (["--output", with_baseline.budget, "--force"], "is read by this command"),
            (["--junit", folder / "baseline.json", "--force"], "is read by this command"),
            (["--junit", folder / "model.onnx.data"], "is read by this command"),
            (["--output", folder / "same", "--junit", folder / "same"], "is given for two outputs"),
        ):
            result = run(*budget, *options)
            assert result.exit_code == 2, options
            assert message in result.stderr
        assert {path: path.read_bytes() for path in folder.iterdir() if path.name != "taken"} == before
        assert (folder / "taken").read_text() == "precious"
        assert run(*budget, "--output", folder / "baseline.json", "--force").exit_code == 0  # the new baseline

    def test_full_disk_leaves_no_report(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        before, real = project.names, workflow.run_check
        with ExitStack() as until:

            def limited(*arguments: Any, **options: Any) -> Any:
                report = real(*arguments, **options)
                until.enter_context(full_disk(500))
                return report

            monkeypatch.setattr(workflow, "run_check", limited)
            places = ("--output", project.folder / "report.json", "--junit", project.folder / "junit.xml")
            done = run("--budget", project.budget, *places)
        assert done.exit_code == 1
        assert "cannot be written" in error_line(done)
        assert project.names == before


METRICS = """
import numpy as np
IDS = np.array([[3, 1, 2]])
def score(run):
    return -float(abs(run({"ids": IDS})["logits"]).sum())
def raises(run):
    raise RuntimeError("no data")
def nothing(run):
    return None
def not_a_number(run):
    return float("nan")
"""


class TestMetric:
    @pytest.fixture(autouse=True)
    def _module(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        (project.folder / "metrics_of_test.py").write_text(METRICS)
        monkeypatch.chdir(project.folder)

    @pytest.mark.slow
    def test_metric_is_compared_with_training_form_base_and_baseline(self, project: Project) -> None:
        project.write_budget('[metric]\nfunction = "metrics_of_test:score"\ndrop = 1e-4')
        baseline = project.folder / "baseline.json"
        assert run("--budget", project.budget, "-o", baseline).exit_code == 0
        options = ("--budget", project.budget, "--json", "--base", project.exported, "--baseline", baseline)
        result = run(*options)
        found = {name for name in findings(result) if "metric" in name}
        forms = ("the training form", "the base", "the baseline")
        assert found == {f"parity: metric metrics_of_test:score against {form}" for form in forms}
        assert json.loads(result.stdout)["metric"]["exported"] < 0

    def test_metric_drop_fails_parity(self, project: Project) -> None:
        project.write_budget('[parity]\natol = 1e3\n[metric]\nfunction = "metrics_of_test:score"\ndrop = 0.5')
        (project.folder / "baseline.json").unlink(missing_ok=True)
        baseline = project.folder / "baseline.json"
        assert run("--budget", project.budget, "-o", baseline).exit_code == 0
        report = json.loads(baseline.read_text())
        report["metric"]["exported"] += 0.6
        baseline.write_text(json.dumps(report))
        result = run("--budget", project.budget, "--baseline", baseline, "--quiet")
        assert result.exit_code == 3
        assert "metric metrics_of_test:score against the baseline" in result.stderr
        assert result.stderr.count("\n") == 1

    @pytest.mark.parametrize(
        ("function", "message"),
        [
            ("metrics_of_test:raises", "failed on the exported file: RuntimeError: no data"),
            ("metrics_of_test:nothing", "on the exported file: got None, expected a number"),
            ("metrics_of_test:not_a_number", "on the exported file: got nan, expected a finite number"),
            ("metrics_of_test:absent", "has no function absent"),
            ("no_such_module:f", "cannot be imported"),
            ("score", "expected package.module:function"),
        ],
    )
    def test_metric_without_a_number_is_bad_input(self, project: Project, function: str, message: str) -> None:
        project.write_budget(f'[metric]\nfunction = "{function}"')
        result = run("--budget", project.budget, "-o", project.folder / "report.json")
        assert result.exit_code == 2
        assert message in error_line(result)
        assert "report.json" not in project.names


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ("[size.tables]\nverbs = 1", "table verbs: the file has no table 'verbs', expected one of words"),
        ("[size.parts]\ncodec = 1", "part codec: the file has no part 'codec', expected one of dense"),
    ],
)
def test_missing_table_or_part_fails_with_a_report(project: Project, budget: str, message: str) -> None:
    project.write_budget(budget)
    report = project.folder / "report.json"
    result = run("--budget", project.budget, "--output", report)
    assert result.exit_code == 4, result.output
    assert message in " ".join(result.output.split())
    failed = [each for each in json.loads(report.read_text())["findings"] if each["status"] == "failed"]
    assert [each["got"] for each in failed] == [None]


@pytest.mark.parametrize(
    ("budget", "arguments", "message"),
    [
        (None, ["--budget", "{folder}/absent.toml"], "no such file"),
        ("[size", ["--budget", "{budget}"], "is not valid TOML"),
        ("[size]\nweight = 1", ["--budget", "{budget}"], "unknown key 'weight'"),
        ("[parity.outputs.tags]\nmax = 1.0", ["--budget", "{budget}"], "outputs]: got 'tags', expected one of logits"),
        ('[latency]\niterations = 2\n[latency.at_most]\nfoo = 1.0', ["--budget", "{budget}"], "at_most]: got 'foo'"),
        ('baseline = "absent.json"', ["--budget", "{budget}"], "absent.json: no such file"),
        ("", ["--budget", "{budget}", "--baseline", "{budget}"], "is not valid JSON"),
        ("", ["--budget", "{budget}", "--base", "{budget}"], "is a text file"),
        ("", ["--budget", "{budget}", "--base", "{folder}/absent.onnx"], "no such file"),
        ("", ["--budget", "{budget}", "--base", "{onnx}", "--base-library", "{budget}"], "cannot be registered"),
        ("", ["--budget", "{budget}", "--base", "{onnx}", "--base-library", "absent.so"], "no such file"),
        ("", ["--budget", "{budget}", "--base-library", "absent.so"], "--base"),
        (None, ["{model}"], "got no exported file"),
        (None, [], "got no model file"),
        (None, ["{budget}", "{onnx}"], "is a text file"),
        (None, ["{model}", "{budget}"], "is a text file"),
    ],
)  # fmt: skip
def test_mistakes_print_one_line_and_exit_with_2(
    project: Project, budget: str | None, arguments: list[str], message: str
) -> None:
    if budget is not None:
        project.write_budget(budget)
    names = {"folder": project.folder, "budget": project.budget, "onnx": project.exported, "model": project.model}
    before = project.names
    options = [argument.format(**names) for argument in arguments]
    result = run(*options, "--output", project.folder / "report.json")
    assert result.exit_code == 2, result.output
    assert message in error_line(result)
    assert result.stdout == ""
    assert project.names == before


def test_latency_without_library_is_not_run_and_never_passes(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edge_embed.errors import EdgeEmbedError
    from edge_embed.validation import paths

    def missing() -> Path:
        raise EdgeEmbedError("none here")

    monkeypatch.delenv(ENVIRONMENT_NAME, raising=False)
    monkeypatch.setattr(paths, "get_library_path", missing)
    limits = '[size.parts]\nlibrary = 1\n[latency.at_most]\n"portable body" = 1.0'
    project.write_budget(f"allow_not_run = true\n{limits}")
    assert run("--budget", project.budget, "--base", project.exported).exit_code == 0
    project.write_budget(limits)
    result = run("--budget", project.budget, "--base", project.exported, "--json")
    assert result.exit_code == 1
    assert not json.loads(result.stdout)["complete"]
    found = findings(result)
    for name in ("latency: model against the base", "latency: model beside portable body", "size: part library"):
        assert found[name]["status"] == "not run"
        assert found[name]["detail"]


@pytest.mark.slow
def test_json_report_has_no_nan_and_names_its_environment(project: Project) -> None:
    report = edge_embed.check(budget=project.budget, base=project.exported)
    text = json.dumps(report.to_json(), allow_nan=False)
    environment = json.loads(text)["environment"]
    assert {"python", "zlib", "edge-embed", "onnx", "numpy", "torch", "processor", "runtime"} <= environment.keys()
    assert len(environment["library"]) == 64
    assert json.loads(text)["budget"] == {"model": "model.pt", "exported": "model.onnx"}
    assert report.base is not None
    for side in report.base.sides:
        assert side.peak >= side.resident > 0
        assert side.open_seconds > 0
        assert side.first_call_seconds > 0


def test_module_object_can_be_checked(project: Project) -> None:
    import torch

    torch.manual_seed(0)
    report = edge_embed.check(Tagger(), project.exported, torch.tensor([[3, 1, 2]]))
    assert report.exit_code == 0
    assert np.isfinite(report.validation.sizes.on_disk)
    assert os.fspath(project.exported) == report.validation.file
