"""Experiments on AG News: each method at two or more ratios, with the settings that validation chooses from."""

from collections.abc import Callable
from functools import partial

from baselines.fine_tuned import fine_tuned
from baselines.trained import Frequent, Hashed, LowRank, QuotientRemainder
from candidates import Candidates, penalties, rates
from methods import ant, other, sx, tt, vq
from options import Options
from torch import nn
from training import Recipe

import edge_embed
from ag_news.data import news_folder, read
from ag_news.model import WIDTH
from ag_news.sample import HELD_OUT, NewsTask

_QUICK_TEXTS = 10_000  # maximum of each part


def make_task(options: Options) -> Callable[[], NewsTask]:
    """Return a function that makes the task, each time with another split into training and validation texts."""
    with news_folder(options.data) as folder:
        vocabulary, texts, test = read(folder)
    if options.quick:
        texts, test = texts[:_QUICK_TEXTS], test[:_QUICK_TEXTS]
    return lambda: NewsTask(vocabulary, texts, test, held_out=HELD_OUT)


def _dense(words: int, width: int = WIDTH) -> nn.Module:
    return nn.EmbeddingBag(words, width, mode="mean", padding_idx=0)


def _integers(words: int) -> nn.Module:
    return edge_embed.IntegerEmbeddingBag(words, WIDTH, bits=2, mode="mean", padding_idx=0)


_vq = partial(vq, WIDTH, layer=edge_embed.DPQEmbeddingBag, mode="mean")
_sx = partial(sx, WIDTH, layer=edge_embed.DPQEmbeddingBag, mode="mean")
table_of_anchors = partial(ant, WIDTH, layer=edge_embed.ANTEmbeddingBag, mode="mean")
_tt = partial(tt, WIDTH, layer=edge_embed.TTEmbeddingBag, mode="mean")
_other = partial(other, width=WIDTH, mode="mean")
_FIRST = rates(_dense, 2, 1e-2, decay=True)[0]


def _tuned(method: str, num_groups: int) -> list[Recipe]:
    recipes = rates(_vq(16, num_groups), 2, 1e-2, 3e-3, decay=True)
    return [fine_tuned(recipe, _FIRST, method, num_codes=16, num_groups=num_groups) for recipe in recipes]


CANDIDATES: Candidates = {
    "dense": [*rates(_dense, 4, 1e-2, 3e-3, 1e-3), *rates(_dense, 2, 1e-2, 3e-3, decay=True)],
    "dpq vq, K = 16, D = 32": rates(_vq(16, 32), 2, 1e-2, 3e-3, decay=True),
    "dpq vq, K = 16, D = 16": rates(_vq(16, 16), 2, 1e-2, 3e-3, decay=True),
    "dpq vq, K = 4, D = 16": rates(_vq(4, 16), 2, 1e-2, 3e-3, decay=True),
    "dpq sx, K = 16, D = 32": rates(_sx(32), 2, 1e-2, 3e-3, decay=True),
    "dpq sx, K = 16, D = 16": rates(_sx(16), 2, 1e-2, 3e-3, decay=True),
    "ant, A = 10": penalties(table_of_anchors(10), 3, 1e-2, 1e-6, 5e-6, decay=True),
    "ant, A = 20": penalties(table_of_anchors(20), 2, 3e-2, 1e-6, 1e-5, decay=True),
    "ant, A = 8": penalties(table_of_anchors(8), 3, 1e-2, 3e-5, 6e-5, decay=True),
    "ant, A = 4": penalties(table_of_anchors(4), 3, 1e-2, 6e-5, 1e-4, decay=True),
    "ant with Yogi, A = 8": penalties(table_of_anchors(8), 3, 3e-2, 3e-5, 6e-5, decay=True, optimizer="yogi"),
    "tt, R = 16": rates(_tt(16), 4, 1e-2, 3e-2, decay=True),
    "tt, R = 32": rates(_tt(32), 4, 1e-2, 3e-2, decay=True),
    # Baselines with as many bytes as DPQ of 32 groups, or more.
    "smaller width, d = 4": rates(partial(_dense, width=4), 4, 1e-1, 3e-2, decay=True),
    "low rank, R = 4": rates(_other(LowRank, size=4), 4, 3e-2, 1e-2, decay=True),
    "hashing": rates(_other(Hashed, size=617), 4, 3e-2, 1e-2, decay=True),
    "quotient-remainder": rates(_other(QuotientRemainder, size=584), 4, 3e-2, 1e-2, decay=True),
    "frequent words": rates(_other(Frequent, size=616), 4, 3e-2, 1e-2, decay=True),
    "integers, 2 bits": rates(_integers, 4, 3e-2, 1e-2, decay=True),
    "pq and fine-tuning, K = 16, D = 32": _tuned("dpq", 32),
    "opq and fine-tuning, K = 16, D = 16": _tuned("opq", 16),
}


def grid(variant: str, num_codes: int, num_groups: int) -> Recipe:
    """Return the recipe of a DPQ table of any size, with one setting for all."""
    table = _vq(num_codes, num_groups) if variant == "vq" else _sx(num_groups, num_codes)
    return rates(table, 2, 1e-2, decay=True)[0]
