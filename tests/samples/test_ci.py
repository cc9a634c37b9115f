"""Files of `samples/ci` for other repositories are complete, and their commands run there."""

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import edge_embed
from edge_embed import cli
from edge_embed.gate.budget import read_budget

from ..warm import Warm

FOLDER = Path(__file__).parents[2] / "samples" / "ci"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
WORKFLOW: dict[Any, Any] = yaml.safe_load((FOLDER / "edge-embed.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in WORKFLOW["jobs"]["check"]["steps"] if "name" in step}
UPLOADED = WORKFLOW["jobs"]["check"]["steps"][-1]["with"]["path"]
(HOOK,) = yaml.safe_load((FOLDER / "pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]


def commands() -> list[str]:
    """Return every command line of edge-embed in the folder."""
    shown = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = [line for text in (*shown, *(step["run"] for step in STEPS.values())) for line in text.splitlines()]
    return [line for line in (*lines, HOOK["entry"]) if line.startswith("edge-embed ")]


@pytest.mark.parametrize("line", commands())
def test_command_lines_have_known_options(line: str) -> None:
    _, name, *arguments = shlex.split(line)
    command = cli.main.commands[name]
    command.make_context(name, arguments)  # refuses unknown options


def test_budget_is_valid_and_named_by_workflow_and_hook() -> None:
    budget = read_budget(FOLDER / "edge-embed.toml")
    named = {path.name for path in (budget.model, budget.exported, budget.baseline) if path is not None}
    assert named == {"model.pt", "model.onnx", "edge-embed-baseline.json"}
    assert all(re.search(HOOK["files"], name) for name in (*named, "edge-embed.toml"))
    assert all(name in README for name in (path.name for path in FOLDER.iterdir() if path.name != "README.md"))
    assert WORKFLOW[True] == "pull_request"  # YAML 1.1 reads `on` as a truth value; GitHub reads it as text


def test_workflow_pins_actions_by_commit_and_packages_by_version() -> None:
    actions = [step["uses"] for step in WORKFLOW["jobs"]["check"]["steps"] if "uses" in step]
    assert len(actions) == 3
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action) for action in actions)
    packages = shlex.split(STEPS["Install"]["run"])[4:]
    assert packages[0] == f"edge-embed[export]=={edge_embed.__version__}"
    assert all(re.fullmatch(r"[\w-]+(\[export])?==[\d.]+", package) for package in packages)
    assert not WORKFLOW["jobs"]["check"]["runs-on"].endswith("latest")


def test_workflow_runs_with_base_without_model_and_exported_file_present(tmp_path: Path) -> None:
    """Each step runs as on GitHub, with the command's arguments printed instead of the command."""
    (tmp_path / "edge-embed").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "git").write_text("#!/bin/sh\nmkdir .base\n")
    for name in ("edge-embed", "git"):
        (tmp_path / name).chmod(0o755)
    shown = {}
    for name in ("Export", "Export the base", "Check"):
        command = ["bash", "-e", "-c", STEPS[name]["run"]]
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "BASE": "first"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True, check=True)
        shown[name] = done.stdout
    assert shown["Export"].split()[-1] == "--force"
    assert shown["Export the base"] == ""
    assert "--base" not in shown["Check"]


@pytest.fixture
def warm() -> Iterator[Warm]:
    with Warm() as warm:
        yield warm


@pytest.mark.slow
def test_commands_of_readme_workflow_and_hook_run_in_order(warm: Warm, tmp_path: Path) -> None:
    """The workflow's steps run on a repository whose base is its first commit."""
    if shutil.which("git") is None:
        pytest.skip("git is missing (Debian: apt-get install git)")
    shutil.copy(FOLDER / "edge-embed.toml", tmp_path)
    torch.manual_seed(0)
    table = edge_embed.DPQEmbedding(300, 16, num_codes=16, num_groups=4)
    edge_embed.save(table, tmp_path / "model.pt", torch.tensor([[3, 1, 2]]))
    variables = {f"GIT_{who}_{what}": "someone" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    variables |= {"BASE": "HEAD", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    variables |= {"PATH": os.pathsep.join([str(warm.scripts), sysconfig.get_path("scripts"), os.environ["PATH"]])}

    def run(text: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-e", "-o", "pipefail", "-c", text]  # as GitHub does
        return subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **variables}, text=True, capture_output=True, check=False
        )

    first, again = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    steps = [STEPS[name]["run"] for name in ("Export", "Export the base", "Check", "Summary")]
    commit = "git init --quiet . && git add edge-embed.toml model.pt && git commit --quiet --message first"
    for text in (first, again, commit, *steps, HOOK["entry"]):
        done = run(text)
        if done.returncode == 5:  # the base is the same model, so that timing decides nothing
            continue
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
    assert "edge-embed check: 0 failed" in (tmp_path / "summary.md").read_text()
    uploaded = {path.name for path in tmp_path.glob(UPLOADED)}
    assert {"edge-embed.json", "edge-embed.xml", "edge-embed.md"} <= uploaded

    table.value.data[0, 0] += 1  # another model, with the exported file of the old one
    edge_embed.save(table, tmp_path / "model.pt", torch.tensor([[3, 1, 2]]), force=True)
    assert run(HOOK["entry"]).returncode == 3
