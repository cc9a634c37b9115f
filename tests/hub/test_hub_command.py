"""`edge-embed push` and the page about the Hub, with the fake Hub."""

import json
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from edge_embed.cli import main
from tests.docs.pages import DOCS, Page
from tests.hub.fake_hub import TOKEN, FakeHub

NAME = "your-name/next-words"


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, arguments)


def test_command_prints_the_commit(hub: FakeHub, bundle: Path) -> None:
    done = run("push", str(bundle), NAME, "--private", "--revision", "tiny", "--message", "first", "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    repo = hub.repos[NAME]
    assert report["commit"] == repo.branches["tiny"]
    assert (report["revision"], report["url"], repo.private) == ("tiny", f"{hub.url}/{NAME}", True)
    assert {file["name"] for file in report["files"]} == {path.name for path in bundle.iterdir()}
    assert report["changed"] is True
    for words in (f"Uploaded to {NAME}", f"Nothing changed: the same files are in {NAME}"):
        shown = run("push", str(bundle), NAME).stdout
        assert words in shown
        assert repo.branches["main"] in shown


@pytest.mark.parametrize("arguments", [["absent", NAME], ["{bundle}", "next-words"], ["{bundle}", "someone/else"]])
def test_command_tells_errors_on_one_line(hub: FakeHub, bundle: Path, arguments: list[str]) -> None:
    done = run("push", *(part.format(bundle=bundle) for part in arguments), "--quiet")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert hub.repos == {}


@pytest.mark.slow
def test_page_commands_run_as_written(hub: FakeHub, bundle: Path, saved: Path, tmp_path: Path) -> None:
    shutil.copytree(bundle, tmp_path / "app_model")
    shutil.copyfile(saved, tmp_path / "model.pt")
    environment = os.environ | {
        "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]]),
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "home"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_TOKEN": TOKEN,
    }
    blocks = [block.text for block in Page(DOCS / "deployment" / "hub.md").blocks if block.language == "text"]
    assert len(blocks) == 3
    for text in blocks:
        command = ["bash", "-euc", text] if text.startswith("edge-embed ") else ["python", "-c", text]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert {*hub.repos} == {NAME, "your-name/small-words"}
    assert [*(tmp_path / "home" / "hub").glob("models--your-name--next-words/snapshots/*/model.onnx")]
