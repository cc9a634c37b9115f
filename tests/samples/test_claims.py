"""Trials of several methods from several seeds, on a task of a few numbers."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn", reason="scikit-learn, which has the k-means, is missing: pip install 'edge-embed[dev]'")
pytest.importorskip("scipy", reason="scipy, which has the intervals, is missing: pip install 'edge-embed[bench]'")

import claims
import click
import methods
import steps
import trials
from baselines.cut_down import TIERS, WAYS, cut_down
from candidates import one_of_each
from click.testing import CliRunner
from costs import step_costs, step_memory
from options import Options
from tables import MakeTable, paper_numbers, tables
from torch import Tensor, nn
from training import Batch, Part, Recipe, Task
from trials import Trial, choose, counts, run_seed

import edge_embed
from tests.samples.halves import CANDIDATES, DIM, Halves, N, Numbers

ROOT = Path(__file__).parents[2]
DATA = os.environ.get("EDGE_EMBED_DATA")

OPTIONS = Options(Path(), False, 0, Path())

ROWS = np.random.default_rng(0).normal(size=(N, DIM)).astype(np.float32)
COUNTS = np.arange(N)[::-1].copy()


def error(found: np.ndarray) -> float:
    return float(np.linalg.norm(found - ROWS))


class TestCutDown:
    def test_low_rank_is_best_that_fits(self) -> None:
        rank = 3
        left, sizes, right = np.linalg.svd(ROWS, full_matrices=False)
        best = (left[:, :rank] * sizes[:rank]) @ right[:rank]
        nbytes = 4 * rank * (N + DIM)
        np.testing.assert_allclose(cut_down(ROWS, COUNTS, nbytes)["svd"], best, atol=1e-5)
        assert error(cut_down(ROWS, COUNTS, nbytes - 1)["svd"]) > error(best) + 0.1

    def test_codes_take_no_more_bytes_than_given(self) -> None:
        table = 4 * 16 * DIM
        with_four = cut_down(ROWS, COUNTS, table + 2 * N)["pq"]  # four codes of four bits a row
        with_two = cut_down(ROWS, COUNTS, table + 2 * N - 1)["pq"]
        assert {len(np.unique(group, axis=0)) for group in np.split(with_four, 4, axis=1)} == {16}
        assert error(with_four) < error(with_two)

    def test_frequent_rows_have_smaller_error(self) -> None:
        counts = np.where(np.arange(N) < 10, 1000, 0)
        plain, weighted = (cut_down(ROWS, each, 4 * 16 * DIM + N)["pq"] for each in (np.zeros_like(counts), counts))
        assert np.linalg.norm((weighted - ROWS)[:10]) < 0.7 * np.linalg.norm((plain - ROWS)[:10])

    def test_train_takes_no_more_bytes_than_given(self) -> None:
        packed = edge_embed.TTEmbedding(N, DIM, rank=4).to_packed()
        larger, smaller = (cut_down(ROWS, COUNTS, packed.nbytes + less)["tt"] for less in (400, -400))
        assert error(larger) < error(smaller) < float(np.linalg.norm(ROWS))

    def test_tiers_take_no_more_bytes_and_favour_frequent_rows(self) -> None:
        counts = np.where(np.arange(N) < 10, 1000, 0)
        found = cut_down(ROWS, counts, 400, [TIERS])
        assert list(found) == [TIERS]
        errors = np.square(found[TIERS] - ROWS).mean(1)
        assert errors[:10].mean() < 0.1 * errors[10:].mean()
        larger = cut_down(ROWS, counts, 600, [TIERS])[TIERS]
        assert error(larger) < error(found[TIERS])

    def test_fewer_rows_than_codes_are_no_error(self) -> None:
        assert "pq" in cut_down(ROWS[:3], COUNTS[:3], ROWS[:3].nbytes - 1)

    def test_methods_that_do_not_fit_are_left_out(self) -> None:
        assert cut_down(ROWS, COUNTS, 4) == {}
        assert tuple(cut_down(ROWS, COUNTS, ROWS.nbytes - 1)) == WAYS


@pytest.fixture(scope="module")
def found() -> list[Trial]:
    chosen = {method: choose(Halves, recipes, method, OPTIONS) for method, recipes in CANDIDATES.items()}
    return [trial for seed in (3, 4) for trial in run_seed(Halves, CANDIDATES, chosen, seed, OPTIONS)]


class TestTrials:
    def test_trials_cover_every_method_and_seed(self, found: list[Trial]) -> None:
        found = [(trial.method, trial.seed) for trial in found]
        assert found == [("dense", 3), ("dpq", 3), ("dense", 4), ("dpq", 4)]

    def test_validation_chooses_setting(self, found: list[Trial]) -> None:
        assert {trial.setting for trial in found if trial.method == "dense"} == {1}  # the other setting learns nothing
        assert all(trial.test == 1 for trial in found if trial.method == "dense")

    def test_table_bytes_are_those_of_packed_table(self, found: list[Trial]) -> None:
        assert [trial.table_bytes for trial in found[:2]] == [4 * N * DIM, N * 1 + 4 * 4 * DIM]

    def test_trials_count_numbers_of_paper(self, found: list[Trial]) -> None:
        assert [trial.paper_numbers for trial in found[:2]] == pytest.approx([N * DIM, N * 4 * 2 / 32 + 4 * DIM])

    def test_dense_table_is_cut_down_to_bytes_of_others(self, found: list[Trial]) -> None:
        assert not found[0].cut_down
        assert found[1].cut_down.keys() <= set(WAYS)
        assert all(0 <= score <= 1 for score in found[1].cut_down.values())

    def test_seed_gives_same_trial_again(self, found: list[Trial]) -> None:
        assert list(run_seed(Halves, CANDIDATES, {"dense": 1, "dpq": 0}, 4, OPTIONS)) == found[2:]

    def test_finished_trials_are_left_out(self, found: list[Trial]) -> None:
        chosen = {"dense": 1, "dpq": 0}
        assert list(run_seed(Halves, CANDIDATES, chosen, 4, OPTIONS, {"dense"})) == found[3:]  # dense beside it
        assert list(run_seed(Halves, CANDIDATES, chosen, 4, OPTIONS, {"dpq"})) == found[2:3]

    def test_counts_match_rows_of_batches(self) -> None:
        (rows,) = counts(Halves(), [ROWS])
        assert rows.tolist() == [40, *[10] * (N - 1)]

    def test_step_costs_are_relative_to_dense_step(self) -> None:
        recipes = {name: recipes[-1] for name, recipes in CANDIDATES.items()}
        costs = step_costs(Halves(), recipes, quick=True)
        assert set(costs["dense"]) == {1.0}
        assert len(costs["dpq"]) == len(costs["dense"])

    def test_step_memory_counts_each_tensor_once(self) -> None:
        found = step_memory(Halves(), {"dense": CANDIDATES["dense"][-1]})
        adam = 4 * 4 * N * DIM + 4  # weight, gradient, two moments, and the number of the step
        kept = (N + 3) * (8 + 4)  # ids of the lookup, and what is squared
        assert found == {"dense": adam + kept}

    def test_codes_need_more_memory_in_training_than_rows(self) -> None:
        found = step_memory(Halves(), {name: recipes[-1] for name, recipes in CANDIDATES.items()})
        values = 4 * 4 * 4 * DIM  # the codebook, its gradient and its moments
        assert found["dpq"] > found["dense"] + values


class TestPaperNumbers:
    def test_ant_counts_anchors_and_entries_above_zero(self) -> None:
        layer = edge_embed.ANTEmbedding(N, DIM, 5)
        with torch.no_grad():
            layer.transform.zero_()
            layer.transform[3, :2] = 1
        assert paper_numbers(layer) == pytest.approx(5 * DIM + 2)

    def test_tensor_train_counts_its_cores(self) -> None:
        layer = edge_embed.TTEmbedding(N, DIM, rank=3)
        assert paper_numbers(layer) == pytest.approx(sum(core.numel() for core in layer.cores))

    def test_shared_codebook_counts_once(self) -> None:
        layer = edge_embed.DPQEmbedding(N, DIM, num_codes=5, num_groups=4, share_subspaces=True)
        assert paper_numbers(layer) == pytest.approx(N * 4 * np.log2(5) / 32 + 5 * DIM / 4)


class Sums(nn.Module):
    def __init__(self, table: nn.ModuleDict) -> None:
        super().__init__()
        self.table = table

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.table["left"](left).sum(-1) + self.table["right"](right).sum(-1)


class TwoTables(Task[Sums]):
    """Rows of a table of 40 rows and of a table of 60 rows, whose sum has to be 1."""

    metric = "sum"
    sizes: ClassVar = {"left": 40, "right": 60}

    def model(self, table: MakeTable) -> Sums:
        return Sums(nn.ModuleDict({name: table(rows) for name, rows in self.sizes.items()}))

    def batches(self) -> Iterator[Batch]:
        yield torch.arange(20), torch.arange(20) * 2, torch.ones(20)

    def ids(self, batch: Batch) -> Sequence[Tensor]:
        return batch[:2]

    def loss(self, model: Sums, batch: Batch) -> Tensor:
        left, right, wanted = batch
        return (model(left, right) - wanted).square().mean()

    def score(self, model: Sums, part: Part) -> float:
        return float(model(torch.arange(40), torch.arange(40)).abs().sum())

    def example(self) -> Tensor:
        return torch.arange(3)


class TestSeveralTables:
    def test_tables_are_cut_down_to_their_own_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[Any] = []

        def nothing(rows: np.ndarray, counts: np.ndarray, nbytes: int, _: Any) -> dict[str, np.ndarray]:
            asked.append((rows.shape, counts.tolist(), nbytes))
            ways = ("svd", "pq") if len(rows) == 40 else ("svd", "tt")
            return {way: np.zeros_like(rows) for way in ways}

        monkeypatch.setattr(trials, "cut_down", nothing)
        plain, compressed = run_seed(TwoTables, CANDIDATES, {"dense": 1, "dpq": 0}, 0, OPTIONS)
        own = [n * 1 + 4 * 4 * DIM for n in (40, 60)]
        first, second = [1] * 20 + [0] * 20, [1, 0] * 20 + [0] * 20
        assert asked == [((40, DIM), first, own[0]), ((60, DIM), second, own[1])]
        assert (plain.table_bytes, compressed.table_bytes) == (4 * 100 * DIM, sum(own))
        assert plain.test > 0
        assert compressed.cut_down == {"svd": 0}  # both were replaced; the other ways do not fit both


def small_tiers(rows: int) -> nn.Module:
    floats = nn.Embedding(6, DIM), nn.Embedding(10, DIM)
    return edge_embed.TieredEmbedding([*floats, edge_embed.DPQEmbedding(rows - 16, DIM, 4, 4, variant="vq")])


class TestTiers:
    def test_tiers_share_rows_out_by_frequency(self) -> None:
        table = methods.tiers(DIM, 0.2, 0.3, 4, distance_norm=False)(N)
        assert [(type(tier).__name__, tier.num_embeddings) for tier in table.tiers] == [
            ("IntegerEmbedding", 8),
            ("IntegerEmbedding", 12),
            ("DPQEmbedding", 20),
        ]
        assert [tier.bits for tier in table.tiers[:2]] == [8, 4]
        assert table.to_packed().tier_map is None
        assert not table(torch.tensor(0)).any()

    def test_trained_tiers_are_compared_with_tiers_after_training(self) -> None:
        candidates = CANDIDATES | {"tiers": [Recipe(small_tiers, epochs=1, quick_epochs=1, rate=0.05)]}
        found = run_seed(Halves, candidates, {"dense": 1, "dpq": 0, "tiers": 0}, 0, OPTIONS)
        ways = {trial.method: trial.cut_down.keys() for trial in found}
        assert TIERS in ways["tiers"]
        assert TIERS not in ways["dpq"]


def invoked(arguments: Sequence[str], command: click.Command = claims.main) -> Any:
    threads = torch.get_num_threads()
    done = CliRunner().invoke(command, arguments)
    torch.set_num_threads(threads)
    return done


class TestCommand:
    @pytest.fixture
    def done(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
        import ag_news.claims

        monkeypatch.setattr(ag_news.claims, "make_task", lambda options: Halves)
        monkeypatch.setattr(ag_news.claims, "CANDIDATES", CANDIDATES)
        arguments = ["ag_news", "--data", str(tmp_path), "--seeds", "2", "--quick", "--output", str(tmp_path / "out")]
        return invoked(arguments)

    def test_command_writes_what_it_prints(self, done: Any, tmp_path: Path) -> None:
        assert done.exit_code == 0, done.output
        assert done.stdout == (tmp_path / "out" / "results.md").read_text(encoding="utf-8")
        results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
        assert results["command"] == "python samples/claims.py ag_news --seeds 2 --seed 0 --quick"
        assert results["command"] in done.stdout
        assert [row["method"] for row in results["methods"]] == ["dense", "dpq"]
        assert len(results["trials"]) == 4

    def test_ablation_trains_its_own_settings(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        import ag_news.claims

        monkeypatch.setattr(ag_news.claims, "make_task", lambda options: Halves)
        few = {"dense": CANDIDATES["dense"], "dpq": CANDIDATES["dpq"], "dpq, few codes": CANDIDATES["dpq"]}
        monkeypatch.setattr(ag_news.claims, "ABLATIONS", {"codes": few}, raising=False)
        where = ["--data", str(tmp_path), "--seeds", "1", "--quick", "--output", str(tmp_path)]
        done = invoked(["ag_news", *where, "--ablation", "codes"])
        assert done.exit_code == 0, done.output
        results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
        assert [row["method"] for row in results["methods"]] == ["dense", "dpq", "dpq, few codes"]
        assert results["command"].endswith("--quick --ablation codes")

    @pytest.mark.parametrize(
        ("sample", "said"), [("click_through", "expected sx"), ("bert", "none, as this sample has no ablation")]
    )
    def test_unknown_ablation_is_refused(self, sample: str, said: str, tmp_path: Path) -> None:
        done = invoked([sample, "--data", str(tmp_path), "--output", str(tmp_path / "out"), "--ablation", "x"])
        assert done.exit_code == 2
        assert f"--ablation: got 'x', {said}" in done.stderr
        assert not (tmp_path / "out").exists()

    @pytest.fixture
    def interrupted(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
        """Return the arguments of a run of two seeds that ended during the second one."""
        import ag_news.claims

        def run(make_task: Any, candidates: Any, chosen: Any, seed: int, *rest: Any) -> Iterator[Trial]:
            for trial in run_seed(make_task, candidates, chosen, seed, *rest):
                yield trial
                if seed == 1:
                    raise KeyboardInterrupt

        monkeypatch.setattr(ag_news.claims, "make_task", lambda options: Halves)
        monkeypatch.setattr(ag_news.claims, "CANDIDATES", CANDIDATES)
        arguments = ["ag_news", "--data", str(tmp_path), "--output", str(tmp_path), "--seeds", "2", "--quick"]
        with monkeypatch.context() as patch:
            patch.setattr(claims, "run_seed", run)
            assert invoked(arguments).exit_code == 1
        return arguments

    def test_finished_seeds_stay_when_later_one_is_interrupted(self, interrupted: list[str], tmp_path: Path) -> None:
        assert "--seeds 1 --seed 0 --quick" in (tmp_path / "results.md").read_text(encoding="utf-8")
        assert "One seed." in (tmp_path / "results.md").read_text(encoding="utf-8")

    def test_resume_runs_missing_trials_only(
        self, interrupted: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        begun = json.loads((tmp_path / "begun.json").read_text(encoding="utf-8"))
        assert [(trial["method"], trial["seed"]) for trial in begun["trials"]] == [
            ("dense", 0),
            ("dpq", 0),
            ("dense", 1),
        ]
        made: list[Trial] = []

        def run(*given: Any) -> Iterator[Trial]:
            for trial in run_seed(*given):
                made.append(trial)
                yield trial

        monkeypatch.setattr(claims, "run_seed", run)
        monkeypatch.setattr(claims, "choose", None)
        monkeypatch.setattr(claims, "step_costs", None)
        monkeypatch.setattr(claims, "step_memory", None)
        done = invoked([*interrupted, "--resume"])
        assert done.exit_code == 0, done.output
        assert [(trial.method, trial.seed) for trial in made] == [("dpq", 1)]
        results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
        assert [trial["seed"] for trial in results["trials"]] == [0, 0, 1, 1]
        assert results["trials"][:3] == begun["trials"]

    @pytest.mark.parametrize(
        ("left", "said"),
        [
            (None, "got no state of a run"),
            ("{", "got no state of a run"),
            ('{"quick": true}', "got no state of a run"),
            ('{"sample": "ag_news", "quick": false, "trials": []}', "got other settings"),
            ('{"sample": "sst2", "quick": true, "trials": []}', "got other settings"),
            (
                '{"sample": "ag_news", "quick": true, "chosen": {"other": 0}, "trials": []}',
                "got other settings",
            ),
            (
                '{"sample": "ag_news", "quick": true, "chosen": {"dense": 2}, "trials": []}',
                "got other settings",
            ),
        ],
    )
    def test_resume_without_matching_run_is_refused(
        self, interrupted: list[str], tmp_path: Path, left: str | None, said: str
    ) -> None:
        (tmp_path / "begun.json").unlink()
        if left is not None:
            (tmp_path / "begun.json").write_text(left, encoding="utf-8")
        done = invoked([*interrupted, "--resume"])
        assert done.exit_code == 1
        assert said in done.stderr
        assert "leave out --resume" in done.stderr

    def test_resume_with_other_data_is_refused(self, interrupted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Halves, "batches", lambda _: iter([(torch.arange(N - 1),)]))
        done = invoked([*interrupted, "--resume"])
        assert done.exit_code == 1
        assert "got other settings or data, expected those of this run" in done.stderr

    def test_resume_adds_methods_to_a_finished_run(
        self, done: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        import ag_news.claims

        before = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
        extended = {"dense": CANDIDATES["dense"], "new": CANDIDATES["dpq"], "dpq": CANDIDATES["dpq"]}
        monkeypatch.setattr(ag_news.claims, "CANDIDATES", extended)
        arguments = ["ag_news", "--data", str(tmp_path), "--seeds", "2", "--quick", "--output", str(tmp_path / "out")]
        again = invoked([*arguments, "--resume"])
        assert again.exit_code == 0, again.output
        results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
        assert [row["method"] for row in results["methods"]] == ["dense", "new", "dpq"]
        assert [trial for trial in results["trials"] if trial["method"] != "new"] == before["trials"]
        new = [trial | {"method": "dpq"} for trial in results["trials"] if trial["method"] == "new"]
        assert new == [trial for trial in before["trials"] if trial["method"] == "dpq"]  # the same recipe

    def test_folder_that_cannot_be_made_gives_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        where = ["--data", str(tmp_path), "--output", str(tmp_path / "file" / "x")]
        done = CliRunner().invoke(claims.main, ["ag_news", *where])
        assert done.exit_code == 1
        assert "cannot be created: Not a directory" in done.stderr

    def test_differences_are_taken_within_a_seed(self, done: Any, tmp_path: Path) -> None:
        results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
        trials = {(trial["method"], trial["seed"]): trial for trial in results["trials"]}
        dense, dpq = results["methods"]
        for figure, got, of_dense in (
            (lambda trial: trial["test"], dpq, dense),
            (lambda trial: trial["further"]["largest"], dpq["further"]["largest"], dense["further"]["largest"]),
        ):
            differences = [figure(trials["dpq", seed]) - figure(trials["dense", seed]) for seed in (0, 1)]
            assert got["difference"]["mean"] == pytest.approx(np.mean(differences))
            # t(0.975, 1) = 12.706; the standard error of two values is half their distance
            half = 12.706 * abs(differences[0] - differences[1]) / 2
            assert got["difference"]["half"] == pytest.approx(half, rel=1e-4)
            assert of_dense["difference"] is None

    def test_second_table_has_sizes_and_costs(self, done: Any) -> None:
        rows = [
            [cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"
        ]
        header, _, dense, dpq = rows[-4:]
        assert header == ["method", "ratio, bytes", "ratio, paper", "numbers", "step time", "step memory"]
        assert dense == ["dense", "1.0x", "1.0x", f"{N * DIM}", "1.00x", "1.00x"]
        assert dpq[:4] == ["dpq", f"{4 * N * DIM / (N + 16 * DIM):.1f}x", f"{N * DIM / 42:.1f}x", "42"]
        assert float(dpq[5].removesuffix("x")) > 1

    def test_additional_measures_have_columns_of_their_own(self, done: Any) -> None:
        rows = [[cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines() if line[:1] == "|"]
        header, dense, dpq = rows[0], rows[2], rows[3]
        at = header.index("largest")
        assert header[at + 1] == "vs dense"
        assert dense[at]
        assert not dense[at + 1]
        assert dpq[at + 1][0] in "+-"


class TestSteps:
    def test_steps_command_gives_ratios_of_all_methods_at_a_width(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        import wikitext2.claims

        widths = set()

        class Told(Halves):
            def model(self, table: MakeTable) -> Numbers:
                widths.add(table(N).embedding_dim)
                return super().model(table)

        monkeypatch.setattr(wikitext2.claims, "make_task", lambda options: Told)
        done = invoked(["wikitext2", "--data", str(tmp_path), "--width", "192"], steps.main)
        assert done.exit_code == 0, done.output
        header, _, *rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()]
        assert header == ["method", "step", "95 % interval"]
        assert [row[0] for row in rows] == list(wikitext2.claims.CANDIDATES)
        assert rows[0][1:] == ["1.00x", "1.00 to 1.00"]
        ratio, (low, high) = float(rows[1][1].removesuffix("x")), map(float, rows[1][2].split(" to "))
        assert low <= ratio <= high
        assert widths == {192}

    def test_lstm_is_as_wide_as_its_table(self) -> None:
        from sst2.model import PhraseClassifier
        from wikitext2.model import LanguageModel

        ids = torch.zeros(1, 2, dtype=torch.int64)
        assert LanguageModel(nn.Embedding(5, 64))(ids).shape == (1, 2, 5)
        assert PhraseClassifier(nn.Embedding(5, 64), 2)(ids).shape == (1, 2)

    @pytest.mark.parametrize(
        ("output", "count", "shares"), [("shared", 1, True), ("own", 2, True), ("dense", 1, False)]
    )
    def test_output_layer_of_words_has_the_table_that_its_sample_says(
        self, output: Any, count: int, shares: bool
    ) -> None:
        from wikitext2.data import Text
        from wikitext2.sample import WordTask

        task = WordTask(Text({str(at): at for at in range(9)}, *[torch.zeros(99, dtype=torch.int64)] * 3), output)
        model = task.model(methods.dense(8))
        found = tables(model)
        assert len(found) == len(task.ids(next(task.batches()))) == count
        assert (model.words.weight is found[-1].weight) == shares
        assert (found[0].weight is found[-1].weight) == (count == 1)
        task.loss(model, next(task.batches())).backward()
        assert all(table.weight.grad is not None for table in found)

    @pytest.mark.parametrize("tied", [True, False])
    def test_output_layer_of_translator_shares_its_table_if_tied(self, tied: bool) -> None:
        from multi30k.data import Corpus, Pairs
        from multi30k.task import TranslationTask

        pairs = Pairs(torch.ones(3, 4, dtype=torch.int64), torch.ones(3, 4, dtype=torch.int64))
        names = {str(at): at for at in range(9)}
        model = TranslationTask(Corpus(names, names, pairs, pairs, pairs, []), tied).model(methods.dense(128))
        assert (model.words.weight is model.table["target"].weight) == tied
        assert model.words.out_features == 9

    def test_width_that_codes_do_not_divide_is_refused(self, tmp_path: Path) -> None:
        done = invoked(["wikitext2", "--data", str(tmp_path), "--width", "100"], steps.main)
        assert done.exit_code == 2
        assert "--width: got 100, expected a multiple of 64" in " ".join(done.output.split())


def test_quick_run_has_one_ratio_of_each_method() -> None:
    found = one_of_each({"dense": [], "dpq vq, K = 16": [], "dpq vq, K = 4": [], "dpq sx, K = 16": [], "tt, R = 8": []})
    assert list(found) == ["dense", "dpq vq, K = 16", "dpq sx, K = 16", "tt, R = 8"]


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="EDGE_EMBED_DATA names no folder with the samples' data (samples/*/README.md)")
# Limits for a dense table and for any other; chance gives 0.25, 0.5, 0.004, 0.5 and perplexities of thousands. One
# short epoch learns nothing of clicks, and nothing with BERT.
@pytest.mark.parametrize(
    ("name", "dense", "worst"),
    [
        pytest.param("ag_news", 0.85, 0.7, marks=pytest.mark.long),
        pytest.param("bert", 0.2, 0.2, marks=pytest.mark.long),
        ("sst2", 0.75, 0.55),
        pytest.param("amazon_video", 0.02, 0.015, marks=pytest.mark.long),
        pytest.param("click_through", 0.45, 0.45, marks=pytest.mark.long),
        pytest.param("multi30k", 100, 300, marks=pytest.mark.long),
        pytest.param("wikitext2", 900, 2000, marks=pytest.mark.long),
    ],
)
def test_quick_run_reaches_scores_above_chance(name: str, dense: float, worst: float, tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "samples" / "claims.py", name, "--seeds", "1", "--quick", "--output", tmp_path]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    sign = -1 if results["metric"] == "perplexity" else 1
    scores = {row["method"]: sign * row["score"]["mean"] for row in results["methods"]}
    assert scores["dense"] > sign * dense
    assert min(scores.values()) > sign * worst, scores
    dense_tables = {"dense", "entmax15 attention", "learned attention"}
    smaller = [row for row in results["methods"] if row["method"] not in dense_tables]
    assert all(row["ratio"] > 2 and row["cut down"] for row in smaller), results["methods"]


@pytest.mark.parametrize("name", claims._NAMES)
def test_readme_of_each_sample_gives_its_command(name: str) -> None:
    text = (ROOT / "samples" / name / "README.md").read_text(encoding="utf-8")
    assert f"python samples/claims.py {name} --data FOLDER" in text


def test_readme_gives_command_of_steps() -> None:
    text = (ROOT / "samples" / "wikitext2" / "README.md").read_text(encoding="utf-8")
    assert "python samples/steps.py wikitext2 --data FOLDER --width 512" in text
