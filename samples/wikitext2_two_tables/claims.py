"""Experiments on WikiText-2: a language model with a table for the words it reads and one for those it predicts."""

from collections.abc import Callable

import wikitext2.claims
from candidates import Candidates, rates
from methods import dense, tt, vq
from options import Options
from wikitext2.model import WIDTH
from wikitext2.sample import WordTask


def make_task(options: Options) -> Callable[[], WordTask]:
    """Return a function that makes the task; its parts are always the same."""
    return wikitext2.claims.make_task(options, output="own")


CANDIDATES: Candidates = {
    "dense": rates(dense(WIDTH), 8, 2e-2, 1e-2, decay=True),
    "dpq vq, K = 16, D = 64": rates(vq(WIDTH, 16, 64, distance_norm=False), 8, 3e-2, decay=True),
    "tt, R = 40": rates(tt(WIDTH, 40), 8, 2e-2, 1e-2, decay=True),
    "tt, R = 20": rates(tt(WIDTH, 20), 8, 2e-2, 1e-2, decay=True),
    "tt, R = 34, five cores": rates(tt(WIDTH, 34, num_cores=5), 8, 2e-2, 1e-2, decay=True),
}
