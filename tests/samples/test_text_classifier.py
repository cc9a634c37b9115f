"""The classifier from training to LiteRT by the guide's command, and its use in an app from the file alone."""

import contextlib
import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from text_classifier import sentences

from edge_embed.inspection.tflite_file import inspect_tflite

pytest.importorskip("litert_torch", reason="the extra edge-embed[tflite-models] is not installed")

from text_classifier.litert import FileClassifier

ROOT = Path(__file__).parents[2]
DATA = os.environ.get("EDGE_EMBED_DATA")
GUIDE = (ROOT / "docs" / "deployment" / "tflite.md").read_text(encoding="utf-8")
SAMPLE_README = (ROOT / "samples" / "text_classifier" / "README.md").read_text(encoding="utf-8")
NEEDS_DATA = pytest.mark.skipif(DATA is None, reason="EDGE_EMBED_DATA names no folder with the samples' data")


@dataclass(frozen=True)
class Ran:
    """Output of the command, and the folder of its files."""

    printed: str
    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "classifier.tflite"


def run(folder: Path, *options: str) -> Ran:
    """Run the guide's command in this process: another one would take as long to import the packages."""
    (command,) = re.findall(r"`python (samples/train_classifier\.py [^`]*)`", GUIDE)
    script, *rest = shlex.split(command)
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", [str(ROOT / script), *rest, *options])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(ROOT / script), run_name="__main__")
    assert end.value.code == 0, printed.getvalue()
    return Ran(printed.getvalue(), folder)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Return a quick run without data, into a folder with files of an earlier run."""
    folder = tmp_path_factory.mktemp("classifier")
    (folder / "classifier.tflite").write_bytes(b"to be overwritten")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("EDGE_EMBED_DATA", raising=False)
        return run(folder, "--quick")


def accuracies(printed: str) -> list[float]:
    found = re.findall(r"^  (training form|file|file, delegate) +(0\.\d+)", printed, re.MULTILINE)
    assert [name for name, _ in found] == ["training form", "file", "file, delegate"]
    return [float(share) for _, share in found]


class TestQuickRun:
    @pytest.mark.slow
    def test_command_writes_tflite_file_and_saved_model(self, quick: Ran) -> None:
        assert {path.name for path in quick.folder.iterdir()} == {"classifier.pt", "classifier.tflite"}

    def test_classifier_learns_and_file_gives_same_answers(self, quick: Ran) -> None:
        assert quick.printed.startswith("made sentences: ")
        assert len(set(accuracies(quick.printed))) == 1
        assert accuracies(quick.printed)[0] > 0.9  # chance gives 0.5
        assert len(re.findall(r" 400 answers the same", quick.printed)) == 2

    def test_command_prints_true_sizes(self, quick: Ran) -> None:
        report = inspect_tflite(quick.file, verify=True)
        assert report.differences == []
        (table,) = report.tables
        size, dense = quick.file.stat().st_size, 4 * table.num_embeddings * table.embedding_dim
        stored = int(re.findall(r"table: ([\d,]+) bytes", quick.printed)[0].replace(",", ""))
        assert f"dense {dense:,}\n" in quick.printed
        assert stored == pytest.approx(table.stored_bytes, abs=64)  # the zero row of padding is stored beside them
        assert f"file: {size:,} bytes, with a dense table {size - stored + dense:,}" in quick.printed

    def test_command_prints_time_with_and_without_delegate(self, quick: Ran) -> None:
        assert re.search(r"\n  file +\d+ µs\n  file, delegate +\d+ µs\n", quick.printed)


@pytest.fixture(scope="module")
def classifier(quick: Ran) -> FileClassifier:
    return FileClassifier(quick.file)


class TestFile:
    def test_file_is_enough_for_app_without_torch(self, quick: Ran, tmp_path: Path) -> None:
        shutil.copy(quick.file, tmp_path / "alone.tflite")
        program = (
            f"import sys; sys.modules['torch'] = None; sys.path.insert(0, {str(ROOT / 'samples')!r})\n"
            "from pathlib import Path; from text_classifier.litert import FileClassifier\n"
            "app = FileClassifier(Path('alone.tflite'), delegate=True)\n"
            "print(app.answer('The music is wonderful'), app.answer('what a boring plot !'))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.stdout == "praise blame\n", done.stderr

    @pytest.mark.parametrize(("words", "length"), [(0, 16), (16, 16), (17, 32), (64, 64), (100, 64)])
    def test_signature_is_shortest_that_holds_text(self, classifier: FileClassifier, words: int, length: int) -> None:
        assert classifier.encode("film " * words).shape == (1, length)

    def test_answers_do_not_depend_on_padding(self, classifier: FileClassifier) -> None:
        ids = classifier.encode("what a clever script !")
        longer = np.pad(ids, [(0, 0), (0, 64 - ids.shape[1])])
        np.testing.assert_allclose(classifier.run(ids), classifier.run(longer), atol=1e-5)

    def test_words_have_ids_of_vocabulary(self, classifier: FileClassifier) -> None:
        known, unknown = classifier.encode("MUSIC"), classifier.encode("zyzzyva")
        assert known[0, 0] > 1
        assert unknown[0, 0] == 1


class TestSentences:
    def test_made_sentences_are_repeatable_and_not_in_test(self) -> None:
        found = sentences.made()
        assert found == sentences.made()
        assert not set(found.training) & set(found.testing)
        assert {label for label, _ in found.testing} == {0, 1}

    def test_made_sentences_have_one_label_each(self) -> None:
        found = sentences.made()
        labels: dict[str, int] = {}
        for label, text in (*found.training, *found.testing):
            assert labels.setdefault(text, label) == label

    @NEEDS_DATA
    def test_sst2_is_read_whole(self) -> None:
        found = sentences.read(Path(str(DATA)))
        assert (len(found.training), len(found.testing)) == (67_349, 872)
        assert found.testing[0] == (1, "it 's a charming and often affecting journey . ")


@pytest.mark.slow
@NEEDS_DATA
def test_film_reviews_are_classified_above_chance(tmp_path: Path) -> None:
    printed = run(tmp_path).printed
    assert printed.startswith("SST-2: ")
    assert len(set(accuracies(printed))) == 1
    assert accuracies(printed)[0] > 0.75  # chance gives 0.5
    assert len(re.findall(r" 872 answers the same", printed)) == 2
    (sizes,) = re.findall(r"table: ([\d,]+) bytes, dense ([\d,]+)", printed)
    stored, dense = (int(size.replace(",", "")) for size in sizes)
    assert dense > 25 * stored
    (quoted, _) = re.findall(r"^```text\n(.*?)^```$", SAMPLE_README, re.MULTILINE | re.DOTALL)
    lines = {_without_figures(line) for line in printed.splitlines()}
    for line in quoted.splitlines():
        assert _without_figures(line) in lines, line


def _without_figures(line: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"\d[\d,.e-]*", "#", line))
