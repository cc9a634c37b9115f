"""The table of all methods at equal bytes: cells that resume, verdicts on auto, and the plot."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

pytest.importorskip("faiss", reason="faiss, which has other methods, is missing: pip install 'edge-embed[bench]'")

import cells
import equal_bytes
from click.testing import CliRunner
from tiers.case import Case

N, DIM = 300, 8


def case(is_trained: bool = False) -> Case:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(N, DIM)).eval()
    weight = model[0].weight.detach().clone()

    def judge(tried: nn.Module) -> dict[str, float]:
        return {"error": float((tried[0].weight - weight).square().mean())}

    return Case("words", model, {"0": torch.arange(N, 0, -1)}, judge, is_trained=is_trained)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return a function that runs the command on one small table."""
    made = {name: lambda options, name=name: iter([replace(case(), name=name)]) for name in ("words", "items")}
    monkeypatch.setattr(cells, "CASES", made)

    def invoked(*arguments: str) -> Any:
        threads = torch.get_num_threads()
        done = CliRunner().invoke(
            equal_bytes.main,
            [
                "--data",
                str(tmp_path),
                "--output",
                str(tmp_path / "out"),
                "--method",
                "hashing",
                "--method",
                "svd",
                *(arguments if "--case" in arguments else ("--case", "words", *arguments)),
            ],
        )
        torch.set_num_threads(threads)
        assert done.exit_code == 0, done.output
        return cells.all_cells(tmp_path / "out", quick=False)

    return invoked


def test_methods_without_chance_run_once_on_one_model(run: Any) -> None:
    found = [(cell["method"], cell["seed"]) for cell in run("--seeds", "2") if cell["ratio"] in (1, 8)]
    assert found == [("dense", 0), ("hashing", 0), ("svd", 0), ("dense", 1), ("hashing", 1)]
    svd = {"svd": equal_bytes.METHODS["svd"]}
    again = cells.measured(case(is_trained=True), svd, [8], 1, [])
    assert [cell["method"] for cell in again] == ["dense", "svd"]


@pytest.mark.parametrize("method", sorted(cells._CERTAIN))
def test_methods_without_chance_find_the_same_rows_from_every_seed(method: str) -> None:
    first, second = (equal_bytes.METHODS[method](case(), 4, seed) for seed in (0, 1))
    assert torch.equal(first[0]["0"], second[0]["0"])


def test_finished_cells_are_not_run_again(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run("--seeds", "1")
    monkeypatch.setattr(equal_bytes, "METHODS", dict.fromkeys(equal_bytes.METHODS))  # no method could run
    assert run("--seeds", "1") == first


def test_report_has_the_cells_of_all_files(run: Any, tmp_path: Path) -> None:
    """Two processes may run two cases: neither writes the file of the other."""
    first = run("--seeds", "1", "--case", "items")
    file = tmp_path / "out" / "items.json"
    before = file.stat().st_mtime_ns
    both = run("--seeds", "1", "--case", "words")
    assert file.stat().st_mtime_ns == before
    assert both == [cell for cell in both if cell["case"] == "words"] + first
    text = (tmp_path / "out" / "equal_bytes.md").read_text(encoding="utf-8")
    assert "## words, error" in text
    assert "## items, error" in text


def test_quick_cells_are_not_taken_for_others(run: Any, tmp_path: Path) -> None:
    run("--seeds", "1")
    arguments = ["--data", str(tmp_path), "--output", str(tmp_path / "out"), "--quick"]
    done = CliRunner().invoke(equal_bytes.main, arguments)
    assert done.exit_code == 1
    assert "words.json is of a run without --quick; give another folder" in done.stderr


def test_readme_gives_the_command() -> None:
    text = (Path(equal_bytes.__file__).parent / "tiers" / "README.md").read_text(encoding="utf-8")
    assert ".venv/bin/python samples/equal_bytes.py --data FOLDER" in text


ROOT = Path(equal_bytes.__file__).parents[1]


@pytest.fixture(scope="module")
def committed() -> list[dict[str, Any]]:
    """Return the committed cells of the models on which auto has run."""
    found = cells.all_cells(ROOT / "samples" / "tiers", quick=False)
    finished = {cell["case"] for cell in found if cell["method"] == "auto"}
    known = (cells.DENSE, *equal_bytes.METHODS)
    return [cell for cell in found if cell["case"] in finished and cell["method"] in known]


def test_page_and_committed_tables_are_those_of_the_cells(committed: list[dict[str, Any]], tmp_path: Path) -> None:
    tables = (ROOT / "samples" / "tiers" / "equal_bytes.md").read_text(encoding="utf-8")
    assert equal_bytes.markdown(committed, "python samples/equal_bytes.py --seeds 3") == tables
    first, _, _ = tables.partition("\n## ")
    page = (ROOT / "docs" / "performance" / "equal-bytes.md").read_text(encoding="utf-8")
    rows = [line for line in first.splitlines() if line.startswith("|")]
    assert "\n".join(rows) in page
    summary, hours = first.splitlines()[len(rows) + 5].split(" Fits took ")
    assert summary in page
    assert f"Fits took {hours.partition(' ')[0]} hours" in page
    equal_bytes.draw(committed, tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_bytes() == (ROOT / "docs" / "performance" / "equal-bytes.svg").read_bytes()


def test_trimming_keeps_more_first_choices_of_the_output_layer(committed: list[dict[str, Any]]) -> None:
    """The page says so beside the table, which compares by KL divergence."""
    own = [cell for cell in committed if cell["case"] == "PTB output layer"]
    for ratio in equal_bytes._RATIOS:
        auto, trimming = (cells.mean_of(cells.values_of(own, ratio, m, "top-1")) for m in ("auto", "trimming"))
        assert trimming > auto


def test_residual_codes_are_better_by_rank_correlation_at_16x(committed: list[dict[str, Any]]) -> None:
    """The page says so beside the table, which compares by analogies."""
    own = [cell for cell in committed if cell["case"] == "GloVe"]
    auto, residual = (cells.mean_of(cells.values_of(own, 16, m, "rank correlation")) for m in ("auto", "residual"))
    assert residual > auto


NOT_RUN = {("MiniLM", "additive")}  # the page says so


def test_committed_cells_are_complete(committed: list[dict[str, Any]]) -> None:
    """Each method has its seeds at each ratio, also where it does not fit; those without chance have one a model."""
    for case in {cell["case"] for cell in committed}:
        own = [cell for cell in committed if cell["case"] == case]
        seeds = {cell["seed"] for cell in own}
        assert len(seeds) == 3
        is_trained = any(cell["seed"] for cell in own if cell["method"] == "svd")
        for method in equal_bytes.METHODS:
            if (case, method) in NOT_RUN:
                continue
            once = method in cells._CERTAIN and not is_trained
            for ratio in equal_bytes._RATIOS:
                assert {cell["seed"] for cell in cells.cells_of(own, ratio, method)} == ({0} if once else seeds)


def test_results_have_figures_and_a_plot(run: Any, tmp_path: Path) -> None:
    found = {(cell["method"], cell["ratio"]): cell for cell in run("--seeds", "1")}
    text = (tmp_path / "out" / "equal_bytes.md").read_text(encoding="utf-8")
    assert f"| svd | {found['svd', 8]['figures']['error']:.4g} |" in text
    assert (tmp_path / "out" / "equal_bytes.svg").read_text(encoding="utf-8").startswith("<?xml")


def made(method: str, figures: list[float], ratio: int = 8) -> list[dict[str, Any]]:
    found = {"case": "words", "ratio": ratio, "method": method, "higher_is_better": False}
    return [found | {"seed": seed, "figures": {"KL": figure}} for seed, figure in enumerate(figures)]


@pytest.mark.parametrize(
    ("auto", "best", "is_good"),
    [
        ([0.30, 0.31, 0.29], [0.40, 0.41, 0.39], True),  # better
        ([0.40, 0.45, 0.35], [0.39, 0.38, 0.40], True),  # within the interval
        ([0.40, 0.41, 0.39], [0.30, 0.31, 0.29], False),
        ([0.40, 0.41, 0.39], [0.30], False),  # a method without chance, which ran once
        ([0.39], [0.4], True),
        ([0.41], [0.4], False),
    ],
)
def test_verdict_compares_auto_with_the_best_method(auto: list[float], best: list[float], is_good: bool) -> None:
    own = [*made("dense", [0.0], 1), *made("auto", auto), *made("svd", best), *made("hashing", [0.9] * len(auto))]
    found = equal_bytes.verdict_of(own, 8)
    assert found is not None
    assert found.is_good == is_good
    assert (found.row[3], found.row[6]) == ("", "svd")
    assert found.row[-1] == ("yes" if is_good else "**no**")
    text = equal_bytes.markdown(own, "command")
    assert f"`auto` is within noise of the best other method in {int(is_good)} of 1 cells." in text


def test_verdict_names_the_method_that_auto_selects() -> None:
    own = [*made("dense", [0.0], 1), *made("auto", [0.1, 0.3]), *made("dpq", [0.1, 0.3]), *made("svd", [0.2, 0.4])]
    found = equal_bytes.verdict_of(own, 8)
    assert found is not None
    assert (found.row[3], found.row[6]) == ("dpq", "svd")


def test_method_that_does_not_fit_has_no_figure() -> None:
    own = [*made("dense", [0.0], 1), {"case": "words", "ratio": 8, "method": "svd", "seed": 0, "error": "no"}]
    assert equal_bytes.verdict_of([*own, *made("auto", [0.1])], 8) is None
    assert "svd" not in equal_bytes._figures(own, "KL")
