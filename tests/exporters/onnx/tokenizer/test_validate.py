"""Validation of a file with a tokenizer: the model behind it, and the tokenizer."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import edge_embed
from edge_embed.cli import main
from edge_embed.report.results.validation import ValidationReport
from edge_embed.validation.options import ValidationOptions
from edge_embed.workflow import load

from .conftest import MEAN_EXAMPLE, Mean

Saved = Callable[[str], Path]
FROM_TEXTS = ["portable body, from texts", "custom op, from texts"]


@pytest.fixture(scope="module")
def model(saved: Saved, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ``model.pt`` and its ``model.onnx`` behind byte-level BPE."""
    folder = tmp_path_factory.mktemp("validate")
    edge_embed.save(Mean(), folder / "model.pt", MEAN_EXAMPLE)
    edge_embed.export(folder / "model.pt", "onnx", folder / "model.onnx", tokenizer=saved("BPE"))
    return folder


def validate(model: Path, exported: Path, **options: Any) -> ValidationReport:
    return edge_embed.validate(load(model / "model.pt"), exported, options=ValidationOptions(iterations=0, **options))


def outcome(report: ValidationReport) -> tuple[str, str]:
    (check,) = [check for check in report.structure if check.name == "tokenizer"]
    return check.status, check.detail


def test_validation_compares_ids_and_whole_model(model: Path, saved: Saved) -> None:
    report = validate(model, model / "model.onnx", tokenizer=saved("BPE"))
    assert (report.exit_code, report.complete) == (0, True)
    assert outcome(report)[0] == "passed"
    assert [path.name for path in report.model.paths][-2:] == FROM_TEXTS
    assert report.sizes.on_disk == (model / "model.onnx").stat().st_size


def test_validation_without_tokenizer_file_does_not_run_ids(model: Path) -> None:
    report = validate(model, model / "model.onnx")
    assert outcome(report)[0] == "not run"
    assert (report.passed, report.complete) == (True, False)
    assert not set(FROM_TEXTS) & {path.name for path in report.model.paths}


def test_tokenizer_other_than_exported_fails(model: Path, saved: Saved) -> None:
    report = validate(model, model / "model.onnx", tokenizer=saved("RoBERTa"))
    assert report.exit_code == 3
    assert "SHA-256" in outcome(report)[1]


def test_ids_other_than_library_in_file_fail(model: Path, saved: Saved, tmp_path: Path) -> None:
    changed = onnx.load(model / "model.onnx")
    (function,) = [function for function in changed.functions if function.name == "Tokenize"]
    (padding,) = [node for node in function.node if node.output[0] == "fixed_pool"]
    padding.attribute[0].ints[0] = 5
    onnx.save(changed, tmp_path / "model.onnx")
    report = validate(model, tmp_path / "model.onnx", tokenizer=saved("BPE"))
    assert report.exit_code == 3
    assert "other ids than the library" in outcome(report)[1]


def test_tokenizer_for_file_without_one_is_refused(model: Path, saved: Saved, tmp_path: Path) -> None:
    edge_embed.export(model / "model.pt", "onnx", tmp_path / "plain.onnx")
    with pytest.raises(edge_embed.BadInputError, match="but the file has none"):
        validate(model, tmp_path / "plain.onnx", tokenizer=saved("BPE"))


def test_inspect_and_validate_commands_show_tokenizer(model: Path, saved: Saved) -> None:
    done = CliRunner().invoke(main, ["inspect", str(model / "model.onnx")])
    assert "tokenizer: kind BPE, num_ids" in done.stdout
    names = [str(model / name) for name in ("model.pt", "model.onnx")]
    done = CliRunner().invoke(
        main, ["validate", *names, "--tokenizer", str(saved("BPE")), "--iterations", "2", "--verbose"]
    )
    assert done.exit_code == 0, done.output
    assert "custom op, from texts" in done.stdout


@pytest.mark.parametrize("kind", ["BPE", "BERT uncased", "words and signs"])
@pytest.mark.slow
def test_texts_of_an_empty_batch_give_no_rows(saved: Saved, tmp_path: Path, kind: str) -> None:
    shutil.copy(saved(kind), tmp_path / "tokenizer.json")
    edge_embed.export(Mean(), "onnx", tmp_path / "out.onnx", MEAN_EXAMPLE, tokenizer=tmp_path / "tokenizer.json")
    (got,) = edge_embed.create_session(tmp_path / "out.onnx").run(None, {"text": np.array([], dtype=object)})
    assert got.shape == (0, 8)


def test_target_runs_texts_or_reports_that_it_cannot(model: Path, saved: Saved) -> None:
    targets = ("local", "portable", "reference", "torch-cpu")
    report = validate(model, model / "model.onnx", tokenizer=saved("BPE"), targets=targets)
    found = {target.name: target for target in report.targets}
    for name in ("local", "portable"):
        assert found[name].status == found[f"{name}, from texts"].status == "passed"
        assert found[f"{name}, from texts"].outputs[0].values > 100
    absent = found["reference, from texts"]
    assert (absent.status, report.exit_code) == ("not run", 1)
    assert "onnxruntime-extensions" in absent.detail
    assert "torch-cpu, from texts" not in found  # the training form reads ids


def test_target_without_tokenizer_file_is_not_run(model: Path) -> None:
    report = validate(model, model / "model.onnx", targets=("local",))
    assert [target.status for target in report.targets] == ["passed", "not run"]
    assert report.exit_code == 1
    assert "--tokenizer" in report.targets[1].detail


def test_target_with_other_ids_fails(model: Path, saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    """The target runs the case's texts: with other ids, the outputs differ."""
    from edge_embed.targets import runner

    def swapped(path: Path, tensors: dict[str, Any]) -> None:
        write(path, {name: value[::-1] if name == "text" else value for name, value in tensors.items()})

    write = runner.write_tensors
    monkeypatch.setattr(runner, "write_tensors", swapped)
    report = validate(model, model / "model.onnx", tokenizer=saved("BPE"), targets=("local",))
    assert [target.status for target in report.targets] == ["passed", "failed"]
    assert report.exit_code == 3


def test_check_takes_tokenizer_of_budget(model: Path, saved: Saved, tmp_path: Path) -> None:
    budget = tmp_path / "edge-embed.toml"
    lines = {"model": model / "model.pt", "exported": model / "model.onnx", "tokenizer": saved("BPE")}
    budget.write_text("".join(f'{key} = "{path}"\n' for key, path in lines.items()) + '[targets]\nrequire = ["local"]')
    report = edge_embed.check(budget=budget)
    assert (report.exit_code, report.complete) == (0, True)
    names = [finding.name for finding in report.findings]
    assert "target local, from texts" in names
