"""Checks of a file that was compressed in place beside the original file."""

import json
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

import edge_embed
from edge_embed.cli import main
from edge_embed.errors import BadInputError
from edge_embed.targets.target import NotRunError
from edge_embed.validation import sizes
from tests.validation.pair.models import changed, flip, pair, tensor


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pair")
    pair(folder)
    return folder


@pytest.fixture
def files(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Copy the files to the current folder, without the measurement of resident memory, which needs processes."""

    def not_measured(*_: object) -> None:
        raise NotRunError("left out")

    monkeypatch.setattr(sizes, "measure_fresh", not_measured)
    monkeypatch.chdir(shutil.copytree(made, tmp_path / "files"))
    return Path("original.onnx"), Path("small.onnx")


def test_pair_without_budget_is_checked_for_parity(files: tuple[Path, Path]) -> None:
    report = edge_embed.check(*files)
    assert (report.exit_code, report.failures()) == (0, [])
    names = {finding.name for finding in report.findings}
    assert "nodes as compress writes them" in names
    assert "table words: rows as compress reported them" in names


def test_planted_fault_in_pair_exits_with_3(files: tuple[Path, Path]) -> None:
    report = edge_embed.check(files[0], changed(files[1], lambda made: flip(tensor(made, "bias"))))
    assert report.exit_code == 3


@pytest.mark.parametrize(
    ("limits", "code"),
    [("[size]\non_disk = '1 KiB'", 4), ("[rows]\nmin_cosine = 0.9999", 3), ("[rows]\nmin_worst_cosine = 0.9999", 3),
     ("[rows]\nmax_relative_error = 0.001", 3), ("[rows]\nmin_cosine = 0.5\nmax_relative_error = 0.9", 0),
     ("[parity]\nmax = 1e-3", 0)],
)  # fmt: skip
def test_limits_of_budget_decide_exit_code(files: tuple[Path, Path], limits: str, code: int) -> None:
    Path("edge-embed.toml").write_text(f"model = 'original.onnx'\nexported = 'small.onnx'\n{limits}\n")
    report = edge_embed.check(budget="edge-embed.toml")
    assert report.exit_code == code, report.failures()


def test_pair_slower_than_original_exits_with_5(files: tuple[Path, Path]) -> None:
    limits = "[latency]\niterations = 10\n[latency.at_most]\noriginal = 0.0001\n"
    Path("edge-embed.toml").write_text(f"model = 'original.onnx'\nexported = 'small.onnx'\n{limits}")
    assert edge_embed.check(budget="edge-embed.toml").exit_code == 5


def test_limits_of_rows_require_dense_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from torch import nn

    model = nn.Sequential(edge_embed.DPQEmbedding(40, 8, num_codes=4, num_groups=2))
    edge_embed.save(model, tmp_path / "model.pt", torch.tensor([[1, 2]]))
    edge_embed.export(tmp_path / "model.pt", "onnx", tmp_path / "model.onnx")
    (tmp_path / "edge-embed.toml").write_text("[rows]\nmin_cosine = 0.5\n")
    with pytest.raises(BadInputError, match=r"\[rows\]: got limits"):
        edge_embed.check(tmp_path / "model.pt", tmp_path / "model.onnx", budget=tmp_path / "edge-embed.toml")


def test_pair_check_reports_baseline_and_growth(files: tuple[Path, Path]) -> None:
    report = edge_embed.check(*files, output="first.json", junit="check.xml", markdown="check.md", html="check.html")
    assert report.exit_code == 0
    saved = json.loads(Path("first.json").read_text())
    assert saved["validation"]["original"] == "original.onnx"
    assert saved["validation"]["tables"][0]["fidelity"]["mean_cosine"] < 1
    assert not list(ElementTree.parse("check.xml").iter("failure"))
    assert "Effect of compression" in Path("check.md").read_text()
    assert "Effect of compression" in Path("check.html").read_text()
    edge_embed.compress("original.onnx", "rows", bits=8, output="larger.onnx")
    grown = edge_embed.check("original.onnx", "larger.onnx", baseline="first.json")
    assert grown.exit_code == 4


def test_base_of_pair_is_timed_beside_it(files: tuple[Path, Path]) -> None:
    Path("edge-embed.toml").write_text("[latency]\niterations = 2\nthreshold = '10000 %'\n")
    report = edge_embed.check(*files, budget="edge-embed.toml", base=files[1])
    assert report.exit_code == 0, report.failures()
    assert report.base is not None
    assert {found.subject for found in report.base.comparisons} == {"model", "table words, rows"}


def test_metric_is_compared_with_that_of_original(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("metric_of_pair.py").write_text(
        "import numpy as np\n"
        "def first(run):\n"
        "    feeds = {'ids': np.array([[3, 4]]), 'mask': np.ones((1, 2), np.float32)}\n"
        "    return run(feeds)['logits'][0, 0]\n"
    )
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("edge-embed.toml").write_text("[metric]\nfunction = 'metric_of_pair:first'\ndrop = 1000\n")
    report = edge_embed.check(*files, budget="edge-embed.toml")
    sys.modules.pop("metric_of_pair")
    assert report.metric is not None
    assert report.metric.model != report.metric.exported


@pytest.mark.parametrize("command", ["validate", "check"])
def test_options_for_pytorch_files_are_refused(files: tuple[Path, Path], command: str) -> None:
    done = CliRunner().invoke(main, [command, *map(str, files), "--allow-pickle"])
    assert done.exit_code == 2
    assert "--allow-pickle: requires a PyTorch file" in done.output


@pytest.mark.parametrize("command", ["validate", "check"])
def test_commands_accept_a_pair(files: tuple[Path, Path], command: str) -> None:
    options = ["--iterations", "2", "--warmup", "0"] if command == "validate" else []
    done = CliRunner().invoke(main, [command, *map(str, files), "--json", *options])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["passed"]
