"""The comparison of tiered tables: rows that are put into models, the baseline, and the table of results."""

from dataclasses import replace

import pytest
import torch
from compare_tiers import markdown
from tiers.case import Case
from tiers.contenders import CONTENDERS, OTHER, trimmed
from torch import nn

N, DIM = 600, 8
COUNTS = torch.arange(N, 0, -1)


def case() -> Case:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(N, DIM)).eval()
    return Case("words", model, {"0": COUNTS}, lambda tried: {"sum": float(tried[0].weight.sum())})


def test_contender_reads_the_next_layer_of_a_saved_model() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(N, DIM), nn.Linear(DIM, 2)).eval()
    ids = torch.arange(N)[None]

    def error_of(tried: nn.Module) -> dict[str, float]:
        return {"error": float((tried(ids) - model(ids)).abs().max())}

    module = Case("words", model, {"0": COUNTS}, error_of)
    saved = replace(module, example=(ids[:, :2],))
    make = CONTENDERS["low_rank"]
    errors = [each.figures(make(each, 3, 0)[0])["error"] for each in (module, saved)]
    assert errors[1] < 0.01 < errors[0]


def test_figures_are_those_of_other_rows() -> None:
    assert case().figures({"0": torch.ones(N, DIM)}) == {"sum": N * DIM}


def test_trimming_keeps_frequent_rows_within_bytes() -> None:
    made = case()
    rows, nbytes, setting = trimmed(made, 8, 0)
    count = int(setting.split()[0])
    assert 0.99 * made.nbytes["0"] / 8 < nbytes <= made.nbytes["0"] / 8
    dense = made.model[0].weight.detach()
    assert (rows["0"][:count] - dense[:count]).abs().max() < 0.02 * dense.abs().max()
    assert len(rows["0"][count:].unique(dim=0)) == 1


@pytest.mark.slow
def test_tiered_contender_returns_plan_and_rows() -> None:
    rows, nbytes, setting = CONTENDERS["tiered"](case(), 8, 0)
    assert nbytes <= case().nbytes["0"] / 8
    assert rows["0"].shape == (N, DIM)
    assert setting.count(" row") >= 3


def test_markdown_counts_cells_that_tiers_win() -> None:
    def cell(method: str, ratio: int, figure: float, seed: int = 0, **others: object) -> dict[str, object]:
        found = {"case": "words", "seed": seed, "ratio": ratio, "method": method, "figures": {"KL": figure}}
        return {**found, **others}

    cells = [
        cell("dense", 1, 0.0, higher_is_better=False),
        cell("tiered", 8, 0.1, setting="1 row int8"),
        cell("dpq", 8, 0.2),
        cell("ant", 8, 0.3),
        cell(OTHER, 8, 0.15),
        cell("dpq", 16, 0.4),
        {"case": "words", "seed": 0, "ratio": 16, "method": "tiered", "error": "no plan"},
    ]
    text = markdown(cells, "command")
    assert "Tiered tables are best in 1 of 2 cells." in text
    assert "| words, KL | 0 | 8x | 0.1 | 0.2 | dpq | -0.1 | 1 row int8 |" in text
    assert "| words, KL | 0 | 16x | does not fit | 0.4 | dpq |" in text
    assert "| words, KL | 8x | 0.1 | 0.15 | 0.2 |" in text


def test_markdown_compares_means_over_seeds() -> None:
    figures = {"dense": (0.5, 0.5), "tiered": (0.3, 0.6), "dpq": (0.4, 0.4)}
    cells = [
        {"case": "items", "seed": seed, "ratio": 1 if method == "dense" else 8, "method": method, "setting": "",
         "figures": {"hits": figure}, "higher_is_better": True}
        for method, values in figures.items()
        for seed, figure in enumerate(values)
    ]  # fmt: skip
    text = markdown(cells, "command")
    assert "Tiered tables are best in 1 of 1 cells." in text
    assert "| items, hits | 0.5 ± 0 | 8x | 0.45 ± 1.9 | 0.4 ± 0 | dpq | +0.05 ± 1.9 |" in text
