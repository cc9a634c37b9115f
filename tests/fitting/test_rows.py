"""Rows of small integers stay within half a step of the dense rows, for numbers of any size."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edge_embed.errors import BadInputError
from edge_embed.fitting import rows
from edge_embed.fitting.dense_table import DenseTable
from edge_embed.fitting.setting import setting_of
from edge_embed.ops import integers
from edge_embed.packed.dpq import PackedDPQ

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.standard_normal((50, 7)) * 10.0 ** RANDOM.integers(-3, 3, (50, 1))
ROWS[4] = 0
LARGEST = float(np.finfo(np.float32).max)


def nearest(table: np.ndarray, bits: int, padding_idx: int | None = None) -> PackedDPQ:
    """Return rows rounded to the nearest integers, without feedback."""
    unit = torch.eye(table.shape[1], dtype=torch.float64)
    return rows.fit(table, bits, padding_idx, triangle=unit).to_packed()


def exact(table: np.ndarray, bits: int) -> np.ndarray:
    """Return each row quantised with a scale of its own."""
    scales = np.abs(table).max(1, keepdims=True) / (2 ** (bits - 1) - 1)
    return scales * np.rint(np.divide(table, scales, where=scales > 0, out=np.zeros_like(table)))


@pytest.mark.parametrize("bits", range(2, 9))
def test_tables_of_few_rows_have_a_scale_per_row(bits: int) -> None:
    packed = nearest(ROWS, bits, 3)
    packed.check_codes()
    expected = exact(ROWS, bits)
    expected[3] = 0
    np.testing.assert_allclose(packed.rows(np.arange(50)), expected, rtol=2e-7)  # scales are float32
    assert packed.bits == bits
    assert packed.compression_ratio == 32 * 50 * 7 / (8 * packed.nbytes - 50 * (-7 * bits % 8))  # except spare bits
    assert packed.codes.shape[1] == -(-7 * bits // 8)
    assert packed.rows([3, 4]).tobytes() == bytes(2 * 4 * 7)


@given(st.integers(257, 600), st.integers(1, 5), st.integers(2, 8), st.floats(0, 12), st.integers(0, 99))
def test_tables_of_many_rows_share_256_scales(n: int, dim: int, bits: int, spread: float, seed: int) -> None:
    """Each row has the next larger scale; the scales are evenly spaced by logarithm."""
    random = np.random.default_rng(seed)
    table = random.standard_normal((n, dim)) * 10.0 ** random.uniform(-spread / 2, spread / 2, (n, 1))
    packed = nearest(table, bits)
    largest = np.abs(table).max(1)
    steps = largest / (2 ** (bits - 1) - 1)
    given_steps = packed.row_scales[packed.row_scale_codes].astype(np.float64)
    wider = (largest.max() / largest.min()) ** (1 / 255)
    assert (given_steps >= steps).all()
    assert (given_steps <= steps * wider * (1 + 1e-6)).all()
    off = np.abs(packed.rows(np.arange(n)) - table)
    assert (off <= given_steps[:, np.newaxis] * (0.5 + 1e-4)).all()
    assert packed.nbytes <= integers.shape_of(n, dim, bits).nbytes


@pytest.mark.parametrize("table", [np.zeros((300, 3)), np.full((300, 3), 1e-44), np.full((3, 1), -LARGEST)])
def test_numbers_near_limits_of_float32_are_represented(table: np.ndarray) -> None:
    np.testing.assert_allclose(rows.fit(table, 8).to_packed().rows(np.arange(len(table))), table, rtol=1e-2, atol=1e-44)


@pytest.mark.parametrize("bits", [1, 9, 8.0, True])
def test_bits_out_of_range_are_refused(bits: object) -> None:
    with pytest.raises(BadInputError, match=r"bits: got .*, expected 2 to 8"):
        rows.fit(ROWS, bits)


def test_setting_makes_same_table_as_fit() -> None:
    """The seed changes nothing."""
    ids, counts = np.arange(50), torch.arange(50.0)
    made = setting_of("rows", {"bits": 4}).fit(ROWS, 3, counts, seed=7).layer.to_packed().rows(ids)
    assert made.tobytes() == rows.fit(ROWS, 4, 3, counts=counts).to_packed().rows(ids).tobytes()
    assert made.tobytes() != rows.fit(ROWS, 4, 3).to_packed().rows(ids).tobytes()


@pytest.mark.parametrize("counts", [None, RANDOM.integers(0, 9, 50)])
def test_baselines_have_size_and_error_of_their_tables(counts: np.ndarray | None) -> None:
    trials = rows.baselines(DenseTable(ROWS, 3), 3, None if counts is None else torch.from_numpy(counts))
    weights = np.ones(50) if counts is None else counts.astype(float)
    weights[[3, 4]] = 0  # the padding row; a row of zeros has no cosine
    for trial, bits in zip(trials, (8, 4), strict=True):
        found = exact(ROWS, bits)
        lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(ROWS, axis=1)
        cosines = (found * ROWS).sum(1) / np.where(lengths, lengths, 1)
        error = np.sqrt(weights @ np.square(found - ROWS).sum(1) / (weights @ np.square(ROWS).sum(1)))
        assert trial.nbytes == integers.shape_of(50, 7, bits).nbytes
        assert trial.mean_cosine == pytest.approx(weights @ cosines / weights.sum(), rel=1e-6)  # scales are float32
        assert trial.relative_error == pytest.approx(error, rel=1e-4)


@pytest.mark.parametrize("bits", [8, 2])
def test_scales_of_largest_float32_numbers_stay_finite(bits: int) -> None:
    """Scales of many rows are spaced evenly; without a limit, a product with the last one would be infinite."""
    table = np.float32(2) ** np.linspace(120, 127.9, 2000, dtype=np.float32)[:, None] * np.ones(3, np.float32)
    found = rows.fit(table, bits).to_packed().rows(np.arange(2000))
    assert np.isfinite(found).all()
    if bits == 8:
        np.testing.assert_allclose(found, table, rtol=0.03)
