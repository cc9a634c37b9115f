"""Experiments on Multi30k: a translator whose output layer is dense and does not share a table."""

from collections.abc import Callable

import multi30k.claims
from candidates import Candidates, rates
from methods import dense, sx, vq
from multi30k.model import WIDTH
from multi30k.task import TranslationTask
from options import Options


def make_task(options: Options) -> Callable[[], TranslationTask]:
    """Return a function that makes the task; its parts are always the same."""
    return multi30k.claims.make_task(options, tied=False)


CANDIDATES: Candidates = {
    "dense": rates(dense(WIDTH), 8, 3e-3, 1e-3, decay=True),
    "dpq vq, K = 16, D = 64": rates(vq(WIDTH, 16, 64), 8, 1e-2, 3e-3, decay=True),
    "dpq vq, K = 16, D = 32": rates(vq(WIDTH, 16, 32), 8, 1e-2, 3e-3, decay=True),
    "dpq sx, K = 16, D = 64": rates(sx(WIDTH, 64), 8, 1e-2, 3e-3, decay=True),
}
