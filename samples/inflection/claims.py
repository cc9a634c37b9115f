"""Experiments on inflection: attention by softmax, 1.5-entmax, and entmax whose alpha each attention head learns."""

from collections.abc import Callable

from candidates import Candidates, rates, with_attention
from datasets import unpacked
from methods import dense
from options import Options

from inflection.data import read
from inflection.task import InflectionTask

_WIDTH = 64
_QUICK_WORDS = 500


def make_task(options: Options) -> Callable[[], InflectionTask]:
    """Return a function that makes the task; its parts are always the same."""
    with unpacked(options.data, "sigmorphon18") as folder:
        corpus = read(folder, _QUICK_WORDS if options.quick else None)
    return lambda: InflectionTask(corpus)


_SOFTMAX = rates(dense(_WIDTH), 6, 2e-3, decay=True)

CANDIDATES: Candidates = {
    "dense": _SOFTMAX,
    "entmax15 attention": with_attention(_SOFTMAX, "entmax15"),
    "learned attention": with_attention(_SOFTMAX, "learned"),
}
