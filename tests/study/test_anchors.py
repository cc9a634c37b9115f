"""Study of anchors: entries equal those of a plain sort of the dense transform."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edge_embed import ANTMixtureEmbedding, ANTMixtureEmbeddingBag
from edge_embed.errors import BadInputError
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.packed.ant import PackedANT
from edge_embed.study import anchors as study
from edge_embed.study.anchors import Entries, empty_rows, largest_entries, rows_of_anchors


def packed_of(transform: np.ndarray, padding_idx: int | None = None, weight_type: str = "float32") -> PackedANT:
    vectors = np.ones((transform.shape[1], 2), np.float32)
    return PackedANT.from_dense(transform, vectors, padding_idx, weight_type)


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, PackedANT]:
    """Return a transform as it is stored, with equal weights, and its table."""
    rows, columns = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    random = np.random.default_rng(draw(st.integers(0, 2**31)))
    transform = random.integers(0, 5, (rows, columns)).astype(np.float32)
    packed = packed_of(transform, draw(st.none() | st.integers(0, rows - 1)))
    if packed.padding_idx is not None:
        transform[packed.padding_idx] = 0
    return transform, packed


def as_tuples(entries: Entries) -> list[tuple[int, int, float]]:
    return list(zip(*(part.tolist() for part in entries), strict=True))


def by_weight(transform: np.ndarray) -> list[tuple[int, int, float]]:
    """Return the entries above 0: largest, then lowest row, then lowest anchor first."""
    found = [(row, anchor, float(weight)) for (row, anchor), weight in np.ndenumerate(transform) if weight > 0]
    return sorted(found, key=lambda entry: (-entry[2], *entry[:2]))


@pytest.fixture(params=[None, 3], ids=["one block", "three entries a block"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(study, "BLOCK_NUMBERS", request.param)


@given(tables(), st.data(), st.sampled_from([3, 1 << 20]))
def test_largest_entries_are_those_of_a_plain_sort(made, data, block):
    transform, packed = made
    k = data.draw(st.integers(1, transform.size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "BLOCK_NUMBERS", block)
        assert as_tuples(largest_entries(packed, k)) == by_weight(transform)[:k]


@given(tables(), st.data(), st.sampled_from([3, 1 << 20]))
def test_rows_of_anchors_are_those_of_a_plain_sort(made, data, block):
    transform, packed = made
    k = data.draw(st.integers(1, len(transform)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "BLOCK_NUMBERS", block)
        found = rows_of_anchors(packed, k)
    assert len(found) == transform.shape[1]
    for anchor, entries in enumerate(found):
        assert as_tuples(entries) == [entry for entry in by_weight(transform) if entry[1] == anchor][:k]


@given(tables())
def test_empty_rows_are_those_of_zeros_without_padding(made):
    transform, packed = made
    expected = [row for row in range(len(transform)) if not transform[row].any() and row != packed.padding_idx]
    assert empty_rows(packed).tolist() == expected


def test_weights_of_integers_have_their_scale(blocks):
    transform = np.array([[0.5, 0.0], [1.0, 0.25], [0.0, 0.75]], np.float32)
    packed = packed_of(transform, weight_type="int8")
    (first, second) = rows_of_anchors(packed, 2)
    assert (first.rows.tolist(), second.rows.tolist()) == ([1, 0], [2, 1])
    np.testing.assert_allclose(
        np.concatenate((first.weights, second.weights)), [1, 0.5, 0.75, 0.25], atol=0.501 / 127
    )  # of an int8


def test_layer_trainable_and_frozen_give_the_same(blocks):
    layer = ANTEmbedding(50, 4, num_anchors=3, padding_idx=0)
    with torch.no_grad():
        layer.transform.copy_(torch.rand(50, 3) * (torch.rand(50, 3) < 0.4))
    found = as_tuples(largest_entries(layer, 20))
    expected = layer.transform.detach().numpy().copy()
    expected[0] = 0
    assert found == by_weight(expected)[:20]
    assert found == as_tuples(largest_entries(layer.freeze(), 20))


def test_table_without_entries_has_no_rows_of_anchors():
    packed = packed_of(np.zeros((3, 2), np.float32))
    assert [len(entries.rows) for entries in rows_of_anchors(packed)] == [0, 0]
    assert len(largest_entries(packed).rows) == 0
    assert empty_rows(packed).tolist() == [0, 1, 2]


@pytest.mark.parametrize("function", [largest_entries, rows_of_anchors])
@pytest.mark.parametrize(
    ("k", "said"), [(0, "at least 1"), (-1, "at least 1"), (2.0, "an integer"), ("3", "an integer")]
)
def test_number_of_results_is_an_integer_above_zero(function: Callable[..., Any], k: Any, said: str) -> None:
    with pytest.raises(BadInputError, match=rf"^k must be {said}, got {k!r}"):
        function(packed_of(np.ones((3, 2), np.float32)), k)


@pytest.mark.parametrize("layer", [ANTMixtureEmbedding, ANTMixtureEmbeddingBag])
def test_mixture_is_studied_if_linear_and_refused_if_softmax(layer: Any) -> None:
    linear = layer(9, 4, (2, 3), mixing="linear")
    assert len(rows_of_anchors(linear)) == 5
    for function in (largest_entries, rows_of_anchors, empty_rows):
        with pytest.raises(BadInputError, match="table: got a softmax mixture, whose packed form has other weights"):
            function(layer(9, 4, (2, 3), mixing="softmax"))


@pytest.mark.parametrize("function", [largest_entries, rows_of_anchors, empty_rows])
def test_tables_of_other_methods_are_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(BadInputError, match="got a table of dpq, which has no anchors, expected a table of ant"):
        function(DPQEmbedding(9, 4, 2, 2))
    with pytest.raises(BadInputError, match="got Embedding, expected an embedding layer of edge_embed"):
        function(torch.nn.Embedding(9, 4))
