"""Experiments on WikiText-2: a language model whose output layer shares the table."""

from collections.abc import Callable
from dataclasses import replace

from candidates import Candidates, penalties, rates
from methods import ant, dense, tied_sx, tiers, tt, vq
from options import Options

from wikitext2.data import is_public, read, text_folder
from wikitext2.model import WIDTH
from wikitext2.sample import Output, WordTask

_QUICK_WORDS = 15_000
_TEST = 60_000  # words for the test score of each of many tables that share the output layer


def make_task(options: Options, output: Output = "shared") -> Callable[[], WordTask]:
    """Return a function that makes the task; its parts are always the same.

    Args:
        options: options of the command.
        output: table of the output layer, as in `WordTask`.
    """
    with text_folder(options.data) as folder:
        text = read(folder, least=5)
        most = None if is_public(folder) else _TEST
    text = text.begin(_QUICK_WORDS) if options.quick else replace(text, test=text.test[:most])
    return lambda: WordTask(text, output)


def candidates(width: int = WIDTH) -> Candidates:
    """Return the settings of every method, for tables [*, width]."""
    return {
        "dense": rates(dense(width), 8, 2e-2, 1e-2, decay=True),
        "dpq vq, K = 16, D = 64": rates(vq(width, 16, 64, distance_norm=False), 8, 3e-2, 2e-2, decay=True),
        "tiers, as D = 64": rates(tiers(width, 0.06, 0.18, 32, distance_norm=False), 8, 3e-2, decay=True),
        "dpq vq, K = 16, D = 32": rates(vq(width, 16, 32, distance_norm=False), 8, 3e-2, decay=True),
        "tiers, as D = 32": rates(tiers(width, 0.02, 0.095, 16, distance_norm=False), 8, 3e-2, decay=True),
        "dpq sx, K = 16, D = 64": rates(tied_sx(width, 64), 8, 3e-2, decay=True),
        "ant, A = 100": penalties(ant(width, 100), 8, 3e-2, 3e-4, 1e-3, decay=True),
        "tt, R = 16": rates(tt(width, 16), 8, 2e-2, decay=True),
    }


CANDIDATES = candidates()
