"""`edge-embed check` of a TFLite file: planted regressions fail with their code, impossible options are refused."""

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from click.testing import CliRunner, Result
from torch import nn

import edge_embed
from edge_embed.cli import main
from edge_embed.gate.base_latency_tflite import compare_tflite, tflite_sides
from edge_embed.gate.budget import LatencyBudget
from edge_embed.gate.checker import Checker
from edge_embed.inspection.tflite_file import read_tflite

from .test_check import findings

pytest.importorskip("ai_edge_litert", reason="the extra edge-embed[tflite] is not installed")

EXPORTED = "words.tflite"
METRIC = """
import numpy as np
def first(run):
    return -abs(float(run({"ids": np.array([[3, 1, 2]])})["output"].sum()))
"""
SIGNATURES_METRIC = """
import numpy as np
def all_sizes(run):
    return sum(float(np.abs(run({"ids": np.arange(size)[np.newaxis]})["output"]).sum()) for size in (9, 4, 9))
def other_size(run):
    return float(run({"ids": np.ones((1, 5), int)})["output"].sum())
"""


def run(*arguments: object, command: str = "check") -> Result:
    return CliRunner().invoke(main, [command, *map(str, arguments)])


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("tflite")
    layer = edge_embed.DPQEmbedding(2000, 64, num_codes=16, num_groups=16, padding_idx=0)
    edge_embed.save(layer, folder / "words.pt", torch.tensor([[3, 1, 2]]))
    for layout in ("byte", "pairs"):
        edge_embed.export(folder / "words.pt", "tflite", folder / f"{layout}.tflite", tflite_table=layout)
    shutil.copy(folder / "byte.tflite", folder / EXPORTED)
    budget = f'model = "words.pt"\nexported = "{EXPORTED}"\nbaseline = "baseline.json"\n'
    (folder / "edge-embed.toml").write_text(budget)
    result = run(folder / "words.pt", folder / EXPORTED, "--output", folder / "baseline.json")
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def project(original: Path, tmp_path: Path) -> Path:
    """Return a separate folder with its state as the baseline."""
    return Path(shutil.copytree(original, tmp_path / "project"))


def budget(project: Path, text: str) -> Path:
    path = project / "edge-embed.toml"
    path.write_text(path.read_text() + text)
    return path


def flip_a_bit(path: Path) -> None:
    """Flip a bit of a code."""
    content = bytearray(path.read_bytes())
    content[content.index(read_tflite(path).tensors["embedding.codes"].tobytes()) + 77] ^= 1
    path.write_bytes(content)


def grow(path: Path, nbytes: int) -> None:
    """Enlarge the file by bytes that no reader uses."""
    path.write_bytes(path.read_bytes() + b"x" * nbytes)


def test_unchanged_file_passes_on_every_path(project: Path) -> None:
    result = run("--budget", project / "edge-embed.toml", "--json")
    assert result.exit_code == 0, result.output
    found = findings(result)
    assert found["parity: table embedding: litert with the delegate"]["status"] == "passed"
    assert found["parity: model: litert: output"]["status"] == "passed"
    assert found["size: growth of table embedding"]["status"] == "passed"


def test_flipped_bit_fails_parity(project: Path) -> None:
    flip_a_bit(project / EXPORTED)
    text = '[latency]\niterations = 2\nat_most."dense GATHER" = 1e9\n'
    result = run("--budget", budget(project, text), "--json")
    assert result.exit_code == 3
    found = findings(result)
    assert found["parity: table embedding: stored rows"]["status"] == "failed"
    assert found["latency: beside dense GATHER"]["detail"] == "latency is not measured after a failed check"


def test_growth_of_one_percent_fails_size_in_every_report(project: Path) -> None:
    grown = (project / EXPORTED).stat().st_size // 100
    grow(project / EXPORTED, grown)
    places = {form: project / f"report.{form}" for form in ("output", "junit", "markdown", "html")}
    options = [word for form, place in places.items() for word in (f"--{form}", place)]
    result = run("--budget", project / "edge-embed.toml", "--json", *options)
    assert result.exit_code == 4
    finding = findings(result)["size: growth of on disk"]
    assert (finding["status"], finding["got"] - finding["limit"]) == ("failed", grown)
    assert json.loads(places["output"].read_text())["exit_code"] == 4
    suites = {
        suite.get("name"): int(suite.get("failures", 0)) for suite in ElementTree.parse(places["junit"]).getroot()
    }
    assert suites["size"] > 0
    assert suites["parity"] == 0
    for place in ("markdown", "html"):
        text = places[place].read_text()
        assert "growth" in text
        assert "on disk" in text


def test_size_limits_apply_to_each_part(project: Path) -> None:
    """The codes are 8 bytes for each of 2,000 rows."""
    for limit, exit_code in ((16_000, 0), (15_999, 4)):
        path = project / "one.toml"
        path.write_text(f"[size]\nparts.codes = {limit}\n")
        assert run(project / "words.pt", project / EXPORTED, "--budget", path).exit_code == exit_code


def test_latency_beside_dense_table_has_a_limit(project: Path) -> None:
    for limit, exit_code in ((1e9, 0), (0, 5)):
        path = project / "one.toml"
        path.write_text(f'[latency]\niterations = 2\nat_most."dense GATHER" = {limit}\n')
        result = run(project / "words.pt", project / EXPORTED, "--budget", path, "--json")
        assert result.exit_code == exit_code, result.output
        names = [name for name in findings(result) if name.startswith("latency: ")]
        assert "latency: table embedding, 128 uniform ids beside dense GATHER" in names
        assert "latency: table embedding, delegate, 4,096 zipf ids beside dense GATHER" in names


def test_model_is_measured_beside_its_base(project: Path) -> None:
    program = edge_embed.workflow.load(project / "words.pt")
    sides = tflite_sides(project / "byte.tflite", project / "pairs.tflite")
    found = {one.title: one for one in compare_tflite(sides, program, LatencyBudget(iterations=2), 0).comparisons}
    many = ("model, 4,096 a call", "model with the delegate, 4,096 a call")
    assert list(found) == ["model", many[0], "model with the delegate", many[1]]
    for one in found.values():
        assert one.cpu is not None
        assert 0 < one.cpu.low <= one.cpu.median <= one.cpu.high


@pytest.mark.slow
def test_file_refused_by_delegate_only_fails_parity_beside_base(project: Path) -> None:
    path = project / EXPORTED
    shutil.copy(path, project / "base.tflite")
    content = path.read_bytes()
    assert content.count(b"codes=embedding.codes") == 1
    path.write_bytes(content.replace(b"codes=embedding.codes", b"codes=embedding.c0des"))
    places = ("--markdown", project / "check.md", "--html", project / "check.html")
    result = run(project / "words.pt", path, "--base", project / "base.tflite", "--json", *places)
    assert result.exit_code == 3, result.output
    found = findings(result)
    assert found["parity: manifest of the delegate"]["status"] == "failed"
    assert found["latency: model against the base"]["status"] != "not run"
    with_delegate = found["latency: model with the delegate against the base"]
    assert with_delegate["status"] == "not run"
    assert "the candidate does not run" in with_delegate["detail"]
    assert "model against the base" in (project / "check.md").read_text()


@pytest.mark.slow
def test_slower_layout_fails_latency_and_equal_one_passes(project: Path) -> None:
    """Byte-by-byte decoding on the same rows was measured to take 1.4 times as long as decoding by pairs."""
    for base, exit_code in (("pairs.tflite", 5), ("byte.tflite", 0)):
        result = run(project / "words.pt", project / "byte.tflite", "--base", project / base, "--json")
        assert result.exit_code == exit_code, result.stderr
        slower = {name for name, found in findings(result).items() if found["status"] == "failed"}
        assert ("latency: model, 4,096 a call against the base" in slower) == (exit_code == 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--base", "model.onnx"], "expected a base of the same format"),
        (["--base", "byte.tflite", "--base-library", "words.pt"], "got an ONNX operator library"),
        (["--base", "cut.tflite"], "damaged or not a TFLite model"),
        (["--budget", "local.toml"], "got 'local' for onnx files, expected one for tflite: litert"),
        (["--budget", "tokenizer.toml"], "tokenizer: got one, but a TFLite file has none"),
        (["--budget", "peer.toml"], "got 'portable body', expected one of dense GATHER"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.chdir(project)
    Path("model.onnx").write_bytes(b"\x08")
    Path("cut.tflite").write_bytes(Path(EXPORTED).read_bytes()[:500])
    Path("local.toml").write_text('[targets]\nrequire = ["local"]')
    Path("tokenizer.toml").write_text('tokenizer = "tokenizer.json"')
    Path("peer.toml").write_text('[latency]\niterations = 2\nat_most."portable body" = 1')
    result = run("words.pt", EXPORTED, *options)
    assert result.exit_code == 2, result.output
    assert message in result.stderr


def test_resident_memory_is_not_run_with_reason(project: Path) -> None:
    path = project / "one.toml"
    path.write_text("[size]\nresident = 1000\n")
    result = run(project / "words.pt", project / EXPORTED, "--budget", path, "--quiet")
    assert result.exit_code == 1
    assert "size: resident: not run: it is measured for sessions of ONNX Runtime" in result.stderr


def test_required_target_runs_and_may_not_be_dropped(project: Path) -> None:
    path = project / "one.toml"
    path.write_text('[targets]\nrequire = ["litert"]\n')
    baseline = project / "with-target.json"
    files = (project / "words.pt", project / EXPORTED)
    result = run(*files, "--budget", path, "--output", baseline, "--json")
    assert result.exit_code == 0, result.output
    assert findings(result)["parity: target litert"]["status"] == "passed"
    result = run(*files, "--baseline", baseline, "--quiet")
    assert result.exit_code == 1
    assert "target litert: not run" in result.stderr


def test_metric_of_user_runs_every_form(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    Path("tflitemetric.py").write_text(METRIC)
    Path("one.toml").write_text('[metric]\nfunction = "tflitemetric:first"\ndrop = 1e-4\n')
    result = run("words.pt", EXPORTED, "--budget", "one.toml", "--json")
    assert result.exit_code == 0, result.output
    metric = json.loads(result.stdout)["metric"]
    assert metric["exported"] == pytest.approx(metric["model"], abs=1e-4)
    assert metric["exported"] < 0


class Placed(nn.Module):
    """Rows with their positions added; a file has positions only for its own lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(50, 8, num_codes=4, num_groups=2)
        self.places = nn.Parameter(torch.randn(9, 8))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.words(ids) + self.places[: ids.shape[1]]


@pytest.mark.slow
def test_metric_runs_every_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("litert_torch", reason="the extra edge-embed[tflite-models] is not installed")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    edge_embed.save(Placed(), "placed.pt", torch.tensor([[3, 1, 2]]))
    edge_embed.export("placed.pt", "tflite", "placed.tflite", tflite_sizes={"batch": [1], "sequence": [4, 9]})
    Path("signaturesmetric.py").write_text(SIGNATURES_METRIC)
    Path("one.toml").write_text('[metric]\nfunction = "signaturesmetric:all_sizes"\ndrop = 1e-4\n')
    result = run("placed.pt", "placed.tflite", "--budget", "one.toml", "--json")
    assert result.exit_code == 0, result.output
    metric = json.loads(result.stdout)["metric"]
    assert metric["exported"] == pytest.approx(metric["model"], rel=1e-5)
    Path("one.toml").write_text('[metric]\nfunction = "signaturesmetric:other_size"\n')
    result = run("placed.pt", "placed.tflite", "--budget", "one.toml")
    assert result.exit_code == 2
    assert "metric signaturesmetric:other_size failed on the exported file" in result.stderr
    assert "got ids [1, 5], expected the sizes of a signature" in result.stderr


def test_fixture_checks_file_and_replaces_baselines(project: Path) -> None:
    (project / "baseline.json").unlink()
    assert Checker(update=True).check(budget=project / "edge-embed.toml").exit_code == 0
    assert Checker(update=False).check(budget=project / "edge-embed.toml").exit_code == 0
    grow(project / EXPORTED, 100)
    with pytest.raises(pytest.fail.Exception, match="growth: on disk"):
        Checker(update=False).check(budget=project / "edge-embed.toml")


def test_reports_of_layouts_are_compared(project: Path) -> None:
    other = project / "pairs.json"
    assert run(project / "words.pt", project / "pairs.tflite", "--output", other).exit_code == 0
    result = run(project / "baseline.json", other, "--json", command="compare")
    assert result.exit_code == 0, result.output
    candidates = {one["name"]: one["on_disk"] for one in json.loads(result.stdout)["candidates"]}
    assert candidates == {
        "baseline": (project / EXPORTED).stat().st_size,
        "pairs": (project / "pairs.tflite").stat().st_size,
    }
