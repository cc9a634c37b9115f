"""Every comparing sample at a small size, on its own data, end to end."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import compare
import pytest
from click.testing import CliRunner
from comparison import Result

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "samples" / "compare.py"
DATA = os.environ.get("EDGE_EMBED_DATA")
_LEARNED = {"dense", "dpq", "ant", "tt"}
METHODS = {
    "ag_news": _LEARNED,
    "amazon_video": _LEARNED,
    "pretrained": {"dense", "dpq", "opq", "ant", "low_rank"},
    "sentence_encoder": {"dense", "dpq", "opq", "dpq_distilled"},
    "wikitext2": _LEARNED,
}

Rows = dict[str, dict[str, Any]]


@functools.cache
def quick(name: str) -> Rows:
    """Return the results of a quick run by method."""
    command = [sys.executable, SCRIPT, name, "--quick", "--json"]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["sample"] == name
    return {result["method"]: result for result in report["results"]}


def scores(rows: Rows, metric: str) -> dict[str, float]:
    return {method: row["scores"][metric] for method, row in rows.items() if metric in row["scores"]}


@pytest.mark.slow
@pytest.mark.long  # minutes of a processor each
@pytest.mark.skipif(DATA is None, reason="EDGE_EMBED_DATA names no folder with the samples' data (samples/*/README.md)")
class TestQuickRuns:
    @pytest.mark.parametrize("name", METHODS)
    def test_validation_of_every_export_passes(self, name: str) -> None:
        assert {row["validation"] for row in quick(name).values() if row["times"]} == {"passed"}

    @pytest.mark.parametrize("name", METHODS)
    def test_methods_are_complete_and_smaller_than_dense(self, name: str) -> None:
        rows = quick(name)
        assert {method.split()[-1] for method in rows} == METHODS[name]
        for method, row in rows.items():
            dense = rows[method.replace(method.split()[-1], "dense")]
            if row is not dense:
                assert row["table_bytes"] * row["ratio"] == pytest.approx(dense["table_bytes"])
                assert row["file_bytes"] < dense["file_bytes"], method

    def test_news_accuracy_is_near_that_of_dense_table(self) -> None:
        rows = quick("ag_news")
        accuracy = scores(rows, "accuracy")
        assert accuracy["dense"] > 0.85  # chance gives 0.25
        assert accuracy["dpq"] > accuracy["dense"] - 0.02
        assert min(accuracy["ant"], accuracy["tt"]) > 0.8
        assert rows["dpq"]["ratio"] > 50
        assert rows["ant"]["ratio"] > 15
        assert rows["tt"]["ratio"] > 50

    def test_words_are_predicted_with_tied_table(self) -> None:
        rows = quick("wikitext2")
        perplexity = scores(rows, "perplexity")
        assert perplexity["dense"] < 300  # chance gives 4,331
        assert perplexity["tt"] < 1.2 * perplexity["dense"]
        assert max(perplexity.values()) < 1.7 * perplexity["dense"]
        assert rows["dpq"]["ratio"] > 25
        assert rows["ant"]["ratio"] > 10
        assert rows["tt"]["ratio"] > 20

    def test_items_are_recommended_better_than_by_popularity(self) -> None:
        rows = quick("amazon_video")
        hits = scores(rows, "hits in 10")
        assert min(hits.values()) > 1.5 * 0.029  # the ten most frequent items
        assert hits["dpq"] > 0.7 * hits["dense"]
        assert rows["dpq"]["ratio"] > 20
        assert rows["ant"]["ratio"] > 4
        assert rows["tt"]["ratio"] > 10

    @pytest.mark.parametrize("name", ["amazon_video", "wikitext2"])
    def test_output_layer_is_compressed_too(self, name: str) -> None:
        rows = quick(name)
        assert all({"rows", "logits"} <= row["times"].keys() for method, row in rows.items() if method != "dense")

    def test_pretrained_tables_are_replaced(self) -> None:
        rows = quick("pretrained")
        perplexity, same = scores(rows, "perplexity"), scores(rows, "same decisions")
        assert perplexity["words dense"] < 300  # chance gives 10,000; another order of gates 280 to 3,800
        assert perplexity["words dpq"] < 1.05 * perplexity["words dense"]
        assert max(perplexity.values()) < 1.15 * perplexity["words dense"]
        divergence, word = scores(rows, "KL"), scores(rows, "same word")
        assert divergence["words dense"] == 0
        assert divergence["words dpq"] < 0.6 * min(divergence["words opq"], divergence["words ant"])
        assert word["words dense"] == 1
        assert word["words dpq"] > 0.75
        assert rows["words dpq"]["ratio"] > 10
        assert rows["words ant"]["ratio"] > 15
        assert rows["words opq"]["ratio"] > 15
        assert same["thai dpq"] > 0.95
        assert min(same.values()) > 0.8
        films = scores(rows, "same films")
        assert films["films dpq"] > 0.6  # of ten; chance gives .003
        assert films["films dpq"] > max(films["films ant"], films["films low_rank"])
        assert rows["films dpq"]["ratio"] > 9

    def test_sentence_similarity_is_kept(self) -> None:
        rows = quick("sentence_encoder")
        alike = scores(rows, "rank correlation")
        assert rows["dpq"]["ratio"] > 8
        assert alike["dpq"] >= 0.99
        assert alike["opq"] < alike["dpq"]  # as its README says
        assert rows["dpq_distilled"]["ratio"] > 8
        assert alike["dpq_distilled"] > alike["dpq"]


RESULTS = [
    Result("dense", {"accuracy": 0.9}, 1.0, 4000, 5000, {}, ""),
    Result("dpq", {"accuracy": 0.8912}, 40.0, 100, 1100, {"rows": 1.5, "logits": 0.75}, "passed"),
]


class TestCommand:
    @pytest.fixture
    def ran(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        """Make the sample return results at once, and return the list of the options that it gets."""
        import ag_news.sample

        got: list[Any] = [RESULTS]
        monkeypatch.setattr(ag_news.sample, "run", lambda options: (got.append(options), got[0])[1])
        return got

    def run(self, folder: Path, *arguments: str) -> Any:
        where = ["--data", str(folder), "--output", str(folder / "out")]
        return CliRunner().invoke(compare.main, ["ag_news", *where, *arguments])

    def test_command_prints_one_table(self, ran: list[Any], tmp_path: Path) -> None:
        done = self.run(tmp_path)
        assert done.exit_code == 0, done.output
        for text in ("accuracy", "0.8912", "40.0x", "1,100", "rows 1.50", "logits 0.75", "passed"):
            assert text in done.stdout, text

    def test_json_option_writes_json_only_to_stdout(self, ran: list[Any], tmp_path: Path) -> None:
        report = json.loads(self.run(tmp_path, "--json").stdout)
        assert [row["method"] for row in report["results"]] == ["dense", "dpq"]
        assert report["results"][1]["times"] == {"rows": 1.5, "logits": 0.75}

    def test_options_reach_sample(self, ran: list[Any], tmp_path: Path) -> None:
        self.run(tmp_path, "--quick", "--seed", "7")
        options = ran[-1]
        assert (options.data, options.output) == (tmp_path, tmp_path / "out")
        assert options.quick
        assert options.seed == 7
        assert options.output.is_dir()

    def test_failed_validation_exits_with_1(self, ran: list[Any], tmp_path: Path) -> None:
        ran[0] = [*RESULTS, Result("tt", {"accuracy": 0.9}, 2.0, 1, 1, {}, "failed", ("table words: differs",))]
        done = self.run(tmp_path)
        assert done.exit_code == 1
        assert "failed" in done.stdout

    def test_command_without_data_names_option_and_variable(self) -> None:
        done = CliRunner(env={"EDGE_EMBED_DATA": None}).invoke(compare.main, ["ag_news"])
        assert done.exit_code == 2
        assert "--data" in done.stderr
        assert "EDGE_EMBED_DATA" in done.stderr

    @pytest.mark.parametrize("name", ["ag_news", "amazon_video", "wikitext2"])
    def test_missing_archive_is_named(self, name: str, tmp_path: Path) -> None:
        out = ["--data", str(tmp_path), "--output", str(tmp_path / "out")]
        done = CliRunner().invoke(compare.main, [name, *out])
        assert done.exit_code == click.ClickException.exit_code
        assert ".tar.xz is missing: --data expects the folder that contains" in done.stderr


class TestReadmes:
    @pytest.mark.parametrize("name", METHODS)
    def test_readme_gives_command_and_table(self, name: str) -> None:
        text = (ROOT / "samples" / name / "README.md").read_text(encoding="utf-8")
        assert f"python samples/compare.py {name}" in text
        for method in METHODS[name]:
            assert f"{method} " in text
