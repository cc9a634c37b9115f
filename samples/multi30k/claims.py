"""Experiments on Multi30k: a table for each language, both of one method; the output layer shares the second."""

from collections.abc import Callable
from dataclasses import replace

from candidates import Candidates, penalties, rates, with_attention
from methods import ant, dense, tied_sx, tt, vq
from options import Options

from multi30k.data import read, text_folder
from multi30k.model import WIDTH
from multi30k.task import TranslationTask

_QUICK_PAIRS = 2000
_QUICK_TRANSLATED = 200


def make_task(options: Options, tied: bool = True) -> Callable[[], TranslationTask]:
    """Return a function that makes the task; its parts are always the same.

    Args:
        options: options of the command.
        tied: whether the output layer of the model shares the table of the translations.
    """
    with text_folder(options.data) as folder:
        corpus = read(folder, _QUICK_PAIRS if options.quick else None)
    if options.quick:
        some = slice(_QUICK_TRANSLATED)
        corpus = replace(corpus, test=corpus.test[some], references=corpus.references[some])
    return lambda: TranslationTask(corpus, tied)


_DENSE = rates(dense(WIDTH), 8, 3e-3, 1e-3, decay=True)
_VQ = rates(vq(WIDTH, 16, 64), 8, 1e-2, 3e-3, decay=True)

CANDIDATES: Candidates = {
    "dense": _DENSE,
    "entmax15 attention": with_attention(_DENSE, "entmax15"),
    "learned attention": with_attention(_DENSE, "learned"),
    "learned attention and dpq vq, K = 16, D = 64": with_attention(_VQ, "learned"),
    "dpq vq, K = 16, D = 64": _VQ,
    "dpq vq, K = 16, D = 32": rates(vq(WIDTH, 16, 32), 8, 3e-3, decay=True),
    "dpq sx, K = 16, D = 64": rates(tied_sx(WIDTH, 64), 8, 1e-2, 3e-3, decay=True),
    "ant, A = 20": penalties(ant(WIDTH, 20), 8, 1e-2, 1e-5, 3e-5, decay=True),
    "tt, R = 16": rates(tt(WIDTH, 16), 8, 3e-3, decay=True),
}
