"""Experiments on ratings: users and items, each with its own table, both of one method."""

from collections.abc import Callable
from functools import partial

from amazon_video.data import video_folder
from baselines.trained import MixedWidths
from candidates import Candidates, decayed, penalties, rates, searched
from methods import ant, dense, other, vq
from options import Options

from ratings.data import read
from ratings.task import RatingTask

_WIDTH = 16
_EPOCHS = 24
_QUICK_RATINGS = 100_000


def make_task(options: Options) -> Callable[[], RatingTask]:
    """Return a function that makes the task; its parts are always the same."""
    with video_folder(options.data) as folder:
        training, validation, test, rows = read(folder)
    if options.quick:
        training = training[:_QUICK_RATINGS]
    return lambda: RatingTask(training, validation, test, rows)


_rates = partial(rates, decay=True)
_penalties = partial(penalties, decay=True)

CANDIDATES: Candidates = {
    "dense": decayed(_rates(dense(_WIDTH), _EPOCHS, 1e-2), 1e-5, 2e-5),
    "smaller width, d = 4": decayed(_rates(dense(4), _EPOCHS, 1e-2), 1e-5, 2e-5),
    "mixed widths": decayed(_rates(other(MixedWidths, _WIDTH, 400), _EPOCHS, 1e-2), 1e-5, 2e-5),
    "dpq vq, K = 16, D = 8": decayed(_rates(vq(_WIDTH, 16, 8), _EPOCHS, 1e-2), 1e-5, 2e-5),
    "ant, A = 5": _penalties(ant(_WIDTH, 5), _EPOCHS, 1e-2, 1e-6, 3e-6),
    "ant, A = 10": _penalties(ant(_WIDTH, 10), _EPOCHS, 1e-2, 3e-6, 6e-6),
    "ant, A = 20": _penalties(ant(_WIDTH, 20), _EPOCHS, 1e-2, 6e-6, 1e-5),
    "nbant": searched(_penalties(ant(_WIDTH, 5), _EPOCHS, 1e-2, 1e-7, 1e-6), 3e-4, 3e-3),
}
