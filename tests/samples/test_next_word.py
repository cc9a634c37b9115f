"""`make demo` at a small size: trains, saves, exports, validates and completes, end to end."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from edge_embed.bundle.manifest import BundleFile, BundleManifest

pytestmark = pytest.mark.slow  # developers run `make demo`
SAMPLE = Path(__file__).parents[2] / "samples" / "next_word"
IMPORT_SAMPLE = f"import sys; sys.path.insert(0, {str(SAMPLE)!r}); "
COMPLETE = SAMPLE.parent / "python" / "complete.py"
README = (SAMPLE / "README.md").read_text(encoding="utf-8")
PROMPTS = ["Raise an exception if", "Return a list of"]


def run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "160", "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )


def complete(bundle: Path, *texts: str) -> list[str]:
    done = run(sys.executable, COMPLETE, bundle, *texts, cwd=bundle.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the demo, with files of an earlier run."""
    folder = tmp_path_factory.mktemp("next_word")
    (folder / "model.pt").write_bytes(b"to be overwritten")
    (folder / "bundle").mkdir()
    (folder / "bundle" / "model.onnx").write_bytes(b"to be overwritten")
    (folder / "bundle" / "golden.json").write_bytes(b"to be overwritten")
    files = {name: BundleFile.of(folder / "bundle" / name) for name in ("model.onnx", "golden.json")}
    BundleManifest("earlier", "edge-embed 0.1", "onnx", "model.onnx", {}, {}, {}, {}, files).write(folder / "bundle")
    return folder


@pytest.fixture(scope="module")
def printed(output: Path) -> str:
    """Return the demo's output; its exit code is that of `edge-embed validate`: 0 if all paths ran and passed."""
    done = run(sys.executable, SAMPLE / "demo.py", "--quick", "--output", output)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def bundle(printed: str, output: Path) -> Path:
    return output / "bundle"


class TestDemo:
    def test_demo_writes_model_and_export(self, printed: str, output: Path) -> None:
        assert {path.name for path in output.iterdir()} == {"model.pt", "bundle"}

    def test_demo_runs_command_line(self, printed: str) -> None:
        assert "$ edge-embed export model.pt --target onnx --bundle bundle --force\n" in printed
        assert "$ edge-embed validate model.pt bundle/model.onnx" in printed

    def test_demo_model_learns_words(self, printed: str) -> None:
        words = int(re.findall(r"([\d,]+) different words", printed)[0].replace(",", ""))
        seen, unseen = map(float, re.findall(r"perplexity: ([\d.]+) .*, ([\d.]+) on held-out text", printed)[0])
        assert 1 < seen < words / 4  # an untrained model is as uncertain as the vocabulary is large
        assert 1 < unseen < words / 4

    def test_demo_prints_sizes_parity_and_latency(self, printed: str) -> None:
        for size in ("dense equivalent", "on disk", "zipped", "resident"):
            assert re.search(rf"{size}\s*│\s*[\d,]+ │", printed), size
        of_table, of_model = printed.split("\nwhole model", 1)
        for part, least in ((of_table, 9), (of_model, 5)):  # rows on every path; the whole model on every path
            assert max(int(count) for count in re.findall(r"-\[✓\] (\d+) passed", part)) >= least
        assert re.search(r"^Latency: ", printed, re.MULTILINE)
        assert "✗" not in printed

    def test_demo_ends_at_step_that_fails(self, tmp_path: Path) -> None:
        step = f"{IMPORT_SAMPLE}import demo, pathlib; demo._edge_embed(pathlib.Path(), 'inspect', 'absent.onnx')"
        done = run(sys.executable, "-c", step, cwd=tmp_path)
        assert done.returncode == 2
        assert "absent.onnx" in done.stderr

    def test_readme_quotes_lines_of_demo(self, printed: str) -> None:
        quoted = re.findall(r"^```text\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[0]
        lines = {_without_figures(line) for line in printed.splitlines()}
        for line in quoted.splitlines():
            assert _without_figures(line) in lines, line


class TestExport:
    def test_table_of_export_holds_codes_and_values_only(self, bundle: Path) -> None:
        model = onnx.load(bundle / "model.onnx")
        sizes = {tensor.name: len(tensor.raw_data) for tensor in model.graph.initializer}
        words = len(json.loads((bundle / "vocabulary.json").read_text(encoding="utf-8")))
        assert sizes["embedding.codes"] == 16 * words
        assert sizes["embedding.values"] == 16 * 256 * 4


class TestCompletions:
    def test_demo_prints_one_completion_per_prompt(self, printed: str, bundle: Path) -> None:
        lines = complete(bundle, *PROMPTS)
        assert len(lines) == len(PROMPTS)
        for line in lines:
            assert line in printed.splitlines()

    def test_bundle_completes_without_torch(self, bundle: Path, tmp_path: Path) -> None:
        shutil.copytree(bundle, tmp_path / "alone")
        without_torch = f"import sys; sys.modules['torch'] = None; sys.path.insert(0, {str(COMPLETE.parent)!r}); "
        command = f"{without_torch} import complete; sys.argv = ['', 'alone', *{PROMPTS}]; complete.main()"
        done = run(sys.executable, "-c", command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == complete(bundle, *PROMPTS)

    def test_changed_vocabulary_is_refused_by_name(self, bundle: Path, tmp_path: Path) -> None:
        shutil.copytree(bundle, tmp_path / "bundle")
        with (tmp_path / "bundle" / "vocabulary.json").open("r+b") as file:
            file.write(b"{")
        done = run(sys.executable, COMPLETE, tmp_path / "bundle", "a")
        assert done.returncode == 1
        assert "vocabulary.json: got SHA-256" in done.stderr
        assert "Traceback" not in done.stderr

    def test_readme_gives_command_of_completion(self, bundle: Path, tmp_path: Path) -> None:
        (tmp_path / "build").mkdir()
        (tmp_path / "build" / "next_word").symlink_to(bundle.parent)
        (tmp_path / "samples").symlink_to(SAMPLE.parent)
        python = tmp_path / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        make, command = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
        assert make == "make demo\n"
        done = run("bash", "-euc", command, cwd=tmp_path)
        assert done.stdout.splitlines() == complete(bundle, *PROMPTS), done.stderr


def _without_figures(line: str) -> str:
    """Return a line without figures and suggested words, which differ between runs."""
    return re.sub(r"\s+", " ", re.sub(r"[\d,.]+", "#", line.partition(" -> ")[0]))
