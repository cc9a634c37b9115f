"""Heat maps over K and D, and curves of training, on a task of a few numbers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib", reason="matplotlib is missing: pip install 'edge-embed[plots]'")
pytest.importorskip("sklearn", reason="scikit-learn is missing: pip install 'edge-embed[dev]'")

import ag_news.claims
import curves
import grid
import wikitext2_untied.claims
from click.testing import CliRunner
from tables import tables
from training import Batch, Part, Recipe, train
from trials import Trial

import edge_embed
from tests.samples.halves import CANDIDATES, DIM, Halves, N, Numbers


def trial(method: str, seed: int, test: float, numbers: float) -> Trial:
    return Trial(method, 0, seed, 0.0, test, 1, numbers, {})


TRIALS = [
    *(trial("dense", seed, 0.5 + seed, 800) for seed in (0, 1)),
    *(
        trial(f"dpq {name}, K = 2, D = {d}", seed, d + 2 * seed, 100)
        for name in ("sx", "vq")
        for d in (8, 32)
        for seed in (0, 1)
    ),
]


def cells_of(report: str, heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading, without the header."""
    _, after = report.split(f"## {heading}\n\n")
    rows = after.split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


class TestMarkdown:
    def test_scores_are_means_over_seeds(self) -> None:
        report = grid.markdown(TRIALS, "accuracy", "command")
        (row,) = cells_of(report, "DPQ-VQ: accuracy")
        assert row[0] == "K = 2"
        assert [cell.split()[0] for cell in row[1:]] == ["9", "33"]

    def test_differences_are_within_a_seed(self) -> None:
        report = grid.markdown(TRIALS, "accuracy", "command")
        (row,) = cells_of(report, "DPQ-SX: difference from the dense table of the same seed")
        assert row[1].startswith("+8 ± ")  # 7.5 and 8.5
        assert float(row[1].split()[-1]) == pytest.approx(0.5 * 12.706, rel=0.01)

    def test_ratio_is_that_of_the_numbers(self) -> None:
        assert cells_of(grid.markdown(TRIALS, "accuracy", "command"), f"Compression {grid._RATIO}") == [
            ["K = 2", "8.0x", "8.0x"]
        ]


@pytest.mark.parametrize("module", [ag_news.claims, wikitext2_untied.claims])
@pytest.mark.parametrize("variant", ["sx", "vq"])
def test_grid_recipe_has_the_sizes_of_its_name(module: Any, variant: str) -> None:
    layer = module.grid(variant, 8, 32).table(50)
    assert (layer.variant, layer.num_codes, layer.num_groups) == (variant, 8, 32)


def test_grid_has_all_sizes_of_the_paper() -> None:
    found = grid.sizes(["first", "second"], lambda *size: size, quick=False)
    assert found["dense"] == ["first"]
    assert found["dpq sx, K = 128, D = 8"] == [("sx", 128, 8)]
    assert len(found) == 1 + 2 * 4 * 3


def test_grid_command_writes_report_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def recipe(variant: str, num_codes: int, num_groups: int) -> Recipe:
        def table(rows: int) -> torch.nn.Module:
            made.append(variant)
            return edge_embed.DPQEmbedding(rows, DIM, 2, 4, variant=variant)  # type: ignore[arg-type]

        return Recipe(table, 1, 1, 0.05)

    monkeypatch.setattr(ag_news.claims, "make_task", lambda options: Halves)
    monkeypatch.setattr(ag_news.claims, "CANDIDATES", CANDIDATES)
    monkeypatch.setattr(ag_news.claims, "grid", recipe)
    arguments = ["ag_news", "--data", str(tmp_path), "--quick", "--output", str(tmp_path)]
    threads = torch.get_num_threads()
    for seeds in ("1", "2"):
        done = CliRunner().invoke(grid.main, [*arguments, "--seeds", seeds])
        assert done.exit_code == 0, done.output
    torch.set_num_threads(threads)

    assert len(made) == 2 * 8  # the trials of the first seed are not run again
    trials = json.loads((tmp_path / "ag_news.json").read_text())["trials"]
    assert len(trials) == 2 * 9
    assert not any(each["cut_down"] for each in trials)
    assert (tmp_path / "ag_news.md").read_text() == done.stdout
    assert (tmp_path / "ag_news.svg").read_text().count("K = ") == 0
    assert "DPQ-VQ" in (tmp_path / "ag_news.svg").read_text()

    threads = torch.get_num_threads()
    done = CliRunner().invoke(grid.main, [*arguments, "--seeds", "1"])
    torch.set_num_threads(threads)
    assert "±" not in done.stdout.partition("\n\nMeans")[0]  # of one seed, as the command says


def test_grid_file_of_another_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ag_news.claims, "make_task", lambda options: Halves)
    (tmp_path / "ag_news.json").write_text("[]", encoding="utf-8")
    done = CliRunner().invoke(grid.main, ["ag_news", "--data", str(tmp_path), "--output", str(tmp_path)])
    assert done.exit_code == 1
    assert "ag_news.json: got no state of a run, expected that of an earlier one: give another --output" in done.stderr


class Drawn(Halves):
    """A task whose score draws numbers in `curves.Watched`, and whose training draws its batches."""

    def batches(self) -> Iterator[Batch]:
        for _ in range(10):
            yield (torch.randperm(N)[:20],)

    def score(self, model: Numbers, part: Part) -> float:
        torch.rand(1)
        return super().score(model, part)


class TestCurves:
    def test_settings_are_those_of_the_results(self) -> None:
        results = json.loads((Path(ag_news.claims.__file__).parent / "results.json").read_text(encoding="utf-8"))
        settings = {row["method"]: row["setting"] for row in results["methods"]}
        found = curves.chosen("ag_news", ag_news.claims.CANDIDATES)
        assert [method.partition(",")[0] for method in found] == ["dense", "dpq vq", "dpq sx", "ant", "tt"]
        for method, recipe in found.items():
            assert recipe is ag_news.claims.CANDIDATES[method][settings[method]]

    def test_training_is_the_same_under_observation(self) -> None:
        recipe = CANDIDATES["dpq"][0]
        rows = []
        for watches in (False, True):
            torch.manual_seed(0)
            task = Drawn()
            more = (curves.Watched(task, 3, quick=False).observe,) if watches else ()
            rows.append(tables(train(task, recipe, "dpq", 3, *more))[0].query)
        torch.testing.assert_close(*rows, rtol=0, atol=0)

    def test_codes_are_compared_with_those_of_the_point_before(self) -> None:
        task = Halves()
        model = task.model(CANDIDATES["dpq"][0].table).train()
        watched = curves.Watched(task, 4, quick=True)  # 40 steps, 4 points
        layer = tables(model)[0]
        for step in range(40):
            if step == 25:
                with torch.no_grad():
                    layer.query.neg_()
            watched.observe(model)
            assert model.training
        assert [step for step, _ in watched.scores] == [10, 20, 30, 40]
        (_, first), (at, second), (_, third) = watched.changes
        assert at == 30
        assert first == third == 0
        assert second > 0.5

    def test_command_writes_curves_of_every_seed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ag_news.claims, "make_task", lambda options: Halves)
        monkeypatch.setattr(curves, "chosen", lambda *_: {name: CANDIDATES[name][-1] for name in ("dense", "dpq")})
        arguments = ["ag_news", "--data", str(tmp_path), "--quick", "--seeds", "2", "--output", str(tmp_path)]
        threads = torch.get_num_threads()
        done = CliRunner().invoke(curves.main, arguments)
        torch.set_num_threads(threads)
        assert done.exit_code == 0, done.output

        found = json.loads((tmp_path / "curves.json").read_text())
        assert {method: len(seeds) for method, seeds in found["scores"].items()} == {"dense": 2, "dpq": 2}
        assert list(found["changes"]) == ["dpq"]
        steps, scores = np.transpose(found["scores"]["dense"][0])
        assert steps.tolist() == [2, 4, 6, 8, 10]
        assert [step for step, _ in found["changes"]["dpq"]] == [4, 6, 8, 10]
        assert ((scores >= 0) & (scores <= 1)).all()
        assert {path.name for path in tmp_path.iterdir()} == {
            "curves.json",
            "convergence.svg",
            "usage.svg",
            "changes.svg",
        }

    def test_committed_plots_are_those_of_the_committed_curves(self, tmp_path: Path) -> None:
        sample = Path(ag_news.claims.__file__).parent
        found = json.loads((sample / "curves.json").read_text(encoding="utf-8"))
        curves.draw_curves(found["scores"], "accuracy on validation", tmp_path / "convergence.svg")
        each = {method: [curve] for method, curve in found["changes"].items()}
        curves.draw_curves(each, "fraction of changed codes", tmp_path / "changes.svg")
        for path in tmp_path.iterdir():
            committed = sample.parents[1] / "docs" / "papers" / f"ag-news-{path.name}"
            assert path.read_bytes() == committed.read_bytes()
