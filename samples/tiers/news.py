"""The classifier of news, trained here with a dense table."""

from collections.abc import Iterator

import torch
from ag_news.data import read
from ag_news.sample import HELD_OUT, RECIPES, NewsTask
from datasets import PADDING, unpacked
from divergence import divergence
from options import Options
from torch import nn
from training import train

from tiers.case import Case

_TEXTS, _QUICK_TEXTS = 7_600, 1_000


def cases(options: Options) -> Iterator[Case]:
    """Yield the classifier."""
    torch.manual_seed(options.seed)
    with unpacked(options.data, "agnews20k") as folder:
        vocabulary, texts, test = read(folder)
    task = NewsTask(vocabulary, texts, test[: _QUICK_TEXTS if options.quick else _TEXTS], HELD_OUT)
    recipe = RECIPES["dense"]
    model = train(task, recipe, "AG News", recipe.quick_epochs if options.quick else recipe.epochs)
    counts = task.training.ids.flatten().bincount(minlength=len(vocabulary))
    counts[PADDING] = 0
    with torch.no_grad():
        expected = model(task.test.ids)

    def judge(tried: nn.Module) -> dict[str, float]:
        found = tried(task.test.ids)
        accuracy = (found.argmax(-1) == task.test.classes).double().mean()
        return {"KL": divergence(expected, found), "accuracy": float(accuracy)}

    yield Case("AG News", model, {"table": counts}, judge, is_trained=True, example=(task.test.ids[:2],))
