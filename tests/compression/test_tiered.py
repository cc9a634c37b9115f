"""Tiered tables in `compress`: their report, the choice by `auto`, and counts of several kinds."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import edge_embed
from edge_embed.compression import search
from edge_embed.compression.plan import Plan, compress_tables
from edge_embed.errors import BadInputError, SizeError
from edge_embed.fitting.found_table import FoundTable
from edge_embed.fitting.row_counts import RowCounts, SeenIds
from edge_embed.packed.tiered import PackedTiered
from edge_embed.report.results.compressed import CompressedTable, CompressReport

RANDOM = np.random.default_rng(0)
N, DIM = 800, 16
ROWS = torch.from_numpy(RANDOM.standard_normal((N, DIM))).float()
COUNTS = torch.from_numpy(RANDOM.permutation(8000 // np.arange(1, N + 1)))


def made(plan: Plan, counts: RowCounts | None = COUNTS, others: RowCounts | None = None) -> CompressedTable:
    table = FoundTable("words", ROWS, None, 1, looks_up=True)
    given, compared = ({} if each is None else {"words": each} for each in (counts, others))
    return compress_tables([table], given, plan, other_counts=compared)[1][0]


@pytest.fixture(scope="module")
def report() -> CompressedTable:
    return made(Plan("tiered", ratio=8), SeenIds.of(np.repeat(np.arange(N), COUNTS.numpy())))


def test_report_has_tiers_with_shares_and_errors() -> None:
    table = FoundTable("words", ROWS, None, 1, looks_up=True)
    others = COUNTS.flip(0)
    found, (report,) = compress_tables(
        [table], {"words": COUNTS}, Plan("tiered", ratio=8), other_counts={"words": others}
    )
    packed, plan = found["words"].stored("beside").plain, report.plan
    tier_of = packed.places(np.arange(N))[0]
    off = (packed.rows_float64(np.arange(N)) - ROWS.double().numpy()) ** 2
    for number, tier in enumerate(plan.tiers):
        own = tier_of == number
        assert (tier.rows, tier.nbytes) == (own.sum(), packed.tiers[number].shape.nbytes)
        assert tier.share == pytest.approx(COUNTS.numpy()[own].sum() / COUNTS.sum())
        assert tier.relative_error == pytest.approx((off[own].sum() / (ROWS.double()[own] ** 2).sum()) ** 0.5)
    assert sum(tier.nbytes for tier in plan.tiers) + plan.map_bytes == report.fidelity.packed_bytes
    assert plan.equal_error == pytest.approx(float((off.sum() / (ROWS.double() ** 2).sum()) ** 0.5))
    weighted = others.numpy() @ off.sum(1) / (others.double() @ (ROWS.double() ** 2).sum(1))
    assert plan.other_error == pytest.approx(float(weighted**0.5))
    assert plan.other_share == pytest.approx(1 - others.numpy()[tier_of == len(plan.tiers) - 1].sum() / others.sum())
    assert str(plan).startswith(f"{plan.tiers[0].rows:,} rows {plan.tiers[0].format}, ")
    assert report.setting == f"nbytes={4 * N * DIM // 8}"
    assert plan.counts == "given"


@pytest.mark.slow
@pytest.mark.parametrize("most", [1 << 15, 400])
def test_auto_with_counts_chooses_tiers_also_on_sample(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_FITTED", most)
    monkeypatch.setattr(search, "_AROUND", (1.0,))
    report = made(Plan(ratio=8))
    assert report.method == "tiered"
    (trial,) = (trial for trial in report.trials if trial.method == "tiered")
    assert trial.nbytes == pytest.approx(report.fidelity.packed_bytes, rel=0.02)
    assert trial.mean_cosine == pytest.approx(report.fidelity.mean_cosine, abs=0.02)


def test_counts_of_order_are_named_as_assumption() -> None:
    report = made(Plan("tiered", ratio=8), "order")
    assert (report.plan.counts, report.plan.map_bytes) == ("order", 0)
    shown = str(CompressReport((report,), 1))
    assert "Counts are assumed: n / (rank + 1) in the order of the n rows." in shown


def test_counts_of_ids_are_used(report: CompressedTable) -> None:
    order = COUNTS.argsort(descending=True)
    most = COUNTS[order[: report.plan.tiers[0].rows]].sum() / COUNTS.sum()
    assert report.plan.tiers[0].share == pytest.approx(float(most))


@pytest.mark.parametrize("ratio", [4, 8])
def test_tiers_without_counts_use_up_ratio(ratio: float) -> None:
    report = made(Plan("tiered", ratio=ratio), None)
    assert ratio <= report.fidelity.ratio < 1.01 * ratio
    assert report.fidelity.relative_error < made(Plan("dpq", ratio=ratio), None).fidelity.relative_error
    assert (report.plan.counts, report.plan.map_bytes) == ("equal", 0)
    assert report.plan.tiers[0].share == pytest.approx(report.plan.tiers[0].rows / len(ROWS))
    assert "Counts are assumed: all rows are equally frequent." in str(CompressReport((report,), 1))


def test_compress_tables_with_other_counts_of_unknown_table_is_refused() -> None:
    table = FoundTable("words", ROWS, None, 1, looks_up=True)
    with pytest.raises(BadInputError, match="other_counts: got the names word, did you mean 'words'"):
        compress_tables([table], {}, Plan("rows", ratio=4), other_counts={"word": "order"})


def test_compress_tables_with_other_counts_for_flat_method_is_refused() -> None:
    table = FoundTable("words", ROWS, None, 1, looks_up=True)
    with pytest.raises(BadInputError, match="other_counts: got some for rows, expected them for auto or tiered"):
        compress_tables([table], {}, Plan("rows", ratio=4), other_counts={"words": "order"})


def test_objective_without_counts_is_refused() -> None:
    with pytest.raises(BadInputError, match="objective: got 'logits' without counts, expected the frequencies"):
        made(Plan("tiered", ratio=8, objective="logits"), None)


def test_objective_of_other_method_is_refused() -> None:
    with pytest.raises(BadInputError, match="objective: got 'logits' for dpq, expected auto or tiered"):
        Plan("dpq", ratio=8, objective="logits")
    with pytest.raises(BadInputError, match="objective: got 'top', expected one of rows, bags, logits"):
        Plan("tiered", ratio=8, objective="top")


def test_tiers_that_do_not_fit_name_smallest_plan() -> None:
    with pytest.raises(SizeError, match=r"table words: no tested setting fits into 512 bytes; the smallest requires"):
        made(Plan("tiered", ratio=100))


def test_budget_too_small_for_tiers_leaves_other_methods() -> None:
    table = made(Plan("auto", ratio=40))
    assert table.fidelity.ratio >= 40
    assert "tiered" not in {trial.method for trial in table.trials if trial.nbytes <= table.fidelity.packed_bytes}


@pytest.mark.slow
def test_plot_has_a_bar_for_each_tier(report: CompressedTable, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is missing: pip install 'edge-embed[plot]'")
    from edge_embed.report.views.compressed_plot import draw

    draw(CompressReport((report,), 1), tmp_path / "tried.svg")
    text = (tmp_path / "tried.svg").read_text(encoding="utf-8")
    assert text.count("of counts") == len(report.plan.tiers)


def test_compress_tables_with_other_counts_of_wrong_length_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"table words: .*counts: got 799, expected 800"):
        made(Plan("tiered", ratio=8), COUNTS, COUNTS[1:])


@pytest.mark.parametrize("method", ["tiered", "rows"])
def test_counts_of_every_kind_are_read(method: str) -> None:
    numbers = np.arange(300, 0, -1)
    kinds = (
        numbers,
        [*map(int, numbers)],
        torch.from_numpy(numbers),
        torch.from_numpy(numbers).double().requires_grad_(),
    )
    rows = torch.randn(300, 8, generator=torch.Generator().manual_seed(0))
    found = []
    for counts in kinds:
        table = FoundTable("words", rows, None, 1, looks_up=True)
        made, _ = compress_tables([table], {"words": counts}, Plan(method, ratio=4))
        found.append(made["words"].layer.to_packed().rows(np.arange(300)))
    for others in found[1:]:
        np.testing.assert_array_equal(others, found[0])


@pytest.mark.parametrize(
    ("counts", "kind"), [(torch.ones(300).to_sparse(), "sparse_coo"), (torch.ones(300, device="meta"), "meta")]
)
def test_counts_without_numbers_in_memory_are_refused(counts: torch.Tensor, kind: str) -> None:
    table = FoundTable("words", torch.randn(300, 8), None, 1, looks_up=True)
    with pytest.raises(BadInputError, match=f"counts: got a {kind} tensor, expected numbers in memory"):
        compress_tables([table], {"words": counts}, Plan("auto", ratio=4))


@cache
def packed(mode: str, objective: str | None = None) -> PackedTiered:
    layer = nn.EmbeddingBag.from_pretrained(ROWS, mode=mode)
    found, _ = edge_embed.compress(layer, "tiered", counts={"embedding": COUNTS}, ratio=16, objective=objective)
    return found.to_packed()


def is_same(one: PackedTiered, other: PackedTiered) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one.tensors().values(), other.tensors().values(), strict=True))


@pytest.mark.parametrize(("mode", "usual"), [("sum", "bags"), ("mean", "bags"), ("max", "rows")])
def test_usual_objective_of_bags_is_that_of_their_mode(mode: str, usual: str) -> None:
    for objective in ("rows", "bags"):
        assert is_same(packed(mode), packed("sum", objective)) == (objective == usual)


@pytest.mark.parametrize("mode", ["sum", "max"])
def test_saved_model_with_bags_has_objective_of_module(mode: str, tmp_path: Path) -> None:
    class Bags(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.EmbeddingBag.from_pretrained(ROWS, mode=mode)

        def forward(self, ids: Tensor) -> Tensor:
            return self.words(ids)

    edge_embed.save(Bags(), tmp_path / "bags.pt", torch.tensor([[1, 2, 3]]))
    given = {"method": "tiered", "counts": {"words": COUNTS}, "ratio": 16}
    from_file, from_module = (edge_embed.compress(each, **given) for each in (tmp_path / "bags.pt", Bags()))
    plans = [report.tables[0].plan for _, report in (from_file, from_module)]
    assert plans[0] == plans[1]


def test_sums_of_rows_are_nearer_with_objective_of_bags() -> None:
    drawn = torch.multinomial(COUNTS.double(), 20_000, replacement=True, generator=torch.Generator().manual_seed(0))
    bags = drawn.reshape(-1, 20).numpy()
    exact = ROWS.double().numpy()[bags].sum(1)
    errors = {
        objective: ((packed("sum", objective).rows_float64(bags).sum(1) - exact) ** 2).sum()
        for objective in ("rows", "bags")
    }
    assert errors["bags"] < 0.9 * errors["rows"]
