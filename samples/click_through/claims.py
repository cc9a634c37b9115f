"""Experiments on clicks: users, items and recent items, each with its own table, all of one method."""

from collections.abc import Callable, Mapping
from typing import Any

from amazon_video.claims import read_histories
from candidates import Candidates, penalties, rates
from methods import ant, dense, sx, tiers, tt, vq
from options import Options
from training import Recipe

from click_through import criteo
from click_through.criteo import AdTask
from click_through.model import WIDTH
from click_through.task import ClickTask

_QUICK_CLICKS = 100_000


def make_task(options: Options) -> Callable[[], ClickTask | AdTask]:
    """Return a function that makes the task; its parts are always the same. A set of Criteo has one table."""
    if (options.data / criteo.PUBLIC).is_file() and not (options.data / "amazon-video.tar.xz").is_file():
        clicks = criteo.read(options.data / criteo.PUBLIC, _QUICK_CLICKS if options.quick else None)
        return lambda: AdTask(clicks)
    histories = read_histories(options)
    return lambda: ClickTask(histories)


def _sx(**options: Any) -> list[Recipe]:
    """Return the settings of DPQ-SX, K = 16, D = 32.

    Most users are rare: rates are high, and the codes of SX start further apart than elsewhere. A norm would follow the
    batches, in which such users hardly occur.
    """
    return rates(sx(WIDTH, 32, query_init_scale=0.05, distance_norm=False, **options), 6, 4e-2, 2e-2, decay=True)


_EUCLIDEAN: dict[str, Any] = {"metric": "euclidean"}
_TIED: dict[str, Any] = {"tie_key_value": True}
_COLD: dict[str, Any] = {"temperature": 1.0}
_WARM: dict[str, Any] = {"temperature": 4.0}
_SX = _sx(**_EUCLIDEAN, **_TIED, **_WARM)  # the best of the ablation below

CANDIDATES: Candidates = {
    "dense": rates(dense(WIDTH), 6, 4e-2, 2e-2, 1e-2, decay=True),
    "dpq vq, K = 16, D = 32": rates(vq(WIDTH, 16, 32), 6, 4e-2, 2e-2, decay=True),
    "tiers, as D = 32": rates(tiers(WIDTH, 0.02, 0.27, 16), 6, 4e-2, 2e-2, decay=True),
    "dpq vq, K = 16, D = 16": rates(vq(WIDTH, 16, 16), 6, 4e-2, 2e-2, decay=True),
    "tiers, as D = 16": rates(tiers(WIDTH, 0.0125, 0.11, 8), 6, 4e-2, 2e-2, decay=True),
    "dpq sx, K = 16, D = 32": _SX,
    "ant, A = 10": penalties(ant(WIDTH, 10), 8, 3e-2, 1e-6, 4e-6, decay=True),
    "ant, A = 20": penalties(ant(WIDTH, 20), 8, 3e-2, 1e-6, 4e-6, decay=True),
    "tt, R = 16": rates(tt(WIDTH, 16), 6, 1e-2, 5e-3, decay=True),
    "tt, R = 32": rates(tt(WIDTH, 32), 6, 1e-2, 5e-3, decay=True),
}

_STEPS: Candidates = {
    **{method: CANDIDATES[method] for method in ("dense", "dpq vq, K = 16, D = 32")},
    "dpq sx": _sx(**_COLD),
    "dpq sx, tau = 4": _sx(**_WARM),
    "dpq sx, euclidean": _sx(**_EUCLIDEAN, **_COLD),
    "dpq sx, euclidean, tied": _sx(**_EUCLIDEAN, **_TIED, **_COLD),
    "dpq sx, euclidean, tied, tau = 4": _SX,
}

# From the SX of the paper towards VQ, with the rate that validation chose for VQ.
ABLATIONS: Mapping[str, Candidates] = {"sx": {method: recipes[:1] for method, recipes in _STEPS.items()}}
