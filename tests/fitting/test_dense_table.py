"""Dense tables of every kind give the same rows in blocks; other arrays are refused."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edge_embed.errors import BadInputError
from edge_embed.fitting import dense_table, tt
from edge_embed.fitting.dense_table import DenseTable

WEIGHT = np.random.default_rng(0).standard_normal((30, 8))


@given(st.integers(1, 20), st.integers(1, 5), st.integers(1, 40), st.data())
def test_blocks_are_all_rows_padded_with_zeros(rows, unit, numbers, data):
    whole = unit * (-(-rows // unit) + data.draw(st.integers(0, 3), "spare"))
    padding = data.draw(st.none() | st.integers(0, rows - 1), "padding_idx")
    weight = np.arange(1.0, 3 * rows + 1).reshape(rows, 3)
    table = DenseTable(weight, padding)
    expected = np.zeros((whole, 3))
    expected[:rows] = weight
    if padding is not None:
        expected[padding] = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_table, "_BLOCK_NUMBERS", numbers)
        blocks = list(table.blocks(whole, unit))
    assert all(len(block) % unit == 0 and (block.numel() <= numbers or len(block) == unit) for block in blocks)
    assert torch.cat(blocks).tolist() == expected.tolist()
    assert table.energy == np.sum(np.square(expected))


@pytest.mark.parametrize("row_order", [None, torch.tensor([2, 1, 0, *range(3, 30)])], ids=["as they are", "ordered"])
def test_rows_by_id_match_those_of_blocks(row_order):
    table, ids = DenseTable(WEIGHT, 1, row_order), torch.tensor([4, 0, 1, 29, 4])
    assert torch.equal(table.rows(ids), torch.cat(list(table.blocks(30)))[ids])
    assert not table.rows(ids)[2].any()


def kinds(folder: Path) -> dict[str, object]:
    np.save(folder / "table.npy", WEIGHT)
    transposed = torch.from_numpy(WEIGHT.T.copy()).T
    return {
        "memory-mapped": np.load(folder / "table.npy", mmap_mode="r"),
        "big-endian": WEIGHT.astype(">f8"),
        "columns first": np.asfortranarray(WEIGHT),
        "parameter": torch.nn.Parameter(torch.from_numpy(WEIGHT)),
        "transposed tensor": transposed,
    }


@pytest.mark.parametrize("kind", ["memory-mapped", "big-endian", "columns first", "parameter", "transposed tensor"])
def test_tables_of_every_kind_give_same_cores(kind, tmp_path):
    expected = tt.fit(WEIGHT, 3)
    for core, wanted in zip(tt.fit(kinds(tmp_path)[kind], 3).cores, expected.cores, strict=True):
        assert torch.equal(core, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_narrow_types_are_read_unchanged(dtype):
    narrow = torch.from_numpy(WEIGHT).to(dtype)
    for core, wanted in zip(tt.fit(narrow, 3).cores, tt.fit(narrow.double(), 3).cores, strict=True):
        assert torch.equal(core, wanted)


@pytest.mark.parametrize("bad", [math.nan, -math.inf, 1e39])
def test_row_that_float32_cannot_hold_is_named(bad, monkeypatch):
    weight = WEIGHT.copy()
    weight[17, 3] = bad
    monkeypatch.setattr(dense_table, "_BLOCK_NUMBERS", 40)
    with pytest.raises(BadInputError, match="row 17 contains NaN, infinity or a number too large for float32"):
        tt.fit(weight, 3)
    DenseTable(weight, 17)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([[1.0]], r"got a list, expected a tensor or numpy array \[n, d\]"),
        (np.zeros(3), r"got float64 \[3\], expected floats \[n, d\]"),
        (np.zeros((3, 0)), r"got float64 \[3, 0\], expected floats"),
        (torch.zeros(0, 3), r"got float32 \[0, 3\], expected floats"),
        (torch.eye(3).to_sparse(), r"got a tensor of torch.sparse_coo, expected a dense one: .*weight.to_dense\(\)"),
        (torch.zeros(2, 3, device="meta"), "got a tensor on the meta device, which has no numbers"),
        (torch.zeros(2, 3, dtype=torch.int64), r"got int64 \[2, 3\], expected floats"),
        (np.zeros((2, 3), np.complex64), r"got complex64 \[2, 3\], expected floats"),
        (np.array([["a"]]), r"expected floats"),
    ],
)
def test_arguments_that_are_no_table_are_refused(weight, message):
    with pytest.raises(BadInputError, match=message):
        tt.fit(weight, 3)


def test_counts_may_require_gradients():
    """They may be computed from the weight of a layer."""
    counts = torch.nn.Parameter(torch.rand(30)) * 2
    assert torch.equal(dense_table.row_weights(counts, 30, None), dense_table.row_weights(counts.detach(), 30, None))
