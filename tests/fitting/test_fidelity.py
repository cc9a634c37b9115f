"""Fidelity of a compressed table to the dense one: each number against its definition, in float64."""

import zlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_embed.errors import BadInputError
from edge_embed.fitting import fidelity as measured
from edge_embed.fitting import tt
from edge_embed.fitting.dense_table import DenseTable
from edge_embed.fitting.fidelity import fidelity
from edge_embed.fitting.fitted_table import Stored
from edge_embed.packed.packed_form import PackedTable

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.standard_normal((60, 12)).astype(np.float32)


def packed_from(rows: np.ndarray, rank: int = 6, padding_idx: int | None = None) -> PackedTable:
    return tt.fit(rows, rank, padding_idx=padding_idx).to_packed()


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return np.einsum("nd,nd->n", one, other) / np.where(norms == 0, 1, norms)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 60), counted=st.booleans(), padded=st.booleans(), block=st.integers(1, 200))
def test_errors_and_cosines_match_definitions(n, counted, padded, block):
    rows, padding = ROWS[:n].astype(np.float64), 0 if padded and n > 1 else None
    packed = packed_from(rows, padding_idx=padding)
    counts = torch.arange(1.0, n + 1) if counted else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measured, "_BLOCK_NUMBERS", block)
        found = fidelity(DenseTable(rows, padding), Stored(packed), counts)
    weights = np.ones(n) if counts is None else counts.numpy()
    kept = np.arange(n) != padding
    got, wanted, weights = packed.rows_float64(np.arange(n))[kept], rows[kept], weights[kept]
    squares = weights @ np.square(got - wanted).sum(1), weights @ np.square(wanted).sum(1)
    assert found.relative_error == pytest.approx(np.sqrt(squares[0] / squares[1]))
    expected = cosines(got, wanted)
    assert found.mean_cosine == pytest.approx(weights @ expected / weights.sum())
    assert sum(band.rows for band in found.bands) == len(wanted)
    assert min(band.least for band in found.bands) == pytest.approx(expected.min())
    by_id = dict(zip(np.flatnonzero(kept).tolist(), expected, strict=True))
    assert [by_id[row] for row, _ in found.worst] == pytest.approx(np.sort(expected)[:10])  # any of equal ones
    assert [cosine for _, cosine in found.worst] == pytest.approx(np.sort(expected)[:10])


def test_bands_order_rows_by_frequency():
    packed = packed_from(ROWS)
    counts = torch.arange(60.0).flip(0)
    found = fidelity(DenseTable(ROWS, None), Stored(packed), counts)
    expected = cosines(packed.rows_float64(np.arange(60)), ROWS)
    assert [(band.name, band.rows) for band in found.bands] == [
        ("most frequent 1%", 1),
        ("next 9%", 5),
        ("next 40%", 24),
        ("the rest", 30),
    ]
    assert [band.mean for band in found.bands] == pytest.approx(
        [expected[:1].mean(), expected[1:6].mean(), expected[6:30].mean(), expected[30:].mean()]
    )


@pytest.mark.parametrize("block", [7 * 12, 1 << 22])
def test_neighbours_are_nearest_by_cosine_without_row_itself(block, monkeypatch):
    packed = packed_from(ROWS)
    monkeypatch.setattr(measured, "_BLOCK_NUMBERS", block)
    found = fidelity(DenseTable(ROWS, None), Stored(packed))
    near = []
    for rows in (ROWS, packed.rows_float64(np.arange(60))):
        directions = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        scores = directions @ directions.T
        np.fill_diagonal(scores, -np.inf)
        near.append(np.argsort(-scores, axis=1)[:, :10])
    assert found.neighbours == pytest.approx(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(*near, strict=True)]))


def test_neighbours_of_sample_are_searched_among_all_rows(monkeypatch):
    monkeypatch.setattr(measured, "_SAMPLE", 20)
    assert fidelity(DenseTable(ROWS, None), Stored(packed_from(ROWS, 60))).neighbours == 1.0
    assert fidelity(DenseTable(ROWS[:10], None), Stored(packed_from(ROWS[:10]))).neighbours is None


def test_sizes_match_packed_form_and_zip():
    packed = packed_from(np.tile(ROWS[:2], (30, 1)))
    found = fidelity(DenseTable(ROWS, None), Stored(packed))
    assert (found.dense_bytes, found.packed_bytes) == (4 * 60 * 12, packed.nbytes)
    assert found.ratio == 4 * 60 * 12 / packed.nbytes
    assert found.zipped_bytes == sum(len(zlib.compress(array.tobytes(), 6)) for array in packed.tensors().values())


def test_rows_of_zeros_have_no_cosine_and_zero_tables_no_error():
    rows = ROWS.copy()
    rows[3] = 0
    found = fidelity(DenseTable(rows, None), Stored(packed_from(rows, 60)))
    assert found.bands[0].rows == 59
    assert 3 not in [row for row, _ in found.worst]
    nothing = fidelity(DenseTable(0 * ROWS, None), Stored(packed_from(0 * ROWS)))
    assert (nothing.relative_error, nothing.mean_cosine, nothing.bands, nothing.neighbours) == (0.0, 1.0, (), None)


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_scale_of_table_changes_nothing(scale):
    rows = ROWS.astype(np.float64)
    plain = fidelity(DenseTable(rows, None), Stored(packed_from(rows)))
    scaled = fidelity(DenseTable(scale * rows, None), Stored(packed_from(scale * rows)))
    assert scaled.mean_cosine == pytest.approx(plain.mean_cosine, rel=1e-5)
    assert scaled.neighbours == plain.neighbours


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (torch.ones(59), r"counts: got 59, expected 60"),
        (-torch.ones(60), r"counts: got -1 for row 0, expected none below 0"),
        (torch.zeros(60), "counts: got only zeros"),
        (torch.full((60,), torch.nan), "counts: got nan for token 0, expected finite numbers"),
    ],
)
def test_counts_that_do_not_fit_are_refused(counts, message):
    with pytest.raises(BadInputError, match=message):
        fidelity(DenseTable(ROWS, None), Stored(packed_from(ROWS)), counts)


def test_packed_table_of_another_size_is_refused():
    with pytest.raises(BadInputError, match=r"packed: got \[59, 12\], expected \[60, 12\]"):
        fidelity(DenseTable(ROWS, None), Stored(packed_from(ROWS[:59])))
