"""Trials of a task with each table from several seeds; only validation data chooses settings.

Trials of the same seed have the same split into training and validation data and the same random state up to the table.
Differences are therefore taken within a seed.
"""

import copy
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from baselines.cut_down import TIERS, WAYS, Rows, cut_down, replace_rows
from baselines.trained import OtherTable
from candidates import Candidates
from numpy.typing import NDArray
from options import Options
from tables import paper_numbers, table_bytes, tables
from training import Model, Recipe, Task, evaluate, train

import edge_embed

TUNING_SEED = 1000  # of runs that choose between settings, and of no others


@dataclass(frozen=True)
class Trial:
    """One training run.

    Attributes:
        method: name of the recipes.
        setting: index of the chosen setting.
        seed: random seed.
        validation: metric of the epoch that was kept.
        test: the same on the test part.
        table_bytes: bytes of all tables as packed; float32 for dense ones.
        paper_numbers: float32 numbers in all tables by the count of the method's paper.
        cut_down: metric of the dense model of this seed, compressed afterwards to as many bytes, by baseline; empty
            for a larger table, and beside `baselines.trained`.
        further: other figures of the test part, by name.
    """

    method: str
    setting: int
    seed: int
    validation: float
    test: float
    table_bytes: int
    paper_numbers: float
    cut_down: Mapping[str, float]
    further: Mapping[str, float] = field(default_factory=dict)


def choose(make_task: Callable[[], Task[Model]], recipes: Sequence[Recipe], method: str, options: Options) -> int:
    """Return the setting of a method with the best validation score; in a quick run the first."""
    if len(recipes) == 1 or options.quick:
        return 0
    scores = []
    for recipe in recipes:
        task, model = trained(make_task, recipe, method, TUNING_SEED, options.quick)
        scores.append(evaluate(task, model, "validation") * (1 if task.higher_is_better else -1))
    return int(np.argmax(scores))


def run_seed(
    make_task: Callable[[], Task[Model]],
    candidates: Candidates,
    chosen: Mapping[str, int],
    seed: int,
    options: Options,
    done: Container[str] = (),
    ways: Sequence[str] = WAYS,
) -> Iterator[Trial]:
    """Yield the trial of every method from one seed, but for methods that are done.

    ``dense`` is trained first in any case, because the others are compared with it, and its table is compressed to
    their bytes in some ``ways``.
    """
    dense: Model | None = None
    for method, setting in chosen.items():
        if method in done and dense is not None:
            continue
        task, model = trained(make_task, candidates[method][setting], method, seed, options.quick)
        dense = model if dense is None else dense
        if method in done:
            continue
        nbytes = [table_bytes(table) for table in tables(model)]
        is_smaller = sum(nbytes) < sum(table_bytes(table) for table in tables(dense))
        is_compressed = is_smaller and not any(isinstance(table, OtherTable) for table in tables(model))
        others = _cut_down_scores(task, dense, model, ways) if is_compressed else {}
        scores = evaluate(task, model, "validation"), evaluate(task, model, "test")
        with torch.no_grad():
            further = task.further(model.eval())
        numbers = sum(map(paper_numbers, tables(model)))
        yield Trial(method, setting, seed, *scores, sum(nbytes), numbers, others, further)


def trained(
    make_task: Callable[[], Task[Model]], recipe: Recipe, method: str, seed: int, quick: bool
) -> tuple[Task[Model], Model]:
    """Return a task and its model, both from this seed."""
    torch.manual_seed(seed)
    task = make_task()
    return task, train(task, recipe, f"{method}, seed {seed}", recipe.quick_epochs if quick else recipe.epochs)


def _cut_down_scores(task: Task[Model], dense: Model, small: Model, ways: Sequence[str]) -> dict[str, float]:
    """Return the scores of the dense model with each of its tables compressed to the bytes of that of a small model."""
    layers = tables(small)
    is_tiered = any(isinstance(layer, edge_embed.TieredEmbedding) for layer in layers)
    ways = [way for way in ways if way != TIERS or is_tiered]  # their search takes long: beside equal bytes, once
    weights = [table.get_parameter("weight").detach().numpy() for table in tables(dense)]
    given = zip(weights, counts(task, weights), map(table_bytes, layers), strict=True)
    found = [cut_down(*each, ways) for each in given]
    scores = {}
    for way in ways:
        if all(way in rows for rows in found):
            model = copy.deepcopy(dense)
            for table, rows in zip(tables(model), found, strict=True):
                replace_rows(table, rows[way])
            scores[way] = evaluate(task, model, "test")
    return scores


def counts(task: Task[Model], weights: Sequence[Rows]) -> list[NDArray[np.int64]]:
    """Return the frequency of each row in the training data, [rows] for each table."""
    looked_up = zip(*(task.ids(batch) for batch in task.batches()), strict=True)
    flat = [torch.cat([ids.flatten() for ids in batches]) for batches in looked_up]
    return [torch.bincount(ids, minlength=len(rows)).numpy() for ids, rows in zip(flat, weights, strict=True)]
