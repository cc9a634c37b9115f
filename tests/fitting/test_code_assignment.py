"""Codes of rows by sums in float32 equal those of the layer's own rule, near ties too."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_embed.fitting import code_assignment, dense_table
from edge_embed.fitting.checkpoints import NOTHING
from edge_embed.fitting.code_assignment import packed_codes
from edge_embed.fitting.dense_table import DenseTable
from edge_embed.ops import training_library
from edge_embed.ops.dpq_distance import codes as codes_by_rule
from edge_embed.packed import bits as bit_packing


def found(rows: np.ndarray, value: torch.Tensor, num_groups: int) -> np.ndarray:
    """Return the nearest codes [n, D]."""
    unit = torch.eye(rows.shape[1], dtype=torch.float64)
    packed = packed_codes(DenseTable(rows, None), 1.0, value, num_groups, unit, NOTHING, lambda _: None)
    return bit_packing.unpack(packed, bit_packing.bits_for(value.shape[1]), num_groups)


def by_rule(rows: np.ndarray, value: torch.Tensor, num_groups: int) -> np.ndarray:
    key = value.expand(num_groups, -1, -1)
    return codes_by_rule(torch.from_numpy(rows), key, None, None, "euclidean").numpy()


def check_by_rule(rows: np.ndarray, value: torch.Tensor, num_groups: int) -> None:
    """Assert the rule's codes, or centroids as near up to float64 rounding, as the rule gives in other batches."""
    codes, expected = found(rows, value, num_groups), by_rule(rows, value, num_groups)
    ids, groups = np.nonzero(codes != expected)
    points = rows.astype(np.float64).reshape(len(rows), num_groups, -1)[ids, groups]
    values = value.expand(num_groups, -1, -1).double().numpy()
    ours, theirs = (np.square(points - values[groups, each[ids, groups]]).sum(1) for each in (codes, expected))
    allowed = 2.0**-48 * np.square(np.abs(points).max(initial=0) + np.abs(values).max()) * points.shape[1]
    assert (np.abs(ours - theirs) <= allowed).all()


def nearest_first(rows: np.ndarray, value: torch.Tensor, num_groups: int) -> np.ndarray:
    """Return the lowest k of the nearest centroids, without products, for distances that float32 holds exactly."""
    points = rows.astype(np.float64).reshape(len(rows), num_groups, 1, -1)
    return np.square(points - value.double().numpy()).sum(-1).argmin(-1)


@settings(max_examples=80)
@given(st.data())
def test_codes_match_rule_of_layer(data):
    n, num_groups, width = (data.draw(st.integers(1, most), name) for name, most in (("n", 90), ("D", 4), ("s", 9)))
    num_codes = data.draw(st.sampled_from([2, 3, 16, 100, 256, 300, 5000]), "K")
    random = np.random.default_rng(data.draw(st.integers(0, 99), "seed"))
    tables = num_groups if data.draw(st.booleans(), "tables of their own") else 1
    size, offset = (np.float32(10.0 ** data.draw(st.integers(-24, 15), name)) for name in ("size", "offset"))
    value = (random.standard_normal((tables, num_codes, width)) * size + offset).astype(np.float32)
    rows = (random.standard_normal((n, num_groups * width)) * size + offset).astype(np.float32)
    taken = value[0, random.integers(0, num_codes, (n, 2))]  # [n, 2, s]
    near = random.integers(0, 3, n)
    rows[near == 1, :width] = taken[near == 1, 0]
    rows[near == 2, :width] = taken[near == 2].mean(1)  # half-way between two
    value[:, random.integers(0, num_codes, num_codes // 2)] = value[:, : num_codes // 2]  # many centroids occur twice
    value = torch.from_numpy(value)
    check_by_rule(rows, value, num_groups)


@pytest.mark.parametrize("num_codes", [2, 16, 256, 1000])
@pytest.mark.parametrize("power", [-40, 0, 40])
def test_code_of_equally_near_centroids_is_lowest(num_codes, power):
    """Small whole numbers have exact distances, many of them equal."""
    random = np.random.default_rng(0)
    rows, value = (random.integers(-3, 4, shape) * 2.0**power for shape in ((1500, 6), (2, num_codes, 3)))
    rows, value = rows.astype(np.float32), torch.from_numpy(value).float()
    np.testing.assert_array_equal(found(rows, value, 2), nearest_first(rows, value, 2))


@pytest.mark.parametrize("num_codes", [16, 256])
def test_code_of_repeated_centroid_is_zero(num_codes):
    rows = np.random.default_rng(0).standard_normal((5000, 4)).astype(np.float32)
    assert not found(rows, torch.ones(2, num_codes, 2), 2).any()
    assert not found(rows, torch.zeros(1, num_codes, 2), 2).any()


def test_sums_that_overflow_are_left_to_rule():
    random = np.random.default_rng(0)
    rows, value = (random.standard_normal(shape).astype(np.float32) for shape in ((300, 4), (2, 16, 2)))
    rows[::3] *= np.float32(1e25)
    rows[1::7, :2] = 3e38
    value[1, 3] = 1e18
    value = torch.from_numpy(value)
    np.testing.assert_array_equal(found(rows, value, 2), by_rule(rows, value, 2))


def test_group_with_squares_beyond_float32_matches_rule():
    """The numbers of the other group are near 1, so a scale of the whole table does not help."""
    random = np.random.default_rng(0)
    for size in (1e-18, 1e-20, 1e-22, 1e-24):
        rows, value = (random.standard_normal(shape).astype(np.float32) for shape in ((2000, 4), (2, 64, 2)))
        rows[:, :2] *= np.float32(size)
        value[0] *= np.float32(size)
        table = torch.from_numpy(value)
        np.testing.assert_array_equal(found(rows, table, 2), by_rule(rows, table, 2))


@pytest.mark.parametrize("num_codes", [16, 256])
def test_rule_is_asked_for_few_rows(num_codes, monkeypatch):
    """The rule takes ten times as long."""
    asked = []
    rule = code_assignment.codes_by_rule
    monkeypatch.setattr(
        code_assignment, "codes_by_rule", lambda points, *rest: asked.append(len(points)) or rule(points, *rest)
    )
    random = np.random.default_rng(0)
    rows, value = (random.standard_normal(shape).astype(np.float32) for shape in ((20000, 16), (4, num_codes, 4)))
    value = torch.from_numpy(value)
    np.testing.assert_array_equal(found(rows, value, 4), by_rule(rows, value, 4))
    assert 0 < sum(asked) < 0.002 * rows.size / 4


def test_threads_and_blocks_change_no_code(monkeypatch):
    random = np.random.default_rng(0)
    rows = random.standard_normal((9000, 16)).astype(np.float32)
    value = torch.from_numpy(random.standard_normal((4, 256, 4))).float()
    expected, threads = found(rows, value, 4), torch.get_num_threads()
    np.testing.assert_array_equal(expected, by_rule(rows, value, 4))
    try:
        for count, numbers in ((1, 1 << 22), (3, 1 << 22), (3, 16 * 777), (2, 16)):
            torch.set_num_threads(count)
            monkeypatch.setattr(dense_table, "_BLOCK_NUMBERS", numbers)
            np.testing.assert_array_equal(found(rows[: numbers // 4], value, 4), expected[: numbers // 4])
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("num_codes", [3, 16, 256])
@pytest.mark.parametrize("tables", [1, 4])
def test_codes_without_kernel_are_equal(num_codes, tables, monkeypatch):
    random = np.random.default_rng(0)
    rows = random.standard_normal((3000, 16)).astype(np.float32)
    value = torch.from_numpy(random.standard_normal((tables, num_codes, 4))).float()
    expected = found(rows, value, 4)
    monkeypatch.setattr(training_library, "serves", lambda *_: False)
    np.testing.assert_array_equal(found(rows, value, 4), expected)
    np.testing.assert_array_equal(expected, by_rule(rows, value, 4))


# For each instruction set a process that has loaded no library yet, forked from one that has imported the rest.
_SMALL_MARGINS = """
import os, sys
from test_code_assignment import by_rule, found, of_small_margins
rows, value = of_small_margins()
for isa in sys.argv[1:]:
    if not (child := os.fork()):
        os.environ["EDGE_EMBED_FORCE_ISA"] = isa
        os._exit(int((found(rows, value, 3) != by_rule(rows, value, 3)).any()))
    assert os.waitpid(child, 0)[1] == 0, isa
"""


def of_small_margins() -> tuple[np.ndarray, torch.Tensor]:
    """Return rows half-way between two centroids up to some roundings, so that float32 sums may choose either one."""
    random = np.random.default_rng(0)
    value = random.standard_normal((3, 256, 8)).astype(np.float32) + np.float32(2)
    pairs = random.integers(0, 256, (20000, 3, 2))
    near = value[np.arange(3)[:, None], pairs]  # [n, D, 2, s]
    rows = near.mean(2) * (1 + random.standard_normal((20000, 3, 1)) * 1e-7)
    return rows.reshape(20000, -1).astype(np.float32), torch.from_numpy(value)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.slow
def test_rounding_of_any_instruction_set_changes_no_code():
    """Fused and separate roundings are tested; a processor without an instruction set uses its next best one."""
    command = [sys.executable, "-c", _SMALL_MARGINS, "portable", "avx2", "avx512"]
    subprocess.run(command, cwd=Path(__file__).parent, check=True)
