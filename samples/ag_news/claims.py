"""What is tried on AG News: each method at two ratios or more, with the settings that validation chooses from."""

from collections.abc import Callable

from candidates import Candidates, Table, penalties, rates, sx
from datasets import unpacked
from options import Options
from torch import nn

import edge_embed
from ag_news.data import read
from ag_news.model import WIDTH
from ag_news.sample import HELD_OUT, NewsTask


def make_task(options: Options) -> Callable[[], NewsTask]:
    """Makes the task anew, with another split into training and validation texts each time."""
    with unpacked(options.data, "agnews20k") as folder:
        texts = read(folder)
    return lambda: NewsTask(*texts, held_out=HELD_OUT)


def _dense(words: int) -> nn.Module:
    return nn.EmbeddingBag(words, WIDTH, mode="mean", padding_idx=0)


def _vq(num_codes: int, num_groups: int) -> Table:
    return lambda words: edge_embed.DPQEmbeddingBag(
        words, WIDTH, num_codes, num_groups, variant="vq", padding_idx=0, mode="mean"
    )


def _ant(num_anchors: int) -> Table:
    return lambda words: edge_embed.ANTEmbeddingBag(words, WIDTH, num_anchors, padding_idx=0, mode="mean")


def _tt(rank: int) -> Table:
    return lambda words: edge_embed.TTEmbeddingBag(words, WIDTH, rank=rank, padding_idx=0, mode="mean")


CANDIDATES: Candidates = {
    "dense": [*rates(_dense, 4, 1e-2, 3e-3, 1e-3), *rates(_dense, 2, 1e-2, 3e-3, decay=True)],
    "dpq vq, K = 16, D = 32": [*rates(_vq(16, 32), 4, 3e-3), *rates(_vq(16, 32), 2, 1e-2, decay=True)],
    "dpq vq, K = 16, D = 16": [*rates(_vq(16, 16), 4, 3e-3), *rates(_vq(16, 16), 2, 1e-2, decay=True)],
    "dpq vq, K = 4, D = 16": [*rates(_vq(4, 16), 4, 3e-3), *rates(_vq(4, 16), 2, 1e-2, decay=True)],
    "dpq sx, K = 16, D = 16": rates(sx(edge_embed.DPQEmbeddingBag, WIDTH, 16, mode="mean"), 2, 1e-2, 3e-3, decay=True),
    "ant, A = 10": penalties(_ant(10), 6, 1e-2, 3e-5, 1e-5),
    "ant, A = 20": penalties(_ant(20), 6, 1e-2, 3e-5, 1e-5),
    "tt, R = 16": rates(_tt(16), 10, 1e-2, 3e-3),
    "tt, R = 32": rates(_tt(32), 10, 1e-2, 3e-3),
}
