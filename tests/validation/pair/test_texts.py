"""Pairs of files that read texts and return texts."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.report.results.validation import ValidationReport
from edge_embed.validation.pair.texts import Texts, texts_of_onnx
from tests.validation.pair.models import changed, compressed, node, pair, validate
from tests.validation.pair.text_models import (
    WORDS,
    classifier,
    compared_in_a_branch,
    normalizer,
    write_hash_table,
)

pytestmark = pytest.mark.usefixtures("_without_processes")
STRICT = 5000  # an id that no row has


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return pair(tmp_path_factory.mktemp("texts"), classifier())


@pytest.mark.parametrize("make", [normalizer, compared_in_a_branch])
def test_pair_that_reads_texts_passes(make: Callable[[], onnx.ModelProto], tmp_path: Path) -> None:
    report = validate(*pair(tmp_path, make()))
    assert (report.exit_code, report.failures(), report.model.left_out) == (0, [], ())
    assert len(report.model.cases) == 4


def test_texts_of_outputs_are_compared_and_speeds_measured(texts: tuple[Path, Path]) -> None:
    report = validate(*texts, iterations=2, warmup=0)
    assert report.failures() == []
    labels = [output for path in report.model.paths for output in path.outputs if output.name == "label"]
    assert [output.detail for output in labels[1:]] == ["all 8 values equal"] * 3
    assert report.model.changes[1].equal is not None
    assert {found.peer for found in report.latency.results if found.subject == "model"} == {"portable body", "original"}


def test_torch_target_is_not_run_on_texts(texts: tuple[Path, Path]) -> None:
    report = validate(*texts, targets=("torch-cpu",))
    assert [(target.status, target.detail) for target in report.targets] == [
        ("not run", "torch does not support texts, as in input text")
    ]


def test_model_that_refuses_unknown_texts_runs_on_known_ones_repeatably(tmp_path: Path) -> None:
    files = pair(tmp_path, classifier(default=STRICT))
    saved = tmp_path / "inputs.npz"
    report = validate(*files, save_inputs=saved)
    assert (report.exit_code, report.model.left_out) == (0, ())
    with np.load(saved, allow_pickle=False) as archive:
        drawn = {text for name in archive.files if name.endswith("/text") for text in archive[name].flat}
    assert drawn <= set(WORDS)
    assert validate(*files, inputs=saved, seed=9).model == report.model


def test_label_that_differs_fails(texts: tuple[Path, Path]) -> None:
    def swap(made: onnx.ModelProto) -> None:
        (labels,) = (item for item in node(made, "decode").attribute if item.name == "values_strings")
        labels.strings[:] = [b"ja", b"no", "Größe".encode()]

    report = edge_embed.check(texts[0], changed(texts[1], swap))
    assert report.exit_code == 3
    failed = [finding for finding in report.findings if finding.status == "failed"]
    assert any("LabelEncoder 'decode'" in finding.detail for finding in failed)
    assert any(re.search("values differ.* got (ja|no), expected (no|ja)", finding.detail) for finding in failed)


class TestInputsFromAFile:
    def load(self, texts: tuple[Path, Path], tmp_path: Path, value: Any) -> ValidationReport:
        path = tmp_path / "inputs.npz"
        np.savez(path, **{"0/text": value})
        return validate(*texts, inputs=path)

    @pytest.mark.parametrize("given", [[["w1", "東京"]], [[b"w1", "東京".encode()]]], ids=["str", "bytes"])
    def test_texts_from_file_are_read(self, texts: tuple[Path, Path], tmp_path: Path, given: Any) -> None:
        report = self.load(texts, tmp_path, np.array(given))
        assert (report.exit_code, report.model.cases) == (0, ("case 0",))

    def test_pickled_objects_are_not_read(self, texts: tuple[Path, Path], tmp_path: Path) -> None:
        with pytest.raises(BadInputError, match="expected numbers or texts"):
            self.load(texts, tmp_path, np.array([["w1"]], object))

    def test_numbers_in_place_of_texts_are_refused(self, texts: tuple[Path, Path], tmp_path: Path) -> None:
        with pytest.raises(BadInputError, match="input text: got int64, expected texts"):
            self.load(texts, tmp_path, np.array([[1]]))


def test_tflite_pair_of_texts_passes(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    original, saved = write_hash_table(tmp_path / "original.tflite"), tmp_path / "inputs.npz"
    report = validate(original, compressed(original), save_inputs=saved)
    assert (report.exit_code, report.failures()) == (0, [])
    ran = {path.name: path.status for path in report.model.paths}
    assert ran["litert"] == ran["original with the stored rows"] == "passed"
    with np.load(saved, allow_pickle=False) as archive:
        assert set(WORDS) & set(archive["0/text"].flat)


def test_texts_of_model_include_those_in_branches() -> None:
    assert texts_of_onnx(compared_in_a_branch()).known == ["secret"]


def test_texts_drawn_are_known_and_unknown_ones() -> None:
    drawn = Texts(["known"]).draw(np.random.default_rng(0), (20, 5))
    assert {"known", "", "東京 🙂"} <= set(drawn.flat)
    assert set(Texts(["known"], ()).draw(np.random.default_rng(0), (9,)).flat) == {"known"}
