"""Trials of a task with each table from several seeds; only validation data chooses settings.

Trials of the same seed have the same split into training and validation data and the same random state up to the table.
Differences are therefore taken within a seed.
"""

import copy
import ctypes
import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import process_time

import numpy as np
import torch
from baselines import TIERS, WAYS, Rows, cut_down, replace_rows
from candidates import Candidates
from numpy.typing import NDArray
from options import Options
from tables import table_bytes, tables
from training import Model, Recipe, Task, evaluate, optimizer_of, step, train

import edge_embed

TUNING_SEED = 1000  # of runs that choose between settings, and of no others
_COST_ROUNDS, _QUICK_COST_ROUNDS = 40, 3
_STEPS = 5
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


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
        cut_down: metric of the dense model of this seed, compressed afterwards to as many bytes, by baseline.
        further: other figures of the test part, by name.
    """

    method: str
    setting: int
    seed: int
    validation: float
    test: float
    table_bytes: int
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
) -> Iterator[Trial]:
    """Yield the trial of every method from one seed, but for methods that are done.

    ``dense`` is trained first in any case, because the others are compared with it.
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
        others = _cut_down_scores(task, dense, model) if is_smaller else {}
        scores = evaluate(task, model, "validation"), evaluate(task, model, "test")
        with torch.no_grad():
            further = task.further(model.eval())
        yield Trial(method, setting, seed, *scores, sum(nbytes), others, further)


def trained(
    make_task: Callable[[], Task[Model]], recipe: Recipe, method: str, seed: int, quick: bool
) -> tuple[Task[Model], Model]:
    """Return a task and its model, both from this seed."""
    torch.manual_seed(seed)
    task = make_task()
    return task, train(task, recipe, f"{method}, seed {seed}", recipe.quick_epochs if quick else recipe.epochs)


def _cut_down_scores(task: Task[Model], dense: Model, small: Model) -> dict[str, float]:
    """Return the scores of the dense model with each of its tables compressed to the bytes of that of a small model."""
    layers = tables(small)
    is_tiered = any(isinstance(layer, edge_embed.TieredEmbedding) for layer in layers)
    ways = [way for way in WAYS if way != TIERS or is_tiered]  # their search takes long: beside equal bytes, once
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


def step_costs(task: Task[Model], recipes: Mapping[str, Recipe], quick: bool) -> dict[str, list[float]]:
    """Return the processor time of training steps relative to ``dense``, by method: one ratio for each round."""
    _keep_freed_memory()
    random, batches = np.random.default_rng(0), list(task.batches())
    models = {method: recipe.model_of(task).train() for method, recipe in recipes.items()}
    optimizers = {method: optimizer_of(model, task.rate, recipes[method]) for method, model in models.items()}
    rounds: list[dict[str, float]] = []
    for _ in range(_QUICK_COST_ROUNDS if quick else _COST_ROUNDS):
        some = random.choice(len(batches), min(_STEPS, len(batches)), replace=False)  # of an epoch: sizes differ
        rounds.append({})
        for method in random.permutation(list(models)):
            begin = process_time()
            for number in some:
                step(task, models[method], optimizers[method], batches[number])
            rounds[-1][method] = process_time() - begin
    return {method: [times[method] / times["dense"] for times in rounds[1:]] for method in models}


def _keep_freed_memory() -> None:
    """Keep freed memory in the process: otherwise chance decides which steps wait for the system to provide memory."""
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc only
        if mallopt is not None:
            mallopt(_M_MMAP_THRESHOLD, 32 << 20)
            mallopt(_M_TRIM_THRESHOLD, 1 << 30)
