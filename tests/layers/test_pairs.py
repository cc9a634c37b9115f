"""Related and unrelated tokens: entries that are not penalised (eq. 32), and the terms of a loss."""

import copy
from types import SimpleNamespace

import pytest
import torch

from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.ant_terms import orthogonality, overlap
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.pairs import Unrelated, entries, from_wordnet
from edge_embed.layers.proximal import ProximalOptimizer

RELATED = torch.tensor([[1, 3, 5, 0, 4], [4, 0, 5, 2, 1]])
ANCHOR_IDS = torch.tensor([4, 0, 3])


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def by_hand(related: torch.Tensor, anchor_ids: torch.Tensor) -> set[tuple[int, int]]:
    edges = set(map(tuple, related.t().tolist()))
    edges |= {(other, one) for one, other in edges}
    return {(u, at) for u, v in edges for at, anchor in enumerate(anchor_ids.tolist()) if v == anchor}


def test_entries_connect_tokens_with_related_anchors():
    found = entries(RELATED, ANCHOR_IDS)
    expected = by_hand(RELATED, ANCHOR_IDS)
    assert expected == {(1, 0), (3, 1), (0, 2), (2, 1)}
    assert sorted(map(tuple, found.t().tolist())) == sorted(expected)
    many = torch.randint(0, 50, (2, 300))
    anchor_ids = torch.randperm(50)[:20]
    found = entries(many, anchor_ids)
    assert sorted(map(tuple, found.t().tolist())) == sorted(by_hand(many, anchor_ids))
    assert entries(torch.zeros(2, 0, dtype=torch.int64), ANCHOR_IDS).shape == (2, 0)


@pytest.mark.parametrize("penalty", [0.0, 0.4])
def test_proximal_step_matches_equation_32(penalty):
    """T = max((T - step penalty) S + T (1 - S), 0), with S dense by hand."""
    layer = ANTEmbedding(6, 4, 3, dtype=torch.float64)
    bare = copy.deepcopy(layer)
    found = entries(RELATED, ANCHOR_IDS)
    inner = torch.optim.SGD(layer.parameters(), 0.5)
    optimizer = ProximalOptimizer(inner, layer, penalty, unpenalized={layer: found})
    for one, by in ((layer, optimizer), (bare, torch.optim.SGD(bare.parameters(), 0.5))):
        (one(torch.arange(6)) * torch.arange(-3.0, 3.0).unsqueeze(1)).sum().backward()
        by.step()
    kept = torch.ones(6, 3, dtype=torch.float64)
    kept[tuple(found)] = 0
    moved = bare.transform.detach()
    expected = ((moved - 0.5 * penalty) * kept + moved * (1 - kept)).clamp(min=0)
    torch.testing.assert_close(layer.transform.detach(), expected)
    assert (moved[tuple(found)] > 0).any()
    assert (moved < 0).any()


def test_entries_without_anchors_are_empty():
    assert entries(RELATED, torch.zeros(0, dtype=torch.int64)).shape == (2, 0)


def test_entries_related_to_anchors_survive_in_unseen_rows():
    layer = ANTEmbedding(6, 4, 3)
    found = entries(RELATED, ANCHOR_IDS)
    adam = torch.optim.Adam(layer.parameters(), 0.1, eps=1e-3)
    optimizer = ProximalOptimizer(adam, layer, 1e-2, unpenalized={layer: found})
    again, clone = copy.deepcopy((layer, optimizer))
    for table, by in ((layer, optimizer), (again, clone)):
        for _ in range(20):
            by.zero_grad()
            (table(torch.tensor([5])).sum() * 0).backward()
            by.step()
        assert table.transform.detach().nonzero().tolist() == sorted(found.t().tolist())


def test_unrelated_pairs_are_drawn_evenly_from_all_others():
    drawn = Unrelated(RELATED, 6).draw(4000)
    seen = {tuple(sorted(pair)) for pair in drawn.t().tolist()}
    edges = {tuple(sorted(pair)) for pair in RELATED.t().tolist()}
    expected = {(u, v) for u in range(6) for v in range(u + 1, 6)} - edges
    assert seen == expected
    shares = torch.tensor([sum(set(pair) == set(one) for pair in drawn.t().tolist()) for one in expected]) / 4000
    torch.testing.assert_close(shares, torch.full_like(shares, 1 / len(expected)), atol=0.025, rtol=0)
    with_itself = torch.tensor([[0, 0, 1], [1, 0, 1]])
    assert {tuple(sorted(pair)) for pair in Unrelated(with_itself, 3).draw(99).t().tolist()} == {(0, 2), (1, 2)}
    one, two = (Unrelated(RELATED, 6).draw(9, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one, two)


@pytest.mark.parametrize("n", [2, 3, 50, 3000, 10**6, 10**9])
def test_unrelated_pairs_are_in_order_and_within_a_table_of_any_size(n):
    ids = torch.tensor([[0, n - 1]]).t() if n > 2 else torch.zeros(2, 1, dtype=torch.int64)
    first, second = Unrelated(ids, n).draw(20_000)
    assert ((first >= 0) & (first < second) & (second < n)).all()
    assert not ((first == 0) & (second == n - 1)).any() or n == 2


def test_unrelated_finds_few_remaining_pairs():
    n = 400
    related = torch.combinations(torch.arange(n)).t()
    for left in (0, 17, related.shape[1] - 1):
        others = torch.cat((related[:, :left], related[:, left + 1 :]), 1)
        assert torch.equal(Unrelated(others, n).draw(3), related[:, left : left + 1].expand(2, 3))


def test_overlap_matches_equation_33():
    layer = ANTEmbedding(6, 4, 3, dtype=torch.float64)
    with torch.no_grad():
        layer.transform[2, 1] = -5.0  # counts as zero, as in a row
    pairs = torch.tensor([[0, 2, 5], [1, 4, 3]])
    transform = layer.transform.detach().clamp(min=0)
    expected = sum(abs(transform[u] @ transform[v]) for u, v in pairs.t().tolist())
    torch.testing.assert_close(overlap(layer, pairs), expected)
    overlap(layer, pairs).backward()
    torch.testing.assert_close(layer.transform.grad[0], transform[1])
    torch.testing.assert_close(layer.transform.grad[5], transform[3])


def test_orthogonality_sums_over_different_anchors():
    layer = ANTEmbedding(6, 4, 3, dtype=torch.float64)
    with torch.no_grad():
        layer.anchors.copy_(torch.randn(3, 4, dtype=torch.float64))
    rows = layer.anchors.detach()
    expected = sum(abs(rows[i] @ rows[j]) for i in range(3) for j in range(3) if i != j)
    torch.testing.assert_close(orthogonality(layer), expected)
    optimizer = torch.optim.SGD([layer.anchors], 0.02)
    for _ in range(300):
        optimizer.zero_grad()
        orthogonality(layer).backward()
        optimizer.step()
    unit = torch.nn.functional.normalize(layer.anchors.detach())
    torch.testing.assert_close(unit @ unit.t(), torch.eye(3, dtype=torch.float64), atol=0.1, rtol=0)


def test_loss_terms_are_float32_under_autocast():
    layer = ANTEmbedding(6, 4, 3)
    with torch.autocast("cpu", torch.bfloat16):
        terms = orthogonality(layer), overlap(layer, RELATED)
    assert [term.dtype for term in terms] == [torch.float32, torch.float32]
    torch.testing.assert_close(terms[0], orthogonality(layer))


class Wordnet:
    """nltk's reader interface with some synsets.

    The synsets: big and large with the antonym small; city below place, dog below animal. Each pair above and below is
    known from one side only.
    """

    def __init__(self) -> None:
        lemma = {name: SimpleNamespace(name=lambda name=name: name, antonyms=list) for name in WORDS}
        lemma["big"].antonyms = lambda: [lemma["small"]]
        above, below = {"city": ["place"]}, {"animal": ["dog"]}

        def synset(names: list[str]) -> SimpleNamespace:
            return SimpleNamespace(
                lemmas=lambda: [lemma[name] for name in names],
                hypernyms=lambda: [synset([name]) for name in above.get(names[0], [])],
                hyponyms=lambda: [synset([name]) for name in below.get(names[0], [])],
            )

        known = (["big", "large"], ["city"], ["place"], ["animal"], ["dog"])
        self.synsets = lambda word: [synset(names) for names in known if word in names]


WORDS = ("big", "large", "small", "city", "place", "animal", "dog")


def test_wordnet_relates_immediate_neighbours_in_vocabulary():
    vocabulary = {"place": 7, "big": 3, "small": 1, "city": 2, "large": 9, "unknown": 4, "animal": 0, "dog": 8}
    expected = {(3, 9), (1, 3), (1, 9), (2, 7), (0, 8)}
    assert set(map(tuple, from_wordnet(vocabulary, Wordnet()).t().tolist())) == expected
    assert from_wordnet({"unknown": 0}, Wordnet()).shape == (2, 0)


LAYER = ANTEmbedding(6, 4, 3)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: entries(RELATED.float(), ANCHOR_IDS), BadInputError),
        (lambda: entries(RELATED.t(), ANCHOR_IDS), BadInputError),
        (lambda: entries(RELATED, ANCHOR_IDS.float()), BadInputError),
        (lambda: entries(RELATED, [1, 2]), BadInputError),
        (lambda: orthogonality(torch.nn.Embedding(6, 4)), BadInputError),
        (lambda: orthogonality(torch.nn.Sequential(LAYER)), BadInputError),
        (lambda: overlap(DPQEmbedding(6, 4, 2, 2), RELATED), BadInputError),
        (lambda: Unrelated(torch.tensor([[0], [1]]), 2), BadInputError),
        (lambda: Unrelated(RELATED, 3), IdOutOfRangeError),
        (lambda: overlap(LAYER, [[1, 2]]), BadInputError),
        (lambda: overlap(LAYER, torch.tensor([[1], [6]])), IdOutOfRangeError),
        (lambda: orthogonality(ANTEmbedding(6, 4, 3).freeze()), BadInputError),
        (lambda: proximal({torch.nn.Linear(1, 1): RELATED}), BadInputError),
        (lambda: proximal({LAYER: torch.tensor([[6], [0]])}), BadInputError),
        (lambda: proximal({LAYER: torch.tensor([[0], [3]])}), BadInputError),
        (lambda: proximal({LAYER: torch.tensor([[0], [-1]])}), BadInputError),
        (lambda: proximal({LAYER: torch.ones(6, 3)}), BadInputError),
    ],
)
def test_invalid_arguments_of_pairs_are_refused(call, error):
    with pytest.raises(error):
        call()


def proximal(unpenalized: dict) -> ProximalOptimizer:
    return ProximalOptimizer(torch.optim.SGD(LAYER.parameters(), 0.1), LAYER, 0.1, unpenalized)


def test_codes_are_entries_with_one_per_row_and_group():
    """Compositional code learning, appendix I: one entry of each group is free, others have a very high penalty."""
    codes = torch.randint(4, (2, 6))  # of 6 tokens, in two groups of 4 anchors
    free = torch.stack((torch.arange(6).repeat(2), (codes + torch.tensor([[0], [4]])).flatten()))
    layer = ANTEmbedding(6, 4, 8)
    optimizer = ProximalOptimizer(torch.optim.SGD(layer.parameters(), 1e-3), layer, 1e9, {layer: free})
    layer(torch.arange(6)).sum().backward()
    optimizer.step()
    transform = layer.transform.detach()
    assert transform.nonzero().tolist() == sorted(free.t().tolist())
    chosen = layer.anchors[codes[0]] * transform[range(6), codes[0], None]
    chosen = chosen + layer.anchors[4 + codes[1]] * transform[range(6), 4 + codes[1], None]
    torch.testing.assert_close(layer(torch.arange(6)), chosen)
