"""Trains a model, and keeps it as it was after the epoch with the best score on validation data."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, TypeVar

import torch
from comparison import Comparison, Result
from options import Options
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from tables import MakeTable
from torch import Tensor, nn
from torch.optim.lr_scheduler import LinearLR

import edge_embed
from edge_embed.layers.regularization import regularization_loss

Part = Literal["validation", "test"]
Batch = tuple[Tensor, ...]
Model = TypeVar("Model", bound=nn.Module)

# With Adam's own 1e-8 the first threshold would empty every row of ANT's transform that has not come up yet.
_ANT_EPS = 1e-4


@dataclass(frozen=True)
class Recipe:
    """One method: how its table is made and trained.

    Attributes:
        table: makes an embedding layer for a number of rows; a model may need several.
        epochs: passes over the training data.
        quick_epochs: the same for a quick run.
        rate: of the optimiser for the table; the rest of the model has the task's.
        penalty: of ANT's proximal step, which makes the transform sparse; 0 for other methods.
        decay: let all rates fall to zero in a line, a little with every step; else they stay.
    """

    table: MakeTable
    epochs: int
    quick_epochs: int
    rate: float
    penalty: float = 0.0
    decay: bool = False


class Task(ABC, Generic[Model]):
    """What is learned: data, model, loss and score."""

    metric: ClassVar[str]
    higher_is_better: ClassVar[bool] = True
    rate: ClassVar[float] = 3e-3  # of everything but the table

    @abstractmethod
    def model(self, table: MakeTable) -> Model:
        """The model around the embedding layer that ``table`` makes, or several: its attribute ``table``."""

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """The training data once, in random order."""

    @abstractmethod
    def loss(self, model: Model, batch: Batch) -> Tensor:
        """What is minimised, a scalar."""

    @abstractmethod
    def score(self, model: Model, part: Part) -> float:
        """The metric; the model is in eval mode and no gradient is wanted."""

    @abstractmethod
    def example(self) -> Tensor | tuple[Tensor, ...]:
        """Ids as the exported model will get them; its sizes are examples too."""

    def further(self, model: Model) -> Mapping[str, float]:
        """Other figures of the test part, by name, which nothing is chosen by; under the same conditions."""
        return {}

    def ids(self, batch: Batch) -> Sequence[Tensor]:
        """What a batch looks up in each table."""
        return batch[:1]


def compare(task: Task[Model], recipes: Mapping[str, Recipe], options: Options) -> list[Result]:
    """Train, export and validate the model with each table; epochs are chosen on the validation data."""
    comparison = Comparison(options.output, task.example(), options.quick)
    for method, recipe in recipes.items():
        torch.manual_seed(options.seed)
        model = train(task, recipe, method, recipe.quick_epochs if options.quick else recipe.epochs)
        comparison.add(method, model, {task.metric: evaluate(task, model, "test")})
    return comparison.results


def train(task: Task[Model], recipe: Recipe, name: str, epochs: int) -> Model:
    """A trained model in eval mode, of the epoch with the best validation score."""
    model = task.model(recipe.table)
    optimizer = optimizer_of(model, task.rate, recipe)
    steps = epochs * sum(1 for _ in task.batches()) if recipe.decay else 1
    rates = LinearLR(optimizer, 1.0, 0.0 if recipe.decay else 1.0, steps)
    best, kept = -math.inf, model.state_dict()
    with _bar() as bar:
        progress = bar.add_task(name, total=epochs, note="")
        for _ in range(epochs):
            _epoch(task, model, optimizer, rates)
            score = evaluate(task, model, "validation")
            if (rank := score if task.higher_is_better else -score) > best:
                best, kept = rank, copy.deepcopy(model.state_dict())
            bar.update(progress, advance=1, note=f"{task.metric} on validation: {score:.4g}")
    model.load_state_dict(kept)
    return model.eval()


def _epoch(task: Task[Model], model: Model, optimizer: torch.optim.Optimizer, rates: LinearLR) -> None:
    model.train()
    for batch in task.batches():
        step(task, model, optimizer, batch)
        rates.step()


def step(task: Task[Model], model: Model, optimizer: torch.optim.Optimizer, batch: Batch) -> None:
    """One batch of training."""
    optimizer.zero_grad()
    loss = task.loss(model, batch) + regularization_loss(model)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


@torch.no_grad()
def evaluate(task: Task[Model], model: Model, part: Part) -> float:
    """The metric in eval mode."""
    return task.score(model.eval(), part)


def optimizer_of(model: nn.Module, rate: float, recipe: Recipe) -> torch.optim.Optimizer:
    """Adam, at the recipe's rate for the table and at ``rate`` for the rest."""
    table = {id(parameter) for parameter in model.get_submodule("table").parameters()}
    groups = [
        {"params": [p for p in model.parameters() if id(p) in table], "lr": recipe.rate},
        {"params": [p for p in model.parameters() if id(p) not in table], "lr": rate},
    ]
    if not recipe.penalty:
        return torch.optim.Adam(groups)
    return edge_embed.ProximalOptimizer(torch.optim.Adam(groups, eps=_ANT_EPS), model, recipe.penalty)


def _bar() -> Progress:
    columns = TextColumn("{task.description:6}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, TextColumn("{task.fields[note]}"), console=Console(stderr=True))
