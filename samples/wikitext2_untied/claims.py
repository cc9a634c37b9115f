"""Experiments on WikiText-2: a language model whose output layer is dense and does not share the table."""

from collections.abc import Callable

import wikitext2.claims
from candidates import Candidates, rates
from methods import dense, sx, tiers, vq
from options import Options
from training import Recipe
from wikitext2.model import WIDTH
from wikitext2.sample import WordTask


def make_task(options: Options) -> Callable[[], WordTask]:
    """Return a function that makes the task; its parts are always the same."""
    return wikitext2.claims.make_task(options, output="dense")


CANDIDATES: Candidates = {
    "dense": rates(dense(WIDTH), 8, 2e-2, 1e-2, decay=True),
    "dpq vq, K = 16, D = 64": rates(vq(WIDTH, 16, 64, distance_norm=False), 8, 3e-2, decay=True),
    "tiers, as D = 64": rates(tiers(WIDTH, 0.06, 0.18, 32, distance_norm=False), 8, 3e-2, decay=True),
    "dpq vq, K = 16, D = 32": rates(vq(WIDTH, 16, 32, distance_norm=False), 8, 3e-2, decay=True),
    "tiers, as D = 32": rates(tiers(WIDTH, 0.02, 0.095, 16, distance_norm=False), 8, 3e-2, decay=True),
}


def grid(variant: str, num_codes: int, num_groups: int) -> Recipe:
    """Return the recipe of a DPQ table of any size, with one setting for all."""
    if variant == "vq":
        table = vq(WIDTH, num_codes, num_groups, distance_norm=False)
    else:
        table = sx(WIDTH, num_groups, num_codes)
    return rates(table, 8, 3e-2, decay=True)[0]
