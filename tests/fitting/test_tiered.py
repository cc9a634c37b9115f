"""Tiered fits: the plan is the best one within the bytes, uses them up, and favours frequent rows."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_embed.errors import BadInputError, SizeError
from edge_embed.fitting import dpq, error_feedback, tiered
from edge_embed.fitting.checkpoints import Kept
from edge_embed.fitting.dense_table import DenseTable, SomeRows, row_weights
from edge_embed.fitting.tier_formats import Format, formats
from edge_embed.fitting.tier_plan import Errors, Plan, best_plan
from edge_embed.fitting.tier_sample import Sample
from edge_embed.fitting.tier_weights import tier_weights

RANDOM = np.random.default_rng(0)
N, DIM = 1000, 8
ROWS = torch.from_numpy(RANDOM.standard_normal((N, DIM))).float()
COUNTS = torch.from_numpy(RANDOM.permutation(5000 // np.arange(1, N + 1)))
NBYTES = ROWS.nbytes // 8


def errors_of(able: list[Format], n: int, sampled: int) -> Errors:
    """Return errors as of rows from a normal distribution: a quarter for each further bit."""
    ranks = np.unique(np.linspace(0, n - 1, sampled).astype(np.int64)).astype(np.float64)
    weights = (ranks + 1) ** -0.5
    return Errors(ranks, {form: weights * 0.25 ** (8 * form.row_bytes / DIM) for form in able}, n)


@given(st.integers(20_000, 2_000_000), st.floats(5, 20), st.booleans())
@settings(max_examples=15, deadline=None)
def test_best_plan_uses_bytes_up_to_one_percent(n: int, ratio: float, has_map: bool) -> None:
    able = [form for form in formats(64, "float16") if form.name in ("int8", "int4", "DPQ K=64 D=32", "DPQ K=16 D=16")]
    nbytes = int(4 * n * 64 / ratio)
    plan = best_plan(errors_of(able, n, 500), nbytes, has_map)
    assert plan is not None
    assert sum(plan.sizes) == n
    assert 0.99 * nbytes < plan.shape(has_map).nbytes <= nbytes


@pytest.mark.parametrize("nbytes", [280, 340, 480, 560])
def test_best_plan_equals_search_of_all_plans(nbytes: int) -> None:
    # Bytes of a row. Codes of three bits have two bytes as well, are as bad as those of one byte, and are tried first.
    n, sizes = 40, {"DPQ K=32 D=4": 3, "DPQ K=16 D=4": 2, "DPQ K=8 D=4": 1, "DPQ K=4 D=4": 1}
    able = [form for form in reversed(list(formats(4, "float16"))) if form.name in sizes]
    ranks = np.arange(n, dtype=np.float64)
    weighted = np.sort(RANDOM.random(n))[::-1] ** 4
    errors = {form: weighted / 4 ** sizes[form.name] for form in able}
    plans = []
    for chosen in itertools.combinations_with_replacement(sorted(able, key=lambda form: -form.row_bytes), 3):
        for bounds in itertools.combinations(range(1, n), 2):
            ends = [0, *bounds, n]
            sums = [errors[form][a:b].sum() for form, (a, b) in zip(chosen, itertools.pairwise(ends), strict=True)]
            plan = Plan(chosen, tuple(int(size) for size in np.diff(ends)), float(sum(sums)))
            if chosen[1] != chosen[2] and plan.shape(has_map=False).nbytes <= nbytes:
                plans.append(plan)
    best = min(plans, key=lambda plan: plan.error)
    found = best_plan(Errors(ranks, errors, n), nbytes, has_map=False)
    assert found.error == pytest.approx(best.error)
    assert found.shape(has_map=False).nbytes <= nbytes


@pytest.mark.parametrize("dim", [1, 4, 100])
def test_format_estimates_no_fewer_bytes_than_its_tier_has(dim: int) -> None:
    for form in formats(dim, "float16"):
        for rows in (1, 2, 3, 40, 700):
            assert form.shape_of(rows).nbytes <= form.fixed_bytes + rows * form.row_bytes


def test_best_plan_of_one_row_of_floats_is_not_passed_over() -> None:
    able = [form for form in formats(16, "float16") if form.name in ("float16", "DPQ K=16 D=16", "DPQ K=8 D=16")]
    sizes = {"float16": 16, "DPQ K=16 D=16": 4, "DPQ K=8 D=16": 3}
    errors = {form: np.full(1500, 0.25 ** sizes[form.name]) for form in able}
    plan = best_plan(Errors(np.arange(1500.0), errors, 1500), 12_000, has_map=False)
    assert plan.formats[0].name == "float16"
    assert 11_990 < plan.shape(has_map=False).nbytes <= 12_000


def test_sizes_of_plan_for_sample_keep_shares() -> None:
    able = list(formats(DIM, "float16"))[1:4]
    plan = Plan(tuple(able), (10, 90, 900), 0)
    assert plan.of_sample(100).sizes == (1, 9, 90)
    assert plan.of_sample(4).sizes == (1, 1, 2)


def test_fit_is_closer_than_flat_codes_of_equal_bytes() -> None:
    packed = tiered.fit(ROWS, NBYTES, counts=COUNTS).to_packed()
    assert 0.95 * NBYTES < packed.shape.nbytes <= NBYTES
    flat = dpq.fit(ROWS, 4, 8, counts=COUNTS)
    weights = tier_weights(COUNTS, "rows", None)
    near, far = (
        float(weights @ (rows - ROWS.double()).square().sum(1))
        for rows in (torch.from_numpy(packed.rows_float64(np.arange(N))), flat(torch.arange(N)).double())
    )
    assert near < 0.8 * far
    packed.check()


def test_fit_gives_frequent_rows_smaller_errors() -> None:
    packed = tiered.fit(ROWS, NBYTES, counts=COUNTS).to_packed()
    errors = (torch.from_numpy(packed.rows_float64(np.arange(N))) - ROWS.double()).square().sum(1)
    order = COUNTS.argsort(descending=True)
    assert errors[order[:50]].mean() < 0.3 * errors[order[-500:]].mean()


@pytest.mark.parametrize(("objective", "power"), [("rows", 1 / 2), ("bags", 1), ("logits", 3 / 4)])
def test_weights_are_powers_of_counts(objective: str, power: float) -> None:
    found = tier_weights(torch.tensor([0, 4, 9]), objective, 2)
    assert found.tolist() == pytest.approx([0.5**power, 4.5**power, 0])


def test_fit_of_sorted_rows_needs_no_map() -> None:
    counts = COUNTS.sort(descending=True).values
    packed = tiered.fit(ROWS, NBYTES, counts=counts).to_packed()
    assert packed.tier_map is None
    assert 0.95 * NBYTES < packed.shape.nbytes <= NBYTES


def test_fit_keeps_padding_row_zero() -> None:
    rows = ROWS.clone()
    rows[3] = torch.nan  # never read
    layer = tiered.fit(rows, NBYTES, 3, counts=COUNTS)
    assert not layer(torch.tensor([3])).any()
    assert layer(torch.arange(N)).isfinite().all()


@pytest.mark.slow
def test_estimate_of_plan_is_near_final_error() -> None:
    weights = tier_weights(COUNTS, "rows", None)
    order = COUNTS.argsort(descending=True, stable=True)
    table = DenseTable(ROWS, None)
    triangle = error_feedback.triangle_of(table, row_weights(COUNTS, N, None))
    sample = Sample(table, order, weights, triangle, "float16", N, 0)
    first = sample.measured(formats(DIM, "float16"))
    plan = best_plan(first, NBYTES, has_map=True)
    again = best_plan(sample.measured_again(first, plan), NBYTES, has_map=True)
    packed = tiered.fit(ROWS, NBYTES, counts=COUNTS).to_packed()
    assert packed.shape == again.shape(has_map=True)
    errors = (torch.from_numpy(packed.rows_float64(np.arange(N))) - ROWS.double()) @ triangle
    final = float(weights @ errors.square().sum(1))
    assert again.error == pytest.approx(final, rel=0.1)


class Interrupted(Exception):
    """An interruption in place of a kill."""


def test_finished_codes_of_tier_are_used_only_with_same_rows_in_all_tiers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the last tier change the codes of the others, though not their rows."""
    able = [form for form in formats(DIM, "float16") if form.name in ("DPQ K=64 D=4", "DPQ K=16 D=4", "DPQ K=16 D=2")]
    monkeypatch.setattr(tiered, "formats", lambda *sizes: able)
    monkeypatch.setattr(Plan, "of_sample", lambda plan, n: Plan(tuple(able), (300, 300, 400), 0.0))
    counts = torch.arange(N, 0, -1)
    changed = ROWS.clone()
    changed[600:, 0] *= 10

    def stop(done: int) -> None:
        if done >= 300:
            raise Interrupted

    with pytest.raises(Interrupted), Kept(tmp_path / "kept") as kept:
        tiered.fit(ROWS, NBYTES, counts=counts, kept=kept, on_block=stop)
    assert list(tmp_path.rglob("codes*"))
    with Kept(tmp_path / "kept") as kept:
        resumed = tiered.fit(changed, NBYTES, counts=counts, kept=kept).to_packed()
    expected = tiered.fit(changed, NBYTES, counts=counts).to_packed()
    assert all(np.array_equal(array, resumed.tensors()[name]) for name, array in expected.tensors().items())


def test_fit_without_counts_is_that_of_equal_ones() -> None:
    found, expected = (tiered.fit(ROWS, NBYTES, counts=counts).to_packed() for counts in (None, torch.full((N,), 3)))
    assert all(np.array_equal(array, found.tensors()[name]) for name, array in expected.tensors().items())


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (COUNTS[1:], "counts: got 999, expected 1000"),
        (-COUNTS, "expected none below 0"),
        (COUNTS * torch.inf, "expected finite numbers"),
        (0 * COUNTS, "got only zeros"),
    ],
)
def test_fit_with_impossible_counts_is_refused(counts: torch.Tensor, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        tiered.fit(ROWS, NBYTES, counts=counts)


def test_fit_with_unknown_objective_is_refused() -> None:
    with pytest.raises(BadInputError, match="objective: got 'top', expected one of rows, bags, logits"):
        tiered.fit(ROWS, NBYTES, counts=COUNTS, objective="top")


def test_error_of_too_few_bytes_has_smallest_size() -> None:
    with pytest.raises(SizeError, match=r"no plan of tiers fits into 500 bytes; the smallest, .* as 4 shared") as error:
        tiered.fit(ROWS, 500, counts=COUNTS)
    least = int(re.search(r"requires ([\d,]+)", str(error.value))[1].replace(",", ""))
    assert tiered.fit(ROWS, least, counts=COUNTS).to_packed().shape.nbytes <= least


@pytest.mark.parametrize("kind", ["tensor", "array"])
def test_rows_of_part_of_table_are_read_as_those_of_table(kind: str) -> None:
    weight, ids = ROWS if kind == "tensor" else ROWS.numpy(), torch.tensor([5, 9, 700])
    table = DenseTable(SomeRows(weight, ids), 1)
    expected = ROWS[ids].double()
    expected[1] = 0
    assert torch.equal(table.block(slice(0, 3)), expected)
    assert torch.equal(table.rows(torch.tensor([2, 0])), expected[[2, 0]])
    assert table.nbytes == 3 * 4 * DIM
