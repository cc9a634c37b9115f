"""Selection of anchor tokens against counting by hand, and a layer that begins with them."""

import math
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
import torch

from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.layers import documents as documents_module
from edge_embed.layers.anchors import highest_tfidf, kmeans_plus_plus, most_frequent
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.cooccurrence import count, features

DOCUMENTS = [[1, 1, 2, 3], [1, 2], [1, 4, 4, 4], [], [1, 3, 2, 2]]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=[None, 3], ids=["one batch", "batches of 3 ids"])
def _batches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(documents_module, "_BATCH_IDS", request.param)


def test_anchors_most_frequent_are_ordered_by_count_then_id():
    counts = [3, 9, 5, 5, 0]
    assert most_frequent(counts, 3).tolist() == [1, 2, 3]
    assert most_frequent(torch.tensor(counts), 3, skip=[1, 2]).tolist() == [3, 0, 4]


@pytest.mark.usefixtures("_batches")
def test_highest_tfidf_sums_over_documents():
    full = [document for document in DOCUMENTS if document]
    score = dict.fromkeys(range(6), 0.0)
    for document in full:
        for token, times in Counter(document).items():
            score[token] += times * math.log(len(full) / sum(token in other for other in full))
    expected = sorted(score, key=lambda token: (-score[token], token))
    assert highest_tfidf(DOCUMENTS, 6, 6).tolist() == expected
    assert highest_tfidf(DOCUMENTS, 6, 1, skip=[expected[0]]).tolist() == [expected[1]]
    assert score[1] == 0  # occurs in every document: frequent but without information


def test_kmeans_plus_plus_samples_by_squared_distance():
    """The frequencies of all orders of three points match their probabilities by the definition."""
    points = torch.tensor([[0.0], [1.0], [3.0], [7.0]], dtype=torch.float64)
    chances = {}
    for order in permutations(range(4), 3):
        chance = 1 / 4
        for at in (1, 2):
            nearest = [min((points[i] - points[j]).item() ** 2 for j in order[:at]) for i in range(4)]
            chance *= nearest[order[at]] / sum(nearest)
        chances[order] = chance
    draws = 4000
    seen = Counter(tuple(kmeans_plus_plus(points, 3).tolist()) for _ in range(draws))
    assert sum(chances.values()) == pytest.approx(1)
    for order, chance in chances.items():
        assert seen[order] / draws == pytest.approx(chance, abs=5 * math.sqrt(chance / draws) + 1e-3)


def test_kmeans_plus_plus_completes_given_anchors():
    """One of three distant groups is covered by the start; each of the other two gets an anchor."""
    points = torch.cat((torch.randn(10, 4), torch.randn(10, 4) + 1000, torch.randn(10, 4) - 1000))
    for _ in range(10):
        chosen = kmeans_plus_plus(points, 4, start=torch.tensor([5, 7]), skip=[0])
        assert chosen[:2].tolist() == [5, 7]
        assert sorted(at // 10 for at in chosen[2:].tolist()) == [1, 2]


def test_kmeans_plus_plus_skips_far_points_in_skip():
    points = torch.tensor([[0.0], [1.0], [1000.0]])
    assert kmeans_plus_plus(points, 2, start=[0], skip=[2]).tolist() == [0, 1]


@pytest.mark.parametrize("skip", [{1, 2}, range(1, 3), np.array([1, 2]), torch.tensor([1, 2]), iter([1, np.int64(2)])])
def test_skip_accepts_ids_in_any_form(skip):
    assert most_frequent([3, 9, 5, 4], 2, skip=skip).tolist() == [3, 0]


def test_equal_features_give_different_tokens():
    chosen = kmeans_plus_plus(torch.ones(6, 2), 4, skip=[2, 3])
    assert sorted(chosen.tolist()) == [0, 1, 4, 5]


def test_samples_follow_the_generator():
    points = torch.randn(50, 3)
    one, two = (kmeans_plus_plus(points, 9, generator=torch.Generator().manual_seed(4)) for _ in range(2))
    assert torch.equal(one, two)


@pytest.mark.usefixtures("_batches")
@pytest.mark.parametrize("window", [1, 2, 10])
def test_cooccurrence_counts_pairs_within_window(window):
    expected: Counter[tuple[int, int]] = Counter()
    for document in DOCUMENTS:
        for at, one in enumerate(document):
            for other in document[at + 1 : at + 1 + window]:
                if one != other:
                    expected[min(one, other), max(one, other)] += 1
    found = count([np.array(document) for document in DOCUMENTS], 6, window)
    assert dict(zip(map(tuple, found.pairs.t().tolist()), found.counts.tolist(), strict=True)) == expected
    with_anchor = count(map(torch.tensor, DOCUMENTS), 6, window, anchor_ids=torch.tensor([4]))
    assert set(map(tuple, with_anchor.pairs.t().tolist())) == {pair for pair in expected if 4 in pair}


def test_tokens_with_same_neighbours_get_close_vectors():
    """0 and 1 stand beside 4, 2 and 3 beside 5."""
    found = count([[0, 4], [1, 4], [2, 5], [3, 5]] * 5, 6, 1)
    vectors = features(found, 6, 4)
    assert vectors.shape == (6, 4)
    torch.testing.assert_close(vectors[0], vectors[1])
    torch.testing.assert_close(vectors[2], vectors[3])
    assert (vectors[0] - vectors[2]).norm() > 1


def test_layer_starts_from_vectors_of_its_anchors():
    """The rows of anchor tokens are the anchors, T[a, a] = 1 of appendix I; other rows keep their random start."""
    pretrained = torch.randn(8, 4)
    layer = ANTEmbedding(8, 4, 3, padding_idx=0)
    before = layer.transform.detach().clone()
    ids = torch.tensor([5, 2, 7])
    assert layer.start_from(ids, pretrained[ids]) is layer
    torch.testing.assert_close(layer(ids), pretrained[ids])
    others = [0, 1, 3, 4, 6]
    assert torch.equal(layer.transform[others], before[others])
    layer.start_from(vectors=np.full((3, 4), 2.0))
    assert (layer.anchors == 2).all()
    assert layer.transform.requires_grad


def test_vocabulary_selection_keeps_only_chosen_rows():
    """Appendix I: T is 0 elsewhere and gets no gradient; rows of all other tokens are zero."""
    layer = ANTEmbedding(6, 4, 2)
    with torch.no_grad():
        layer.transform.zero_()
    layer.start_from(torch.tensor([4, 1])).transform.requires_grad_(False)
    expected = torch.zeros(6, 4)
    expected[[4, 1]] = layer.anchors.detach()
    layer(torch.arange(6)).sum().backward()
    torch.testing.assert_close(layer(torch.arange(6)).detach(), expected)
    assert layer.anchors.grad.any()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: most_frequent([1, 2], 3), BadInputError),
        (lambda: most_frequent([1, 2], 2, skip=[0]), BadInputError),
        (lambda: most_frequent([1, 2], 1, skip=[2]), IdOutOfRangeError),
        (lambda: most_frequent([1, math.nan], 1), BadInputError),
        (lambda: most_frequent(None, 1), BadInputError),
        (lambda: most_frequent("ab", 1), BadInputError),
        (lambda: most_frequent([[1], [1, 2]], 1), BadInputError),
        (lambda: highest_tfidf([], 3, 1), BadInputError),
        (lambda: highest_tfidf([[1]], -3, 1), BadInputError),
        (lambda: count([[0]], -3), BadInputError),
        (lambda: highest_tfidf([[1, 3]], 3, 1), IdOutOfRangeError),
        (lambda: highest_tfidf([[0.5]], 3, 1), BadInputError),
        (lambda: highest_tfidf([[[1], [1, 2]]], 3, 1), BadInputError),
        (lambda: kmeans_plus_plus(torch.ones(3), 2), BadInputError),
        (lambda: kmeans_plus_plus(torch.full((3, 1), math.nan), 2), BadInputError),
        (lambda: kmeans_plus_plus(torch.ones(3, 1), 2, start=[1, 1]), BadInputError),
        (lambda: kmeans_plus_plus(torch.ones(3, 1), 2, start=[-1]), IdOutOfRangeError),
        (lambda: count([[0]], 3, 0), BadInputError),
        (lambda: count([[0]], 3, anchor_ids=torch.tensor([3])), IdOutOfRangeError),
        (lambda: features(count([[0, 1]], 3), 3, 4), BadInputError),
        (lambda: ANTEmbedding(5, 4, 2).start_from(torch.tensor([1, 1])), BadInputError),
        (lambda: ANTEmbedding(5, 4, 2).start_from(torch.tensor([1])), BadInputError),
        (lambda: ANTEmbedding(5, 4, 2).start_from(torch.tensor([1, 5])), IdOutOfRangeError),
        (lambda: ANTEmbedding(5, 4, 2, padding_idx=1).start_from(torch.tensor([1, 2])), BadInputError),
        (lambda: ANTEmbedding(5, 4, 2).start_from(vectors=torch.ones(2, 3)), BadInputError),
        (lambda: ANTEmbedding(5, 4, 2).start_from(vectors=torch.full((2, 4), math.inf)), BadInputError),
        (
            lambda: ANTEmbedding(5, 4, 2).start_from(vectors=torch.full((2, 4), 1e300, dtype=torch.float64)),
            BadInputError,
        ),
        (lambda: ANTEmbedding(5, 4, 2).start_from(vectors=np.full((2, 4), 1e300)), BadInputError),
        (lambda: ANTEmbedding(5, 4, 2, dtype=torch.float16).start_from(vectors=torch.full((2, 4), 1e6)), BadInputError),
        (lambda: ANTEmbedding(5, 4, 2).start_from(vectors=torch.ones(2, 4, dtype=torch.cfloat)), BadInputError),
        (lambda: ANTEmbedding(5, 4, 2).start_from(vectors="a"), BadInputError),
        (lambda: most_frequent([1, 2, 3], 1, skip=torch.tensor([True, False, False])), BadInputError),
        (lambda: most_frequent([1, 2, 3], 1, skip=[True, False, False]), BadInputError),
        (lambda: most_frequent([1, 2, 3], 1, skip=[0.5]), BadInputError),
        (lambda: most_frequent([1, 2, 3], 1, skip=["a"]), BadInputError),
        (lambda: most_frequent([1, 2, 3], 1, skip=None), BadInputError),
        (lambda: kmeans_plus_plus(torch.ones(3, 1), 2, start=np.array([False, True])), BadInputError),
        (lambda: kmeans_plus_plus(torch.ones(3, 1), 2, start=torch.tensor([0.5])), BadInputError),
        (lambda: count([[0]], 3, anchor_ids=[1, 2]), BadInputError),
        (lambda: count([[0]], 3, anchor_ids=torch.tensor([1.0])), BadInputError),
        (lambda: count([[0]], 3, anchor_ids=torch.tensor([True, False, True])), BadInputError),
        (lambda: features(count([[0, 2]], 3), 2, 1), IdOutOfRangeError),
        (lambda: features(count([[0, 2]], 3).pairs, 3, 1), BadInputError),
        (lambda: ANTEmbedding(5, 4, 2).freeze().start_from(torch.tensor([1, 2])), BadInputError),
    ],
)
def test_invalid_arguments_of_selection_are_refused(call, error):
    with pytest.raises(error):
        call()
