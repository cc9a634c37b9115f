"""What is tried on clicks: users, items and recent items, each with a table of its own, all of one method."""

from collections.abc import Callable

from amazon_video.claims import read_histories
from candidates import Candidates, penalties, rates
from methods import ant, dense, sx, tt, vq
from options import Options

from click_through.model import WIDTH
from click_through.task import ClickTask


def make_task(options: Options) -> Callable[[], ClickTask]:
    """Makes the task; its parts are always the same."""
    histories = read_histories(options)
    return lambda: ClickTask(histories)


CANDIDATES: Candidates = {
    "dense": rates(dense(WIDTH), 6, 1e-2, 2e-2, decay=True),
    "dpq vq, K = 16, D = 32": rates(vq(WIDTH, 16, 32), 6, 1e-2, 2e-2, decay=True),
    "dpq vq, K = 16, D = 16": rates(vq(WIDTH, 16, 16), 6, 1e-2, 2e-2, decay=True),
    "dpq sx, K = 16, D = 32": rates(sx(WIDTH, 32), 6, 1e-2, 2e-2, decay=True),
    "ant, A = 10": penalties(ant(WIDTH, 10), 6, 3e-2, 1e-6, 1e-7),
    "ant, A = 20": penalties(ant(WIDTH, 20), 6, 3e-2, 1e-6, 1e-7),
    "tt, R = 16": rates(tt(WIDTH, 16), 6, 1e-2, 2e-2, decay=True),
    "tt, R = 32": rates(tt(WIDTH, 32), 6, 1e-2, 2e-2, decay=True),
}
