"""Experiments on BERT that is pre-trained and fine-tuned with each table, all with the same settings."""

from collections.abc import Callable, Sequence

from ag_news.data import news_folder, read
from ag_news.sample import HELD_OUT
from candidates import Candidates, rates
from methods import dense, sx, vq
from options import Options
from tables import MakeTable
from training import Recipe

from bert.model import WIDTH
from bert.task import PretrainedTask, pretrained

_QUICK_TEXTS = 4_000  # of each part


def make_task(options: Options) -> Callable[[], PretrainedTask]:
    """Return a function that makes the task, each time with another split into training and validation texts."""
    with news_folder(options.data) as folder:
        vocabulary, texts, test = read(folder)
    if options.quick:
        texts, test = texts[:_QUICK_TEXTS], test[:_QUICK_TEXTS]
    return lambda: PretrainedTask(vocabulary, texts, test, HELD_OUT)


def _recipes(table: MakeTable) -> Sequence[Recipe]:
    return [pretrained(recipe) for recipe in rates(table, 2, PretrainedTask.rate, decay=True)]


CANDIDATES: Candidates = {
    "dense": _recipes(dense(WIDTH)),
    "dpq sx, K = 16, D = 32": _recipes(sx(WIDTH, 32)),
    "dpq vq, K = 16, D = 32": _recipes(vq(WIDTH, 16, 32)),
}
