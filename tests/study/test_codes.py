"""Study of codes: counts and comparisons equal those of a plain loop over the table."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.tt import TTEmbedding
from edge_embed.packed import bits
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.study.codes import code_changes, code_usage, nearest_rows, shared_codes


def packed_of(codes: np.ndarray, num_codes: int, padding_idx: int | None = None) -> PackedDPQ:
    values = np.random.default_rng(1).standard_normal((codes.shape[1], num_codes, 2)).astype(np.float32)
    return PackedDPQ.from_codes(codes, values, padding_idx)


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, PackedDPQ]:
    rows, groups, num_codes = draw(st.integers(1, 12)), draw(st.integers(1, 4)), draw(st.sampled_from([2, 3, 16, 300]))
    codes = np.random.default_rng(draw(st.integers(0, 2**31))).integers(0, num_codes, (rows, groups))
    return codes, packed_of(codes, num_codes, draw(st.none() | st.integers(0, rows - 1)))


@pytest.fixture(params=[None, 200], ids=["one block", "a few rows a block"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(bits, "_BLOCK_BITS", request.param)


@given(tables())
def test_usage_counts_rows_of_each_code(made):
    """Count_k of appendix D.1, without the padding row."""
    codes, packed = made
    usage = code_usage(packed)
    assert usage.shape == (packed.num_groups, packed.num_codes)
    kept = [row for i, row in enumerate(codes) if i != packed.padding_idx]
    for group in range(packed.num_groups):
        for code in range(packed.num_codes):
            assert usage[group, code] == sum(row[group] == code for row in kept)


def test_usage_of_layer_is_equal_for_each_block_size(blocks):
    layer = DPQEmbedding(500, 12, 5, 3, padding_idx=0)
    usage = code_usage(layer)
    assert usage.sum(1).tolist() == [499] * 3
    assert np.array_equal(usage, code_usage(layer.to_packed()))
    assert np.array_equal(usage, code_usage(layer.freeze()))
    codes = layer.to_packed().codes_of(np.arange(1, 500))
    assert np.array_equal(usage[1], np.bincount(codes[:, 1], minlength=5))


@pytest.mark.parametrize("padding_idx", [None, 0])
def test_changes_are_share_of_codes_that_differ(blocks, padding_idx):
    random = np.random.default_rng(0)
    before = random.integers(0, 16, (300, 4))
    after = before.copy()
    after[10, 2] += 1
    after[20] = (after[20] + 3) % 16
    after[0] = (after[0] + 1) % 16  # the padding row, if any
    first, second = (packed_of(codes % 16, 16, padding_idx) for codes in (before, after))
    counted = 300 - (padding_idx is not None)
    assert code_changes(first, second) == ((5 if padding_idx is not None else 9) / (4 * counted))
    assert code_changes(first, first) == 0


def test_changes_of_table_of_padding_row_are_zero():
    packed = packed_of(np.zeros((1, 2), np.int64), 4, 0)
    assert code_changes(packed, packed) == 0


def test_changes_of_layer_follow_changed_queries():
    torch.manual_seed(0)
    layer = DPQEmbedding(50, 12, 5, 3, init_scale=1.0)
    before = layer.to_packed()
    assert code_changes(before, layer) == 0
    with torch.no_grad():
        layer.query[:25].neg_()
    assert 0 < code_changes(before, layer) <= 0.5


def test_changes_between_different_sizes_are_refused():
    with pytest.raises(BadInputError, match="num_codes: got 4 before and 8 after, expected two states of one table"):
        code_changes(packed_of(np.zeros((3, 2), np.int64), 4), packed_of(np.zeros((3, 2), np.int64), 8))


@pytest.mark.parametrize("make", [
    lambda: DPQEmbedding(90, 12, 16, 6, init_scale=1.0, padding_idx=7),
    lambda: ANTEmbedding(90, 12, 5, padding_idx=7),
    lambda: TTEmbedding(90, 12, 4),
], ids=["dpq", "ant", "tt"])  # fmt: skip
@pytest.mark.parametrize("k", [1, 10, 89])
def test_nearest_rows_match_dense_table(blocks, make, k):
    torch.manual_seed(3)
    packed = make().to_packed()
    table = packed.rows_float64(np.arange(90))
    ids = np.array([[4, 4, 88], [0, 13, 50]])
    found = nearest_rows(packed, ids, k)
    assert found.ids.shape == found.similarity.shape == (2, 3, k)
    unit = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-300)
    for place in np.ndindex(ids.shape):
        cosines = unit @ unit[ids[place]]
        if packed.padding_idx is not None:
            cosines[packed.padding_idx] = -np.inf
        np.testing.assert_allclose(found.similarity[place], np.sort(cosines)[::-1][:k], atol=1e-12)
        np.testing.assert_allclose(cosines[found.ids[place]], found.similarity[place], atol=1e-12)
        assert len(set(found.ids[place].tolist())) == k
    np.testing.assert_allclose(found.similarity[..., 0], 1)


def test_nearest_rows_order_equal_rows_by_lowest_id(blocks):
    packed = packed_of(np.array([[1, 2], [0, 0], [1, 2], [1, 2], [3, 3]] * 20), 4)
    assert nearest_rows(packed, 2, 6).ids.tolist() == [0, 2, 3, 5, 7, 8]


def test_row_of_zeros_has_similarity_zero():
    packed = packed_of(np.array([[1, 2], [0, 0], [1, 1]]), 4, padding_idx=1)
    found = nearest_rows(packed, 1, 2)
    assert found.ids.tolist() == [0, 2]
    assert found.similarity.tolist() == [0, 0]


def test_nearest_rows_of_no_ids_are_empty():
    packed = packed_of(np.zeros((3, 2), np.int64), 4)
    assert nearest_rows(packed, np.zeros((0, 2), np.int64), 2).ids.shape == (0, 2, 2)


@pytest.mark.parametrize("k", [0, 3, -1, 1.5, True])
def test_invalid_number_of_nearest_rows_is_refused(k):
    packed = packed_of(np.zeros((3, 2), np.int64), 4, padding_idx=0)
    with pytest.raises(BadInputError, match=f"k: got {k}, expected 1 to 2, the rows of the table"):
        nearest_rows(packed, 1, k)


def test_shared_codes_match_table_8():
    """Codes of Monday, Tuesday and Obama, the first lines of table 8 with DPQ-SX."""
    codes = np.array([[2, 5, 0, 7, 0, 6, 1, 6], [6, 0, 0, 7, 0, 6, 1, 7], [2, 6, 7, 2, 5, 7, 3, 7]])
    shared = shared_codes(packed_of(codes, 8), [0, 1, 2])
    assert shared.tolist() == [[8, 5, 1], [5, 8, 1], [1, 1, 8]]
    assert shared_codes(packed_of(codes, 8), np.zeros(0, np.int64)).shape == (0, 0)


def test_wrong_tables_and_ids_are_refused():
    packed = packed_of(np.zeros((3, 2), np.int64), 4)
    with pytest.raises(BadInputError, match="got a table of ant, which has no codes, expected a table of dpq"):
        code_usage(ANTEmbedding(9, 4, 2))
    with pytest.raises(BadInputError, match="got Embedding, expected an embedding layer of edge_embed"):
        nearest_rows(torch.nn.Embedding(9, 4), 1)
    with pytest.raises(BadInputError, match=r"ids: got shape \[1, 2\], expected integers \[m\]"):
        shared_codes(packed, [[0, 1]])
    for call in (shared_codes, nearest_rows):
        with pytest.raises(IdOutOfRangeError, match="got id 3 at position 0, expected 0 to 2"):
            call(packed, [3])
