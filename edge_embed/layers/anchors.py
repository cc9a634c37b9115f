"""Which tokens are the anchors of an ANT table, by what is known of the tokens before training.

    ids = most_frequent(counts, 50)                                             by frequency
    ids = highest_tfidf(documents, n, 50)                                       by TF-IDF
    ids = kmeans_plus_plus(features, 50)                                        by clustering
    ids = kmeans_plus_plus(features, 50, start=most_frequent(counts, 20))       frequency, then clustering (Figure 2)
    layer.start_from(ids, pretrained[ids])

Features [n, f] say which tokens are alike: pretrained vectors, or `edge_embed.layers.cooccurrence.features`. Centres of
k-means, which are no tokens, are anchors without ids: ``layer.start_from(vectors=KMeans(50).fit(features)
.cluster_centers_)``. A layer that is started from nothing has random anchors.

Source: "Anchor & Transform" (ICLR 2021), section 3.1.
"""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.layers.documents import Document, batches
from edge_embed.layers.table import checked_count, checked_counts


def most_frequent(counts: Tensor, num_anchors: int, skip: Iterable[int] = ()) -> Tensor:
    """The tokens that come up most often.

    Args:
        counts: how often each token comes up, numbers [n].
        num_anchors: A.
        skip: ids that are no anchors, such as padding and unknown words.

    Returns:
        Ids int64 [A], the most frequent first, equal ones by lowest id.

    Raises:
        BadInputError: if there are not as many tokens left, or ids are no integers.
        IdOutOfRangeError: for an id to skip that is outside the table.
    """
    scores = checked_counts(counts)
    allowed = _allowed(len(scores), num_anchors, skip)
    ranked = scores.masked_fill(~allowed, -torch.inf).sort(descending=True, stable=True).indices
    return ranked[:num_anchors]


def highest_tfidf(
    documents: Iterable[Document], num_embeddings: int, num_anchors: int, skip: Iterable[int] = ()
) -> Tensor:
    """The tokens whose TF-IDF is highest, summed over the documents: count log(documents / documents that have it).

    Args:
        documents: ids of each text, integers [m].
        num_embeddings: n.
        num_anchors: A.
        skip: ids that are no anchors.

    Returns:
        Ids int64 [A], the highest first, equal ones by lowest id.

    Raises:
        BadInputError: if there is no document, not as many tokens are left, or ids are no integers.
        IdOutOfRangeError: for an id outside the table.
    """
    checked_count("num_embeddings", num_embeddings)
    terms, holders = np.zeros(num_embeddings, np.int64), np.zeros(num_embeddings, np.int64)
    total = 0
    for ids, owners in batches(documents, num_embeddings):
        terms += np.bincount(ids, minlength=num_embeddings)
        held = np.unique(owners * num_embeddings + ids) % num_embeddings  # once for each document
        holders += np.bincount(held, minlength=num_embeddings)
        total += len(np.unique(owners))
    if not total:
        raise BadInputError("got no document that has a token, expected those of the training data")
    return most_frequent(torch.from_numpy(terms * np.log(total / np.maximum(holders, 1))), num_anchors, skip)


def kmeans_plus_plus(
    features: Tensor,
    num_anchors: int,
    start: Iterable[int] = (),
    skip: Iterable[int] = (),
    generator: torch.Generator | None = None,
) -> Tensor:
    """Tokens that span a feature space: each is drawn with a chance that grows as its squared distance to the others.

    Source: "k-means++: the advantages of careful seeding" (Arthur and Vassilvitskii, 2007), section 2.2.

    Args:
        features: float [n, f]; tokens that are alike are close.
        num_anchors: A.
        start: ids that are anchors already, such as the most frequent ones.
        skip: ids that are no anchors.
        generator: of the draws, by default torch's own.

    Returns:
        Ids int64 [A], those of ``start`` first, all different.

    Raises:
        BadInputError: for features that are not finite [n, f], an id that is no integer or given twice, or too few
            tokens.
        IdOutOfRangeError: for an id that is outside the table.
    """
    features = torch.as_tensor(features).detach()
    if features.ndim != 2 or not features.is_floating_point() or not features.isfinite().all():
        raise BadInputError(f"features: got {features.dtype} {list(features.shape)}, expected finite floats [n, f]")
    allowed = _allowed(len(features), num_anchors, skip)
    chosen = _ids(start, len(features), "start").tolist()
    if len(chosen) > num_anchors or len(set(chosen)) < len(chosen):
        raise BadInputError(f"start: got {len(chosen)} ids, expected at most {num_anchors}, all different")
    nearest = torch.full((len(features),), torch.inf, dtype=torch.float64)  # squared distance to the nearest anchor
    for at in range(num_anchors):
        if at == len(chosen):
            chosen.append(_drawn(nearest, allowed, generator))
        allowed[chosen[at]] = False
        distance = (features - features[chosen[at]]).double().square_().sum(1)
        nearest = torch.minimum(nearest, distance.cpu())
    return torch.tensor(chosen)


def _drawn(weights: Tensor, allowed: Tensor, generator: torch.Generator | None) -> int:
    """An allowed position; where no weight says which, each with the same chance."""
    weights = weights.masked_fill(~allowed, 0.0)
    if not 0 < weights.sum() < torch.inf:
        weights = allowed.double()
    sums = weights.cumsum(0)
    at = torch.rand(1, dtype=torch.float64, generator=generator) * sums[-1]
    return min(int(torch.searchsorted(sums, at, right=True)), int(weights.nonzero()[-1]))


def _allowed(num_embeddings: int, num_anchors: int, skip: Iterable[int]) -> Tensor:
    """Which tokens may be anchors, bool [n]."""
    checked_count("num_anchors", num_anchors)
    allowed = torch.ones(num_embeddings, dtype=torch.bool)
    allowed[_ids(skip, num_embeddings, "skip")] = False
    if allowed.sum() < num_anchors:
        raise BadInputError(f"got {num_anchors} anchors to choose from {int(allowed.sum())} tokens, expected fewer")
    return allowed


def _ids(given: Iterable[int], num_embeddings: int, name: str) -> Tensor:
    if not isinstance(given, Iterable):
        raise BadInputError(f"{name}: got {given!r:.80}, expected ids, such as [0]")
    array = np.asarray(given.cpu() if isinstance(given, Tensor) else list(given))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        got = f"got {array.dtype} {list(array.shape)}"
        raise BadInputError(f"{name}: {got}, expected ids, integers; of a mask give mask.nonzero().flatten()")
    ids = torch.from_numpy(array.astype(np.int64))
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < num_embeddings:
        raise IdOutOfRangeError(f"{name}: got ids {ids.tolist()!s:.80}, expected 0 to {num_embeddings - 1}")
    return ids
