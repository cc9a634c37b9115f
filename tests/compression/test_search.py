"""Search of settings: the goals of bytes, cosine and sizes are met, and the report lists the other settings."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from edge_embed.compression import search
from edge_embed.compression.plan import Plan, compress_tables
from edge_embed.compression.search import Goal, Search
from edge_embed.errors import BadInputError, ParityError, SizeError
from edge_embed.fitting import ant, fidelity
from edge_embed.fitting.fitted_table import Fitted
from edge_embed.fitting.found_table import FoundTable
from edge_embed.fitting.setting import METHODS, setting_of
from edge_embed.packed.ant_shape import ANTShape
from edge_embed.report.results.compressed import CompressedTable, Trial, pareto_front

RANDOM = np.random.default_rng(0)
CENTRES = RANDOM.standard_normal((20, 16))
ROWS = torch.from_numpy(CENTRES[RANDOM.integers(0, 20, 600)] + 0.2 * RANDOM.standard_normal((600, 16))).float()
DENSE_BYTES = 4 * 600 * 16


def made(plan: Plan, **options: object) -> tuple[Fitted, CompressedTable]:
    table = FoundTable("words", ROWS, None, 1, looks_up=True, **options)
    found, tables = compress_tables([table], {}, plan)
    return found["words"], tables[0]


def only(monkeypatch: pytest.MonkeyPatch, *methods: str) -> None:
    """Let `auto` choose among some methods: to try them all takes most of a test's time."""
    monkeypatch.setattr(search, "METHODS", {name: METHODS[name] for name in methods})


@pytest.mark.parametrize(("method", "ratio"), [*itertools.product(METHODS, (4, 8)), ("auto", 4)])
def test_ratio_is_reached_by_each_method(method: str, ratio: float) -> None:
    found, table = made(Plan(method, ratio=ratio))
    assert table.fidelity.packed_bytes == found.stored("beside").nbytes <= DENSE_BYTES / ratio
    assert table.fidelity.ratio >= ratio
    assert found.layer.frozen
    if method != "auto":
        assert table.method == method


def test_search_within_bytes_chooses_highest_cosine() -> None:
    _, table = made(Plan(ratio=6))
    within = [trial for trial in table.trials if trial.nbytes <= DENSE_BYTES / 6]
    best = max(within, key=lambda trial: trial.mean_cosine)
    assert (best.method, best.setting) == (table.method, table.setting)
    assert {trial.method for trial in table.trials} == set(METHODS) - {"opq"}  # its rotation takes too long here
    assert best.mean_cosine == pytest.approx(table.fidelity.mean_cosine, abs=0.003)  # the trial is a draft
    assert best.relative_error == pytest.approx(table.fidelity.relative_error, rel=0.1)
    assert any(trial.nbytes > DENSE_BYTES / 6 for trial in table.trials)  # settings with more bytes are listed too


def test_search_within_bytes_tries_fewer_codes_only_if_more_are_exact() -> None:
    steps = list[tuple[str, int, int]]()
    table = FoundTable("words", ROWS, None, 1, looks_up=True)
    report = compress_tables([table], {}, Plan("dpq", ratio=6), progress=lambda *at: steps.append(at))[1][0]
    groups = [trial.setting.partition("D=")[2] for trial in report.trials]
    assert len(groups) == len(set(groups)) > 1
    shares = [done / total for name, done, total in steps if name == "words: settings"]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert len(shares) > 2 * len(groups)  # groups within a setting are counted too
    exact = FoundTable("words", ROWS.sign(), None, 1, looks_up=True)
    report = compress_tables([exact], {}, Plan("dpq", ratio=4))[1][0]
    assert report.setting.startswith("K=4, D=16")  # two values in a column
    assert report.fidelity is not None
    assert report.fidelity.mean_cosine == pytest.approx(1)


def test_search_with_min_cosine_chooses_smallest_setting() -> None:
    _, table = made(Plan(min_cosine=0.97))
    assert table.fidelity.mean_cosine >= 0.97
    serving = [trial for trial in table.trials if trial.mean_cosine >= 0.97]
    assert table.fidelity.packed_bytes == min(trial.nbytes for trial in serving)
    assert table.fidelity.ratio > 4


def test_budget_is_shared_by_size() -> None:
    small = FoundTable("small", ROWS[:200], None, 1, looks_up=True)
    large = FoundTable("large", ROWS, None, 1, looks_up=True)
    _, tables = compress_tables([small, large], {}, Plan("dpq", budget=8000))
    sizes = [table.fidelity.packed_bytes for table in tables]
    assert 1000 <= sizes[0] <= 2000
    assert 4000 <= sizes[1] <= 6000


def test_table_left_dense_is_in_report_with_reason() -> None:
    left = FoundTable("left", ROWS, None, 3, looks_up=True, reason="it is small")
    kept = FoundTable("kept", ROWS, None, 1, looks_up=True)
    layers, tables = compress_tables([left, kept], {}, Plan("dpq", ratio=4))
    assert layers.keys() == {"kept"}
    assert [table.reason for table in tables] == ["it is small", ""]
    assert tables[0].fidelity is None


def test_counts_reduce_error_of_frequent_rows() -> None:
    counts = torch.ones(600)
    counts[:30] = 1000
    table = FoundTable("words", ROWS + torch.randn(600, 16, generator=torch.Generator().manual_seed(0)), None, 1, True)
    plan = Plan("dpq", options={"num_codes": 16, "num_groups": 2})
    layers, _ = compress_tables([table], {"words": counts}, plan)
    plain, _ = compress_tables([table], {}, plan)
    ids = torch.arange(30)
    errors = [(found["words"].rows(ids) - table.weight[ids]).square().sum() for found in (layers, plain)]
    assert errors[0] < 0.7 * errors[1]


def test_trainable_layer_gets_gradients() -> None:
    layer = made(Plan("dpq", ratio=4, trainable=True))[0].layer
    assert not layer.frozen
    layer.train()(torch.arange(5)).square().sum().backward()
    assert layer.query.grad[:5].any(1).all()
    assert not layer.query.grad[5:].any()


@pytest.mark.parametrize("method", list(METHODS))
def test_trainable_layer_reaches_ratio_in_float32(method: str) -> None:
    found, table = made(Plan(method, ratio=3, trainable=True))
    assert found.layer.to_packed().value_type == "float32"
    assert found.stored("beside").nbytes == table.fidelity.packed_bytes <= DENSE_BYTES / 3


def test_long_table_is_tried_on_sample_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_FITTED", 300)
    monkeypatch.setattr(fidelity, "_MEASURED", 100)
    _, table = made(Plan(ratio=6))
    assert table.fidelity.packed_bytes <= DENSE_BYTES / 6
    assert {trial.method for trial in table.trials} == set(METHODS) - {"opq", "tt", "tr"}
    best = max(
        (trial for trial in table.trials if trial.nbytes <= DENSE_BYTES / 6), key=lambda trial: trial.mean_cosine
    )
    assert max(trial.nbytes for trial in table.trials) <= DENSE_BYTES / 6  # no time for other sizes
    assert best.nbytes == pytest.approx(table.fidelity.packed_bytes, rel=0.05)
    assert best.mean_cosine == pytest.approx(table.fidelity.mean_cosine, abs=0.02)


def test_auto_leaves_out_anchors_whose_draft_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "ant", "rows")
    monkeypatch.setattr(ant, "_SLOW", 600 * 6 * (32 + 6 * 16))  # A = 32, 3 weights a row
    settings = [trial.setting for trial in made(Plan(ratio=6))[1].trials if trial.method == "ant"]
    assert settings
    weights = [float(setting.partition("nonzeros=")[2].partition(",")[0]) for setting in settings]
    assert max(weights) <= 3
    assert made(Plan("ant", ratio=3))[1].method == "ant"  # asked for, it may take its time


@pytest.mark.parametrize("method", ["tt", "tr"])
@pytest.mark.parametrize("plan", [{"ratio": 6}, {"min_cosine": 0.3}], ids=["ratio", "cosine"])
def test_long_table_is_tried_whole_by_tensor_trains(method: str, plan, monkeypatch) -> None:
    monkeypatch.setattr(search, "_FITTED", 100)
    _, table = made(Plan(method, **plan))
    trial = next(trial for trial in table.trials if trial.setting == table.setting)
    assert trial.nbytes == table.fidelity.packed_bytes
    assert trial.mean_cosine == pytest.approx(table.fidelity.mean_cosine, abs=1e-5)


@pytest.mark.parametrize("method", ["dpq", "rows"])
def test_table_that_no_setting_shrinks_is_refused(method: str) -> None:
    table = FoundTable("words", torch.randn(2, 3), None, 1, looks_up=True)
    with pytest.raises(SizeError, match="none is smaller than the 24 bytes of the dense table: keep it dense"):
        compress_tables([table], {}, Plan(method, ratio=6))


@pytest.mark.parametrize("method", METHODS)
def test_settings_within_bytes_stay_within_them(method: str) -> None:
    for nbytes in (600, 2000, 5000, 20000):
        for setting in METHODS[method].within(600, 16, nbytes, {"value_type": "float16", "weight_type": "int8"}):
            fitted = setting.fit(ROWS)
            assert fitted.layer.to_packed().nbytes <= nbytes


@pytest.mark.parametrize(
    ("num_rows", "nbytes", "best"), [(300, 30_000, 64), (300, 7500, 16), (1000, 50_000, 96), (1000, 25_000, 48)]
)
def test_anchor_grid_holds_number_near_best(num_rows: int, nbytes: int, best: int) -> None:
    """The best numbers come from trials on rows of a real table with 100 columns; the grid holds a number near each."""
    types = {"value_type": "float16", "weight_type": "int8"}
    found = [setting.options["num_anchors"] for setting in METHODS["ant"].within(num_rows, 100, nbytes, types)]
    assert min(abs(np.log2(num_anchors / best)) for num_anchors in found) <= 0.6
    assert len(found) <= 3


def test_narrow_rows_have_more_nonzeros_than_eighth_of_columns() -> None:
    types = {"value_type": "float16", "weight_type": "int8"}
    for dim, most in ((4, 4), (16, 8), (64, 8), (128, 16)):
        found = [setting.options["nonzeros"] for setting in METHODS["ant"].within(5000, dim, 10 * 5000 * dim, types)]
        assert found == [most]


@pytest.mark.parametrize("length", [30, 3000])
def test_long_row_does_not_set_weight_step_of_all_rows(length: float) -> None:
    rows = ROWS.clone()
    rows[7] *= length
    table = FoundTable("words", rows, None, 1, looks_up=True)
    _, (report,) = compress_tables([table], {}, Plan("ant", ratio=4))
    assert "weights float16" in report.setting
    assert report.fidelity.mean_cosine > 0.95
    if length == 3000:  # no method is left out for it
        _, (report,) = compress_tables([table], {}, Plan(ratio=4))
        assert {trial.method for trial in report.trials} == set(METHODS) - {"opq"}


def test_bytes_are_kept_if_sample_estimates_nonzeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows outside the sample may have a hundredth more weights."""
    monkeypatch.setattr(ant, "SAMPLE", 2000)
    monkeypatch.setattr(ant, "_ROWS_PER_ANCHOR", 1)
    random = np.random.default_rng(1)
    many = CENTRES[random.integers(0, 20, 4000)] + 0.3 * random.standard_normal((4000, 16))
    table = FoundTable("words", torch.from_numpy(many).float(), None, 1, looks_up=True)
    _, (report,) = compress_tables([table], {}, Plan("ant", ratio=8))
    assert 8 <= report.fidelity.ratio < 8.5
    monkeypatch.setattr(ant, "_SAMPLED", 1.1)
    monkeypatch.setattr(ANTShape, "with_rows", lambda shape, num_rows: SimpleNamespace(nbytes=1))
    with pytest.raises(
        SizeError, match=r"ant A=\d+.*: requires [\d,]+ bytes, expected at most 32,000: request slightly"
    ):
        compress_tables([table], {}, Plan("ant", ratio=8))


def test_numbers_outside_float16_range_stay_float32() -> None:
    for scale in (1e-6, 1e6):
        found, _ = Search(scale * ROWS, None, None, "dpq", False, 0).run(Goal(nbytes=DENSE_BYTES // 4))
        assert found[0].stored == {"value_type": "float32"}


def test_pareto_front_excludes_dominated_settings() -> None:
    trials = [Trial("dpq", "a", 10, 0.8, 0.1), Trial("tt", "b", 20, 0.7, 0.1), Trial("ant", "c", 30, 0.9, 0.1)]
    assert [trial.setting for trial in pareto_front(reversed(trials))] == ["a", "c"]


def test_pareto_front_compares_behind_next_layer() -> None:
    trials = [Trial("dpq", "a", 10, 0.8, 0.1, 0.7), Trial("tt", "b", 20, 0.7, 0.1, 0.5)]
    assert [trial.setting for trial in pareto_front(trials)] == ["a", "b"]


NEXT = torch.randn(2, 16, generator=torch.Generator().manual_seed(0))  # a layer of two outputs


@pytest.mark.parametrize("sample", [False, True])
def test_next_layer_decides_within_bytes(sample: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "dpq", "rows", "low_rank")
    if sample:
        monkeypatch.setattr(search, "_FITTED", 300)
    found, table = made(Plan(ratio=8), next_weight=NEXT)
    assert table.method == "low_rank"
    rows = found.rows(torch.arange(600)).float()
    torch.testing.assert_close(rows @ NEXT.T, ROWS @ NEXT.T, rtol=0, atol=0.01)  # float16 cores
    assert table.next_layer_error < 1e-3
    assert table.fidelity.mean_cosine < 0.9
    dpq = next(trial for trial in table.trials if trial.method == "dpq")
    assert dpq.mean_cosine > table.fidelity.mean_cosine
    assert dpq.next_layer_error > 10 * table.next_layer_error
    assert all(trial.next_layer_error is not None for trial in (*table.trials, *table.baselines))


def test_next_layer_counts_for_given_sizes_too() -> None:
    found, table = made(Plan("low_rank", options={"rank": 2}), next_weight=NEXT)
    torch.testing.assert_close(
        found.rows(torch.arange(600)).float() @ NEXT.T, ROWS @ NEXT.T, rtol=0, atol=0.01
    )  # float16 cores
    (trial,) = table.trials
    assert trial.next_layer_error == table.next_layer_error < 1e-3


def test_outputs_of_one_sign_are_compared_by_their_sizes() -> None:
    """One output whose cosine is 1 for every setting."""
    weight = torch.ones(1, 16)
    rows = FoundTable("words", ROWS + 5, None, 1, looks_up=True, next_weight=weight)
    _, (table,) = compress_tables([rows], {}, Plan("dpq", ratio=8))
    errors = [trial.next_layer_error for trial in table.trials if trial.nbytes <= DENSE_BYTES / 8]
    chosen = next(trial for trial in table.trials if trial.setting == table.setting)
    assert len(errors) > 2
    assert chosen.next_layer_error == min(errors)


def test_layer_that_reads_nothing_of_the_rows_has_no_error() -> None:
    rows, weight = ROWS.clone(), torch.zeros(2, 16)
    rows[:, 8:], weight[:, 8:] = 0, 1
    found = FoundTable("words", rows, None, 1, looks_up=True, next_weight=weight)
    _, (table,) = compress_tables([found], {}, Plan("rows", options={"bits": 4}))
    assert table.next_layer_error == 0


@pytest.mark.parametrize(
    ("plan", "weight"),
    [
        (Plan("low_rank", ratio=4, min_cosine=0.1), NEXT),  # the goal are rows
        (Plan("low_rank", min_cosine=0.8), NEXT),
        (Plan("low_rank", ratio=4), torch.zeros(2, 16)),
        (Plan("low_rank", ratio=4), torch.full((2, 16), torch.nan)),
    ],
)
def test_rows_count_if_they_are_the_goal_or_the_next_layer_says_nothing(plan: Plan, weight: Tensor) -> None:
    found, table = made(plan, next_weight=weight)
    plain, expected = made(plan)
    is_known = bool(weight.isfinite().all() and weight.any())
    assert (table.next_layer_error is not None) == is_known  # reported in any case
    assert replace(table, next_layer_error=None) == expected
    ids = torch.arange(600)
    assert torch.equal(found.rows(ids), plain.rows(ids))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"ratio": 10_000},
            SizeError,
            r"table words: no tested setting fits into 3 bytes; the smallest requires [\d,]+: \w+ ",
        ),
        ({"budget": 5}, SizeError, "no tested setting fits into 5 bytes; the smallest"),
        (
            {"method": "ant", "min_cosine": 0.99999},
            ParityError,
            r"no tested setting reaches a mean cosine of 0\.99999; the best reaches 0",
        ),
        (
            {"method": "tt", "options": {"rank": 200}},
            SizeError,
            "tt R=200: requires [0-9,]+ bytes, expected fewer than the 38,400 of the dense table: use smaller sizes",
        ),
        (
            {"method": "dpq", "options": {"num_codes": 2, "num_groups": 1}, "min_cosine": 0.9},
            ParityError,
            r"dpq K=2, D=1: got a mean cosine of 0\.\d+, expected at least 0.9: use larger sizes",
        ),
        *(
            ({"method": method, "ratio": 1e9}, SizeError, "no tested setting fits into 1 bytes")
            for method in ("dpq", "tt", "tr", "low_rank")
        ),
        ({"method": "dpq", "options": {"num_codes": 16, "num_groups": 3}}, BadInputError, "num_groups"),
        ({"budget": DENSE_BYTES}, BadInputError, "budget: got 38,400, expected at least 1 and less than the 38,400"),
    ],
)
def test_unreachable_goal_is_refused_with_nearest_setting(options, error, message) -> None:
    with pytest.raises(error, match=message):
        made(Plan(**options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give `ratio`, `budget` or `min_cosine`, or a `method` with its sizes"),
        (
            {"method": "pq", "ratio": 2},
            r"method: got 'pq', did you mean '[od]pq'\? expected dpq, opq, ant, tt, tr, low_rank",
        ),
        ({"ratio": 2, "budget": 5}, "got `ratio` and `budget`: give one of them"),
        ({"method": "tt", "ratio": 2, "options": {"rank": 3}}, "got `ratio` and `rank`: give one of them"),
        ({"options": {"rank": 3}}, "`rank`: sizes and types require a method: give `method` too"),
        ({"method": "tt", "options": {"ranks": 3}}, "tt: got `ranks`, expected options among `rank`, `value_type`"),
        ({"method": "dpq", "options": {"num_codes": 3}}, "dpq: got no `num_groups`; give it"),
        (
            {"method": "tt", "options": {"rank": 3, "value_type": "float16"}, "trainable": True},
            "`value_type`: got a stored type for trainable layers: pass it to freeze\\(\\)",
        ),
        ({"ratio": 1}, "ratio: got 1, expected a number above 1"),
        ({"ratio": float("nan")}, "ratio: got nan"),
        ({"ratio": "x"}, "ratio: got 'x'"),
        ({"min_cosine": 1.5}, "min_cosine: got 1.5, expected a number above 0, at most 1"),
    ],
)
def test_plan_without_goal_or_with_contradiction_is_refused(options, message) -> None:
    with pytest.raises(BadInputError, match=message):
        Plan(**options)


def test_setting_splits_sizes_and_stored_types() -> None:
    setting = setting_of("ant", {"num_anchors": 8, "nonzeros": 2, "weight_type": "int8"})
    assert (setting.options, setting.stored) == ({"num_anchors": 8, "nonzeros": 2}, {"weight_type": "int8"})
    assert setting.fit(ROWS).layer.to_packed().shape.weight_type == "int8"


def test_counts_of_unknown_table_are_refused() -> None:
    table = FoundTable("words", ROWS, None, 1, looks_up=True)
    with pytest.raises(
        BadInputError, match=r"counts: got the names wrds, did you mean 'words'\? expected names among words"
    ):
        compress_tables([table], {"wrds": torch.ones(600)}, Plan(ratio=4))


@pytest.mark.parametrize("method", ["dpq", "opq", "ant", "low_rank"])
def test_counts_raise_cosine_of_frequent_rows(method: str) -> None:
    counts = torch.ones(len(ROWS))
    counts[:60] = 100
    table = FoundTable("words", ROWS, None, 1, looks_up=True)
    cosines = []
    for given in ({}, {"words": counts}):
        layers, _ = compress_tables([table], given, Plan(method, ratio=6))
        rows = layers["words"].rows(torch.arange(60)).detach()
        cosines.append(float(torch.cosine_similarity(rows, ROWS[:60].double()).mean()))
    assert cosines[1] > cosines[0]


@pytest.mark.slow
def test_trainable_layers_may_have_tiers() -> None:
    table = FoundTable("words", ROWS, None, 1, looks_up=True)
    _, (report,) = compress_tables([table], {}, Plan(ratio=3, trainable=True))
    assert {"rows", "tiered", "dpq"} <= {trial.method for trial in report.trials}


def test_tables_of_one_model_have_one_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exported file requires one number of cores, so the choice for the first table limits the second."""
    only(monkeypatch, "low_rank", "tt", "tr")
    random = torch.Generator().manual_seed(0)
    flat = torch.randn(512, 2, generator=random) @ torch.randn(2, 64, generator=random)
    factors = [torch.randn(8, 4, generator=random) for _ in range(3)]
    product = torch.kron(torch.kron(factors[0], factors[1]), factors[2])
    found = []
    for tables in ((flat, product), (product, flat)):  # the first table is compressed as if it were alone
        named = [FoundTable(str(at), weight, None, 1, looks_up=True) for at, weight in enumerate(tables)]
        _, reports = compress_tables(named, {}, Plan(ratio=20))
        found.append([report.method for report in reports])
    assert found[0][0] == "low_rank"
    assert found[1][0] == "tt"
    assert not {"tt", "tr"} & set(found[0])
    assert "low_rank" not in found[1]


def test_search_finds_setting_between_tried_ratios() -> None:
    """Rows of 4 bits have a ratio between 6 and 8, which are both tried."""
    weight = torch.randn(2000, 64, generator=torch.Generator().manual_seed(0))
    _, (table,) = compress_tables([FoundTable("words", weight, None, 1, True)], {}, Plan("rows", min_cosine=0.99))
    assert table.setting == "bits=4"


def test_budget_with_min_cosine_is_shared_by_need() -> None:
    """A table of noise needs more bytes than a table of centres, so an equal ratio would miss its cosine."""
    noise = torch.randn(200, 16, generator=torch.Generator().manual_seed(0))
    tables = [FoundTable(name, weight, None, 1, True) for name, weight in (("words", ROWS), ("noise", noise))]
    _, alone = compress_tables(tables, {}, Plan("dpq", min_cosine=0.98))
    needed = sum(table.fidelity.packed_bytes for table in alone)
    _, within = compress_tables(tables, {}, Plan("dpq", min_cosine=0.98, budget=needed))
    assert sum(table.fidelity.packed_bytes for table in within) <= needed
    assert all(table.fidelity.mean_cosine >= 0.98 for table in within)
    with pytest.raises(ParityError, match=r"expected at least 0\.98"):
        compress_tables(tables, {}, Plan("dpq", min_cosine=0.98, budget=needed - 1))


@pytest.mark.parametrize("method", ["tt", "tr"])
@pytest.mark.parametrize("size", [(1, 32), (500, 1), (2, 32)])
def test_trains_of_narrow_tables_reach_ratio(method: str, size: tuple[int, int]) -> None:
    table = FoundTable("words", torch.randn(size, generator=torch.Generator().manual_seed(0)), None, 1, True)
    _, (found,) = compress_tables([table], {}, Plan(method, ratio=1.5))
    assert found.fidelity.ratio >= 1.5


@pytest.mark.parametrize("method", ["auto", "tt", "tr"])
def test_table_of_one_number_is_refused(method: str) -> None:
    with pytest.raises(SizeError, match="fits into 1 bytes"):
        compress_tables([FoundTable("words", torch.ones(1, 1), None, 1, True)], {}, Plan(method, ratio=4))


@pytest.mark.parametrize("num_anchors", [600, 10**9])
def test_anchors_larger_than_table_are_refused(num_anchors: int) -> None:
    with pytest.raises(
        SizeError, match=r"requires .* bytes without any weight, expected fewer than the 38,400 of the dense"
    ):
        made(Plan("ant", options={"num_anchors": num_anchors, "nonzeros": 2}))


@pytest.mark.parametrize("method", ["tt", "tr"])
def test_trains_use_most_of_allowed_bytes(method: str) -> None:
    """The rank where the ends of a ring meet is below the requested one, so the bytes left over go to other ranks."""
    weight = torch.randn(2000, 64, generator=torch.Generator().manual_seed(0))
    _, (table,) = compress_tables([FoundTable("words", weight, None, 1, True)], {}, Plan(method, ratio=5))
    assert 5 <= table.fidelity.ratio < 5.6
