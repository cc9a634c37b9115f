"""Experiments on WikiText-2: a language model whose output layer is dense and does not share the table."""

from collections.abc import Callable

import wikitext2.claims
from candidates import Candidates, rates
from methods import dense, tiers, vq
from options import Options
from wikitext2.model import WIDTH
from wikitext2.sample import WordTask


def make_task(options: Options) -> Callable[[], WordTask]:
    """Return a function that makes the task; its parts are always the same."""
    return wikitext2.claims.make_task(options, tied=False)


CANDIDATES: Candidates = {
    "dense": rates(dense(WIDTH), 8, 2e-2, 1e-2, decay=True),
    "dpq vq, K = 16, D = 64": rates(vq(WIDTH, 16, 64, distance_norm=False), 8, 3e-2, decay=True),
    "tiers, as D = 64": rates(tiers(WIDTH, 0.06, 0.18, 32, distance_norm=False), 8, 3e-2, decay=True),
    "dpq vq, K = 16, D = 32": rates(vq(WIDTH, 16, 32, distance_norm=False), 8, 3e-2, decay=True),
    "tiers, as D = 32": rates(tiers(WIDTH, 0.02, 0.095, 16, distance_norm=False), 8, 3e-2, decay=True),
}
