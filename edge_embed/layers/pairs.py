"""Related and unrelated pairs of tokens for training ANT tables.

    related = cooccurrence.count(documents, n).pairs                         or from_wordnet, or your own, [2, P]
    ProximalOptimizer(..., unpenalized={layer: entries(related, ids)})       positive pairs, eq. (32)
    loss = loss + weight * overlap(layer, Unrelated(related, n).draw(256))   negative pairs, eq. (33)

Related tokens share anchors freely: the entry of T between a token and a related anchor is not penalised. This requires
anchors that are tokens (`edge_embed.layers.anchors`). Unrelated tokens are penalised for shared anchors.

Source: "Anchor & Transform" (ICLR 2021), appendices F, H and J.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.layers.arguments import checked_count
from edge_embed.ops.ids import check_id_range


def entries(related: Tensor, anchor_ids: Tensor) -> Tensor:
    """Return the entries of the transform between a token and a related anchor: the zeros of S(G), appendix F.

    Args:
        related: ids of pairs, int64 [2, P], in either order.
        anchor_ids: token of each anchor, int64 [A].

    Returns:
        Rows and anchors, int64 [2, E], each entry once, for ``ProximalOptimizer(unpenalized=...)``.

    Raises:
        BadInputError: for pairs that are not int64 [2, P], or anchors that are not int64 [A].
    """
    check_pairs(related)
    if not isinstance(anchor_ids, Tensor) or anchor_ids.ndim != 1 or anchor_ids.dtype != torch.int64:
        raise BadInputError(f"anchor_ids: got {_shown(anchor_ids)}, expected int64 [A]")
    related, anchor_ids = related.cpu(), anchor_ids.cpu()
    if not len(anchor_ids):
        return torch.zeros(2, 0, dtype=torch.int64)
    order = anchor_ids.argsort()
    both = torch.cat((related, related.flip(0)), 1)  # tokens above, their related tokens below
    places = torch.searchsorted(anchor_ids[order], both[1]).clamp(max=len(anchor_ids) - 1)
    anchors = order[places]
    found: Tensor = torch.stack((both[0], anchors))[:, anchor_ids[anchors] == both[1]].unique(dim=1)
    return found


class Unrelated:
    """Draws pairs of unrelated tokens: samples of N, which contains nearly all pairs.

    Args:
        related: ids of all related pairs, int64 [2, P], in either order.
        num_embeddings: number of rows n.

    Raises:
        BadInputError: for pairs that are not int64 [2, P], or if every pair is related.
        IdOutOfRangeError: for an id outside the table.
    """

    def __init__(self, related: Tensor, num_embeddings: int) -> None:
        check_pairs(related, num_embeddings)
        self.num_embeddings = num_embeddings
        first, second = related[:, related[0] != related[1]].cpu().sort(0).values
        places = self._place(first, second).unique()
        self._count = num_embeddings * (num_embeddings - 1) // 2 - len(places)
        if self._count <= 0:
            raise BadInputError(
                f"related: got all pairs of {num_embeddings} tokens, expected at least one unrelated pair"
            )
        self._before = places - torch.arange(len(places))  # number of unrelated pairs before each related one

    def draw(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw ids int64 [2, count] of two different tokens each; draw new pairs for each step.

        Args:
            count: number of pairs.
            generator: random generator, by default torch's own.

        Raises:
            BadInputError: if the count is not at least 1.
        """
        checked_count("count", count)
        drawn = torch.randint(self._count, (count,), generator=generator)
        places = drawn + torch.searchsorted(self._before, drawn, right=True)
        twice = 2 * self.num_embeddings - 1
        root = (twice**2 - 8 * places).double().sqrt()
        first = ((twice - root) / 2).long()  # the rounded root may be off by one
        first = first - (self._place(first, first + 1) > places).long()
        first = first + (self._place(first + 1, first + 2) <= places).long()
        return torch.stack((first, places - self._place(first, first + 1) + first + 1))

    def _place(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the position of a pair, the lower id first, in the ordered list of all pairs."""
        return first * (2 * self.num_embeddings - first - 1) // 2 + second - first - 1


def from_wordnet(vocabulary: Mapping[str, int], wordnet: Any) -> Tensor:
    """Return the pairs of words in the vocabulary that are immediate hypernyms, hyponyms, synonyms or antonyms.

    Args:
        vocabulary: id of each word; words of several parts are joined by ``_``, as in WordNet.
        wordnet: a WordNet reader of nltk, which is not part of this package: ``nltk.corpus.wordnet`` after
            ``nltk.download("wordnet")``, or a ``WordNetCorpusReader`` of a folder with the database.

    Returns:
        Ids int64 [2, P], each pair once, the lower id first.
    """
    found = {
        (min(row, other), max(row, other))
        for word, row in vocabulary.items()
        for name in _wordnet_names(word, wordnet)
        if (other := vocabulary.get(name, vocabulary.get(name.lower(), row))) != row
    }
    return torch.tensor(sorted(found), dtype=torch.int64).reshape(-1, 2).t().contiguous()


def _wordnet_names(word: str, wordnet: Any) -> Iterator[str]:
    for synset in wordnet.synsets(word):
        synonyms = synset.lemmas()
        antonyms = [antonym for lemma in synonyms for antonym in lemma.antonyms()]
        others = [lemma for other in (*synset.hypernyms(), *synset.hyponyms()) for lemma in other.lemmas()]
        for lemma in (*synonyms, *antonyms, *others):
            yield lemma.name()


def check_pairs(pairs: Tensor, num_embeddings: int | None = None) -> None:
    """Raise `BadInputError` unless ``pairs`` are int64 [2, P], and `IdOutOfRangeError` for ids outside a table."""
    if not isinstance(pairs, Tensor) or pairs.dtype != torch.int64 or pairs.ndim != 2 or len(pairs) != 2:
        raise BadInputError(f"pairs: got {_shown(pairs)}, expected ids of tokens as int64 [2, P]")
    if num_embeddings is not None:
        check_id_range(pairs, num_embeddings)


def _shown(given: object) -> str:
    return f"{given.dtype} {list(given.shape)}" if isinstance(given, Tensor) else f"{given!r:.80}"
