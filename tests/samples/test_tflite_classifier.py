"""A classifier that others made gets a compressed table, by the guide's command."""

import os
import re
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("ai_edge_litert", reason="the extra edge-embed[tflite] is not installed")
sys.path.append(str(Path(__file__).parents[1] / "exporters" / "tflite"))

import tflite_classifier
from foreign_files import WORDS, attach, mean_of_rows, write_foreign
from text_classifier import sentences

from edge_embed.compression.tflite.replace import read_dense_tables
from edge_embed.inspection.tflite_file import inspect_tflite
from edge_embed.targets.tflite.runtimes import TFLITE_RUNTIME

ROOT = Path(__file__).parents[2]
DATA = os.environ.get("EDGE_EMBED_DATA")
ROWS, LENGTH = 70, 16


def run(folder: Path, file: Path, *options: str, data: str | None = None) -> Any:
    """Run the guide's command on a file."""
    guide = (ROOT / "docs" / "guides" / "onnx-and-tflite-files.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"`python samples/tflite_classifier\.py FILE\.tflite ([^`]*)`", guide)
    before = Path.cwd()
    os.chdir(folder)
    try:
        environment = {"EDGE_EMBED_DATA": data}
        return CliRunner(env=environment).invoke(tflite_classifier.main, [str(file), *command.split(), *options])
    finally:
        os.chdir(before)


def vocabulary() -> str:
    """Return lines of a word and its id, as in the files."""
    words = sorted({word for _, text in sentences.made().training for word in re.findall(r"[\w']+", text)})
    assert len(words) + 3 < ROWS
    return "".join(f"{word} {at}\n" for at, word in enumerate(["<PAD>", "<START>", "<UNKNOWN>", *words]))


def make_classifier(folder: Path) -> Path:
    """Write a classifier that answers by sixteen kinds of words, with the vocabulary in its archive."""
    kinds = np.random.default_rng(0).normal(size=(16, 12)).astype(np.float32)
    path = write_foreign(folder / "theirs.tflite", kinds[np.arange(ROWS) % 16], make=mean_of_rows, shape=(1, LENGTH))
    return attach(path, vocab=vocabulary())


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    return make_classifier(tmp_path)


@dataclass(frozen=True)
class Ran:
    """Output of the command, and its folder."""

    printed: str
    folder: Path


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("classifier")
    done = run(folder, make_classifier(folder), "--num-codes", "16", "--num-groups", "3")
    assert done.exit_code == 0, done.output
    return Ran(done.stdout, folder)


class TestCommand:
    def test_command_writes_complete_file(self, ran: Ran) -> None:
        report = inspect_tflite(ran.folder / "small.tflite", verify=True)
        assert report.differences == []
        assert [(table.num_embeddings, table.embedding_dim) for table in report.tables] == [(ROWS, 12)]
        assert [table.attributes["num_groups"] for table in report.tables] == [3]
        with zipfile.ZipFile(ran.folder / "small.tflite") as archive:
            assert archive.read("vocab.txt").decode() == vocabulary()

    def test_command_prints_true_sizes(self, ran: Ran) -> None:
        before, after = ((ran.folder / name).stat().st_size for name in ("theirs.tflite", "small.tflite"))
        assert f"file: {before:,} bytes -> {after:,}\n" in ran.printed
        assert f"table {WORDS}: {4 * ROWS * 12:,} bytes -> " in ran.printed

    def test_answers_are_equal_if_every_kind_of_word_has_a_code(self, ran: Ran) -> None:
        runs = ["LiteRT, replaced", "LiteRT, delegate"]
        runs += [] if TFLITE_RUNTIME.reason_against() else ["tflite-runtime, replaced"]
        for name in runs:
            assert re.search(rf"\n  {name} +100.0% same answers, outputs differ by 0.000 at most\n", ran.printed), name

    def test_command_prints_times_of_all_files(self, ran: Ran) -> None:
        assert re.search(r"\n  original +[\d.]+ µs\n  replaced +[\d.]+ µs\n  delegate +[\d.]+ µs\n", ran.printed)


class TestMistakes:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--num-groups", "5"], "--num-groups: got 5, expected a divisor of the 12 columns"),
            (["--vocabulary", "words.txt"], "<PAD>, <START>, <UNKNOWN> missing in the vocabulary"),
        ],
    )
    def test_invalid_options_are_refused_without_output(
        self, tmp_path: Path, classifier: Path, options: list[str], message: str
    ) -> None:
        (tmp_path / "words.txt").write_text("film 3\n")
        done = run(tmp_path, classifier, *options)
        assert (done.exit_code, message in done.output) == (1, True), done.output
        assert not (tmp_path / "small.tflite").exists()

    def test_file_without_vocabulary_names_option(self, tmp_path: Path) -> None:
        done = run(tmp_path, write_foreign(tmp_path / "theirs.tflite"))
        assert "has no vocab.txt in an archive: give --vocabulary" in done.output

    def test_file_that_is_no_model_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "theirs.tflite").write_bytes(b"no model, but some text")
        done = run(tmp_path, tmp_path / "theirs.tflite")
        assert "check that it is a TFLite model" in done.output
        assert isinstance(done.exception, SystemExit)

    def test_model_of_other_inputs_is_refused(self, tmp_path: Path) -> None:
        done = run(tmp_path, write_foreign(tmp_path / "theirs.tflite", ids_type="int64"))
        assert "expected a model whose only input is ids, int32 [1, length]" in done.output


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="EDGE_EMBED_DATA names no folder with the samples' data")
@pytest.mark.parametrize("name", ["movie_review", "nl_classifier_regex"])
def test_published_classifiers_answer_nearly_as_before(tmp_path: Path, name: str) -> None:
    with tarfile.open(Path(str(DATA)) / "tflite-nlclassifier.tar.xz") as files:
        files.extractall(tmp_path, filter="data")
    folder = tmp_path / "tflite-nlclassifier"
    words = [] if name == "nl_classifier_regex" else ["--vocabulary", str(folder / "nl_classifier_vocab.txt")]
    done = run(tmp_path, folder / f"{name}.tflite", *words, data=DATA)
    assert done.exit_code == 0, done.output
    shares = [float(share) for share in re.findall(r"([\d.]+)% same answers", done.stdout)]
    assert len(shares) >= 2
    assert min(shares) > 97
    saved = (folder / f"{name}.tflite").stat().st_size - (tmp_path / "small.tflite").stat().st_size
    assert saved > 0.9 * 640_192
    assert [rows.shape for rows in read_dense_tables(folder / f"{name}.tflite").values()] == [(10003, 16)]
