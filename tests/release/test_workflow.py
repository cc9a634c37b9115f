"""The workflow of a release: pinned, with rights only where they are needed, and with commands that exist."""

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Command

import edge_embed
from edge_embed.cli import main
from edge_embed.packages.platforms import PLATFORMS
from release.tags import TARGETS
from release.wheels import main as make_wheels

ROOT = Path(__file__).parents[2]
WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
JOBS = WORKFLOW["jobs"]
STEPS = [step for job in JOBS.values() for step in job["steps"]]
LINES = [line.strip() for step in STEPS for line in step.get("run", "").splitlines()]


def test_workflow_pins_actions_by_commit_and_runners_by_version():
    actions = [step["uses"] for step in STEPS if "uses" in step]
    assert actions
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action) for action in actions)
    runners = [job["runs-on"] for job in JOBS.values()]
    runners += [one["runner"] for one in JOBS["test"]["strategy"]["matrix"]["include"]]
    assert not [runner for runner in runners if runner.endswith("latest")]


def test_workflow_publishes_only_tags_after_tests_with_least_rights():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    rights = {name: job["permissions"] for name, job in JOBS.items() if "permissions" in job}
    assert rights == {"publish": {"id-token": "write"}, "github-release": {"contents": "write"}}
    assert all(JOBS[name]["if"] == "github.ref_type == 'tag'" for name in rights)
    assert [JOBS[name]["needs"] for name in ("test", "publish", "github-release")] == ["build", "test", "publish"]


def test_workflow_runs_every_wheel_on_its_platform_and_makes_every_package():
    wheels = [one["wheel"] for one in JOBS["test"]["strategy"]["matrix"]["include"]]
    assert [f"py3-none-{wheel}" for wheel in wheels] == [target.tag for target in TARGETS.values()]
    (loop,) = (line for line in LINES if line.startswith("for platform in "))
    assert set(loop.removeprefix("for platform in ").removesuffix("; do").split()) == set(PLATFORMS)


@pytest.mark.parametrize("start", ["edge-embed package ", "edge-embed doctor", "python -m release.wheels "])
def test_workflow_commands_have_known_options(start):
    (line,) = (line for line in LINES if line.startswith(start))
    words = shlex.split(line)
    command: Command = make_wheels if words[0] == "python" else main.commands[words[1]]
    arguments = words[3:] if words[0] == "python" else words[2:]
    command.make_context("command", arguments)  # refuses unknown options


def test_workflow_compares_tag_with_version_of_package():
    (line,) = (line for line in LINES if line.startswith("test "))
    for tag, code in ((f"v{edge_embed.__version__}", 0), ("v0.0.1", 1)):
        environment = {"GITHUB_REF_NAME": tag, "PATH": os.environ["PATH"]}
        assert subprocess.run(["sh", "-c", line], cwd=ROOT, env=environment, check=False).returncode == code
