"""Select the tokens that become the anchors of an ANT table, from statistics known before training.

    ids = most_frequent(counts, 50)                                             by frequency
    ids = highest_tfidf(documents, n, 50)                                       by TF-IDF
    ids = kmeans_plus_plus(features, 50)                                        by clustering
    ids = kmeans_plus_plus(features, 50, start=most_frequent(counts, 20))       frequency, then clustering (Figure 2)
    layer.start_from(ids, pretrained[ids])

Features [n, f] place similar tokens close together: pretrained vectors, or `edge_embed.layers.cooccurrence.features`.
Centres of k-means are no tokens, so they become anchors without ids:
``layer.start_from(vectors=KMeans(50).fit(features).cluster_centers_)``. A new layer has random anchors.

Source: "Anchor & Transform" (ICLR 2021), section 3.1.
"""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.layers.arguments import checked_count, checked_counts
from edge_embed.layers.documents import Document, batches


def most_frequent(counts: Tensor, num_anchors: int, skip: Iterable[int] = ()) -> Tensor:
    """Return the most frequent tokens.

    Args:
        counts: frequency of each token, numbers [n].
        num_anchors: number of anchors A.
        skip: ids that are never selected, such as padding and unknown words.

    Returns:
        Ids int64 [A] in descending frequency; the lowest id is first among equal ones.

    Raises:
        BadInputError: if fewer than A tokens are left, or ids are not integers.
        IdOutOfRangeError: for an id to skip that is outside the table.
    """
    scores = checked_counts(counts)
    allowed = _allowed(len(scores), num_anchors, skip)
    ranked = scores.masked_fill(~allowed, -torch.inf).sort(descending=True, stable=True).indices
    return ranked[:num_anchors]


def highest_tfidf(
    documents: Iterable[Document], num_embeddings: int, num_anchors: int, skip: Iterable[int] = ()
) -> Tensor:
    """Return the tokens with the highest sum of TF-IDF over documents: count log(documents / documents with the token).

    Args:
        documents: ids of each text, integers [m].
        num_embeddings: number of rows n.
        num_anchors: number of anchors A.
        skip: ids that are never selected.

    Returns:
        Ids int64 [A] in descending order; the lowest id is first among equal ones.

    Raises:
        BadInputError: if there is no document, fewer than A tokens are left, or ids are not integers.
        IdOutOfRangeError: for an id outside the table.
    """
    checked_count("num_embeddings", num_embeddings)
    terms, holders = np.zeros(num_embeddings, np.int64), np.zeros(num_embeddings, np.int64)
    total = 0
    for ids, owners in batches(documents, num_embeddings):
        terms += np.bincount(ids, minlength=num_embeddings)
        held = np.unique(owners * num_embeddings + ids) % num_embeddings  # each document counts once
        holders += np.bincount(held, minlength=num_embeddings)
        total += len(np.unique(owners))
    if not total:
        raise BadInputError("documents: got no tokens, expected the documents of the training data")
    return most_frequent(torch.from_numpy(terms * np.log(total / np.maximum(holders, 1))), num_anchors, skip)


def kmeans_plus_plus(
    features: Tensor,
    num_anchors: int,
    start: Iterable[int] = (),
    skip: Iterable[int] = (),
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw tokens that span a feature space: the chance of a token grows with its squared distance to the chosen ones.

    Source: "k-means++: the advantages of careful seeding" (Arthur and Vassilvitskii, 2007), section 2.2.

    Args:
        features: float [n, f]; similar tokens are close together.
        num_anchors: number of anchors A.
        start: ids that are already selected, such as the most frequent ones.
        skip: ids that are never selected.
        generator: random generator, by default torch's own.

    Returns:
        Ids int64 [A], all different, beginning with ``start``.

    Raises:
        BadInputError: if features are not finite floats [n, f], an id is not an integer or is given twice, or there
            are too few tokens.
        IdOutOfRangeError: for an id outside the table.
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
    """Draw an allowed position by weight; with equal chances if all weights are zero or one is infinite."""
    weights = weights.masked_fill(~allowed, 0.0)
    if not 0 < weights.sum() < torch.inf:
        weights = allowed.double()
    sums = weights.cumsum(0)
    at = torch.rand(1, dtype=torch.float64, generator=generator) * sums[-1]
    return min(int(torch.searchsorted(sums, at, right=True)), int(weights.nonzero()[-1]))


def _allowed(num_embeddings: int, num_anchors: int, skip: Iterable[int]) -> Tensor:
    """Return which tokens may become anchors, bool [n]."""
    checked_count("num_anchors", num_anchors)
    allowed = torch.ones(num_embeddings, dtype=torch.bool)
    allowed[_ids(skip, num_embeddings, "skip")] = False
    if allowed.sum() < num_anchors:
        raise BadInputError(
            f"num_anchors: got {num_anchors}, expected at most {int(allowed.sum())}, the tokens outside skip"
        )
    return allowed


def _ids(given: Iterable[int], num_embeddings: int, name: str) -> Tensor:
    if not isinstance(given, Iterable):
        raise BadInputError(f"{name}: got {given!r:.80}, expected ids, such as [0]")
    array = np.asarray(given.cpu() if isinstance(given, Tensor) else list(given))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        got = f"got {array.dtype} {list(array.shape)}"
        raise BadInputError(f"{name}: {got}, expected ids, integers; for a mask, give mask.nonzero().flatten()")
    ids = torch.from_numpy(array.astype(np.int64))
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < num_embeddings:
        raise IdOutOfRangeError(f"{name}: got ids {ids.tolist()!s:.80}, expected 0 to {num_embeddings - 1}")
    return ids
