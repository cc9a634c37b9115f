"""Experiments on AG News: each method at two or more ratios, with the settings that validation chooses from."""

from collections.abc import Callable
from functools import partial

from candidates import Candidates, penalties, rates
from methods import ant, sx, tt, vq
from options import Options
from torch import nn

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


def _dense(words: int) -> nn.Module:
    return nn.EmbeddingBag(words, WIDTH, mode="mean", padding_idx=0)


_vq = partial(vq, WIDTH, layer=edge_embed.DPQEmbeddingBag, mode="mean")
_sx = partial(sx, WIDTH, layer=edge_embed.DPQEmbeddingBag, mode="mean")
_ant = partial(ant, WIDTH, layer=edge_embed.ANTEmbeddingBag, mode="mean")
_tt = partial(tt, WIDTH, layer=edge_embed.TTEmbeddingBag, mode="mean")


CANDIDATES: Candidates = {
    "dense": [*rates(_dense, 4, 1e-2, 3e-3, 1e-3), *rates(_dense, 2, 1e-2, 3e-3, decay=True)],
    "dpq vq, K = 16, D = 32": rates(_vq(16, 32), 2, 1e-2, 3e-3, decay=True),
    "dpq vq, K = 16, D = 16": rates(_vq(16, 16), 2, 1e-2, 3e-3, decay=True),
    "dpq vq, K = 4, D = 16": rates(_vq(4, 16), 2, 1e-2, 3e-3, decay=True),
    "dpq sx, K = 16, D = 32": rates(_sx(32), 2, 1e-2, 3e-3, decay=True),
    "dpq sx, K = 16, D = 16": rates(_sx(16), 2, 1e-2, 3e-3, decay=True),
    "ant, A = 10": penalties(_ant(10), 3, 1e-2, 1e-6, 5e-6, decay=True),
    "ant, A = 20": penalties(_ant(20), 2, 3e-2, 1e-6, 1e-5, decay=True),
    "ant, A = 8": penalties(_ant(8), 3, 1e-2, 3e-5, 6e-5, decay=True),
    "ant, A = 4": penalties(_ant(4), 3, 1e-2, 6e-5, 1e-4, decay=True),
    "ant with Yogi, A = 8": penalties(_ant(8), 3, 3e-2, 3e-5, 6e-5, decay=True, optimizer="yogi"),
    "tt, R = 16": rates(_tt(16), 4, 1e-2, 3e-2, decay=True),
    "tt, R = 32": rates(_tt(32), 4, 1e-2, 3e-2, decay=True),
}
