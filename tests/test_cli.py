"""Command line: results on stdout, everything else on stderr, and the exit code of each outcome."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner, Result
from onnx import numpy_helper
from torch import nn

import edge_embed
from edge_embed.cli import main
from edge_embed.fitting.order import by_frequency
from edge_embed.report.views.exported import table_cells

from .error_line import error_line
from .full_disk import full_disk


class Classifier(nn.Module):
    """A class of the user, which no command needs once the model is saved."""

    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(300, 16, num_codes=5, num_groups=4, padding_idx=0)
        self.positions = nn.Embedding(32, 16)
        self.out = nn.Linear(16, 3)

    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        positions = torch.arange(ids.shape[1], device=ids.device)
        return {"logits": self.out((self.words(ids) + self.positions(positions)).mean(1))}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("saved") / "model.pt"
    return edge_embed.save(Classifier(), path, torch.tensor([[3, 1, 2]]), vocabulary=[f"w{i}" for i in range(300)])


@pytest.fixture(scope="module")
def exported(saved: Path) -> Path:
    path = saved.with_suffix(".onnx")
    edge_embed.export(saved, "onnx", path)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_export_names_lowered_and_left_tables(saved: Path, tmp_path: Path) -> None:
    result = run("export", saved, "--target", "onnx", "-o", tmp_path / "out.onnx", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    tables = {table["name"]: table for table in report["tables"]}
    assert tables["words"]["lowered"]
    assert tables["words"]["packed_bytes"] == 300 * 2 + 4 * 5 * 16
    assert not tables["positions"]["lowered"]
    assert "compress" in tables["positions"]["reason"]
    assert report["dynamic"]["ids"] == ["batch", "sequence"]
    assert report["files"] == [{"path": str(tmp_path / "out.onnx"), "bytes": (tmp_path / "out.onnx").stat().st_size}]


def test_export_opens_written_file_unless_told_no_open(saved: Path, tmp_path: Path) -> None:
    for flags, ways in (((), ["operator library", "portable body"]), (("--no-open",), [])):
        result = run("export", saved, "--target", "onnx", "-o", tmp_path / "out.onnx", "--json", "--force", *flags)
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["opened"]["ways"] == ways


def test_default_output_lies_beside_model(saved: Path, tmp_path: Path) -> None:
    model = tmp_path / "mine.pt"
    model.write_bytes(saved.read_bytes())
    assert run("export", model, "--target", "onnx").exit_code == 0
    assert (tmp_path / "mine.onnx").exists()


def test_existing_output_is_kept_unless_forced(saved: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.onnx"
    target.write_text("precious")
    result = run("export", saved, "--target", "onnx", "-o", target)
    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert target.read_text() == "precious"
    assert run("export", saved, "--target", "onnx", "-o", target, "--force").exit_code == 0
    onnx.checker.check_model(str(target), full_check=True)


@pytest.mark.parametrize("output", ["{model}", "{folder}/alias.pt", "{folder}/model"])
def test_model_is_never_replaced_by_export_with_force(output: str, saved: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.data"
    model.write_bytes(saved.read_bytes())
    (tmp_path / "alias.pt").symlink_to(model)
    target = output.format(model=model, folder=tmp_path)
    result = run("export", model, "--target", "onnx", "-o", target, "--force", "--external-data", "always")
    assert result.exit_code == 2
    assert "is read by this command" in result.stderr
    assert model.read_bytes() == saved.read_bytes()


def test_table_that_grows_has_remark_in_report(tmp_path: Path) -> None:
    layer = edge_embed.DPQEmbedding(250, 16, num_codes=300, num_groups=4)
    report = edge_embed.export(layer, "onnx", tmp_path / "out.onnx", torch.tensor([1]))
    assert "no smaller than dense" in table_cells(report.tables[0])[-1]


def test_validate_passes_and_is_complete(saved: Path, exported: Path) -> None:
    result = run("validate", saved, exported, "--iterations", 2, "--warmup", 0, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["passed"]
    assert report["complete"]


def test_flipped_code_fails_parity_with_its_row(saved: Path, exported: Path, tmp_path: Path) -> None:
    model = onnx.load(exported)
    (codes,) = [tensor for tensor in model.graph.initializer if tensor.name == "words.codes"]
    array = numpy_helper.to_array(codes).copy()
    array[7, 0] ^= 1
    codes.CopyFrom(numpy_helper.from_array(array, codes.name))
    broken = tmp_path / "broken.onnx"
    onnx.save(model, broken)
    page, comment = tmp_path / "report.html", tmp_path / "report.md"
    options = ("--iterations", 2, "--warmup", 0, "--quiet", "--html", page, "--markdown", comment)
    result = run("validate", saved, broken, *options)
    assert result.exit_code == 3
    assert result.stdout == ""
    assert "row 7" in page.read_text()  # the report is written on failure too
    assert "row 7" in comment.read_text()
    assert "words" in result.stderr
    assert "row 7" in result.stderr
    assert run("inspect", broken, "--verify").exit_code == 3
    assert run("inspect", broken).exit_code == 0


def test_target_adds_its_outcome_to_report(saved: Path, exported: Path) -> None:
    command = ["validate", saved, exported, "--iterations", 2, "--warmup", 0, "--target", "local"]
    result = run(*command, "--json")
    assert result.exit_code == 0, result.output
    (target,) = json.loads(result.stdout)["targets"]
    assert (target["name"], target["status"], target["evidence"]) == ("local", "passed", "executed-native")
    result = run(*command, "--target", "torch-cuda", "--quiet")
    if not torch.cuda.is_available():
        assert result.exit_code == 1
        assert "target: torch-cuda: torch" in result.stderr


def test_existing_page_is_refused_before_validation(saved: Path, exported: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("mine")
    result = run("validate", saved, exported, "--html", page)
    assert result.exit_code == 2
    assert "report.html: exists" in result.stderr
    assert page.read_text() == "mine"
    assert run("validate", saved, exported, "--html", tmp_path / "other.html", "--load-inputs", page).exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_inspect_verifies_hashes(exported: Path, saved: Path) -> None:
    for path in (exported, saved):
        result = run("inspect", path, "--verify", "--json")
        assert result.exit_code == 0, result.output
        (table,) = json.loads(result.stdout)["tables"]
        assert table["hash_status"] == "matches"


def test_doctor_finds_and_runs_library() -> None:
    result = run("doctor", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["ok"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "missing.pt", "--target", "onnx"], "missing.pt"),
        (["export", "{model}", "--target", "coreml"], "expected one of onnx"),
        (["export", "{text}", "--target", "onnx"], "neither a saved model"),
        (["export", "{model}", "--target", "onnx", "-o", "missing/folder/out.onnx"], "not an existing directory"),
        (["export", "{model}", "--target", "onnx", "-o", "new.onnx", "--input", "ids:int64[batch]"], "--input"),
        (["validate", "{model}", "{text}"], "export it again"),
        (["validate", "{model}", "{onnx}", "--atol", "tiny"], "tiny"),
        (["validate", "{model}", "{onnx}", "--rtol", "nothing:1e-3"], "nothing"),
        (["validate", "{model}", "{onnx}", "--target", "phone"], "expected one of local"),
        (["validate", "{model}", "{onnx}", "--load-inputs", "{text}"], "of edge-embed validate --save-inputs"),
        (["validate", "{model}", "{onnx}", "--html", "missing/folder/report.html"], "not an existing directory"),
        (["inspect", "{text}"], "notes.txt"),
        (["frobnicate"], "No such command"),
    ],
)
def test_mistakes_exit_with_2_in_one_line_and_write_nothing(
    arguments: list[str], message: str, saved: Path, exported: Path, tmp_path: Path
) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a model")
    result = run(*[argument.format(model=saved, onnx=exported, text=text) for argument in arguments])
    assert result.exit_code == 2
    assert message in error_line(result)
    assert result.stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt"]


def test_mistake_with_json_is_object(tmp_path: Path) -> None:
    result = run("inspect", tmp_path / "missing.onnx", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["exit_code"] == 2
    assert "missing.onnx" in json.loads(result.stdout)["error"]


@pytest.mark.parametrize(
    "error", [MemoryError("Unable to allocate 294. GiB"), RuntimeError("alloc_cpu.cpp: can't allocate memory: 9 bytes")]
)
def test_memory_shortage_is_reported_in_one_line(
    saved: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def without_memory(*_: object) -> None:
        raise error

    monkeypatch.setattr("edge_embed.inspection.inspect.inspect_file", without_memory)
    result = run("inspect", saved)
    assert result.exit_code == 1
    assert error_line(result).startswith("out of memory (")


def test_full_disk_leaves_no_files(saved: Path, tmp_path: Path) -> None:
    with full_disk(5000):
        result = run("export", saved, "--target", "onnx", "-o", tmp_path / "out.onnx")
    assert result.exit_code == 1
    assert "cannot be written" in error_line(result)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x" * 300, "x" * 252, ".", ""])
def test_impossible_file_names_are_refused_in_one_line(
    name: str, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("export", saved, "--target", "onnx", "--output", name)
    assert done.exit_code in (1, 2)
    assert error_line(done)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_unwritable_result_is_reported_in_one_line(exported: Path) -> None:
    command = [sys.executable, "-c", "from edge_embed.cli import main; main()", "inspect", str(exported)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "Error: output: No space left on device\n"


@pytest.mark.parametrize("target", ["onnx", "tflite"])
def test_row_order_survives_export_inspect_and_validate(tmp_path: Path, target: str) -> None:
    if target == "tflite":
        pytest.importorskip("ai_edge_litert", reason="the extra edge-embed[tflite] is not installed")
    torch.manual_seed(0)
    words = edge_embed.TREmbedding(60, 12, 2, padding_idx=3, row_order=by_frequency(torch.rand(60), padding_idx=3))
    saved, exported = tmp_path / "model.pt", tmp_path / f"model.{target}"
    edge_embed.save(words, saved, torch.tensor([[3, 1, 2]]))
    assert run("export", saved, "--target", target, "-o", exported, "--quiet").exit_code == 0
    (table,) = json.loads(run("inspect", exported, "--verify", "--json").stdout)["tables"]
    assert (table["inference_bytes"]["row_order"], table["hash_status"]) == (4 * 60, "matches")
    result = run("validate", saved, exported, "--iterations", 2, "--warmup", 0)
    assert result.exit_code == 0, result.output
    assert "all checks that ran passed" in result.output


def test_help_does_not_import_torch() -> None:
    code = "import sys; from edge_embed.cli import main\ntry: main(['-h'])\nfinally: assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_exported_file_gives_same_rows_with_and_without_library(exported: Path) -> None:
    ids = np.array([[5, 0, 299]])
    with_library = edge_embed.create_session(exported).run(None, {"ids": ids})
    without = edge_embed.create_session(exported, portable=True).run(None, {"ids": ids})
    np.testing.assert_array_equal(with_library, without)


@pytest.mark.parametrize("command", ["doctor", pytest.param("export", marks=pytest.mark.slow)])
def test_temporary_folder_is_empty_after_command(saved: Path, tmp_path: Path, command: str) -> None:
    """ONNX Runtime 1.31 leaves a file of its telemetry there when it is loaded."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    arguments = {"doctor": [], "export": [saved, "--target", "onnx", "-o", tmp_path / "out.onnx"]}
    run_it = [sys.executable, "-P", "-c", "from edge_embed.cli import run; run()", command, *arguments[command]]
    variables = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    subprocess.run(run_it, env=variables | {"TMPDIR": str(temporary)}, check=True, capture_output=True)
    assert not list(temporary.iterdir())


@pytest.mark.slow
def test_import_of_workflow_leaves_environment_unchanged() -> None:
    code = "import os; before = dict(os.environ); import edge_embed.workflow; assert dict(os.environ) == before"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
