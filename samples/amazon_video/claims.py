"""Experiments on Amazon's video games: a recommender whose scores share the table of items."""

from collections.abc import Callable

from candidates import Candidates, penalties, rates
from methods import ant, dense, sx, tiers, tt, vq
from options import Options

from amazon_video.data import Histories, read, video_folder
from amazon_video.model import WIDTH
from amazon_video.sample import NextItemTask

_QUICK_USERS = 6000


def make_task(options: Options) -> Callable[[], NextItemTask]:
    """Return a function that makes the task; its parts are always the same."""
    histories = read_histories(options)
    return lambda: NextItemTask(histories)


def read_histories(options: Options) -> Histories:
    """Return all users and items; in a quick run only the first users and frequent items."""
    with video_folder(options.data) as folder:
        histories = read(folder, least=20 if options.quick else 1)
    return histories.begin(_QUICK_USERS) if options.quick else histories


CANDIDATES: Candidates = {
    "dense": rates(dense(WIDTH), 8, 1e-2, decay=True),
    "dpq vq, K = 16, D = 32": rates(vq(WIDTH, 16, 32), 8, 1e-2, decay=True),
    "tiers, as D = 32": rates(tiers(WIDTH, 0.02, 0.27, 16), 8, 1e-2, decay=True),
    "dpq vq, K = 16, D = 16": rates(vq(WIDTH, 16, 16), 8, 1e-2, decay=True),
    "tiers, as D = 16": rates(tiers(WIDTH, 0.0125, 0.11, 8), 8, 1e-2, decay=True),
    "dpq sx, K = 16, D = 32": rates(sx(WIDTH, 32), 8, 1e-2, decay=True),
    "ant, A = 50": penalties(ant(WIDTH, 50), 8, 3e-2, 1e-4, 1e-5, decay=True),
    "ant, A = 20": penalties(ant(WIDTH, 20), 8, 3e-2, 1e-4, 1e-5, decay=True),
    "tt, R = 16": rates(tt(WIDTH, 16), 12, 1e-2, decay=True),
    "tt, R = 24": rates(tt(WIDTH, 24), 12, 1e-2, decay=True),
}
