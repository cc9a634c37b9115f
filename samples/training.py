"""Training of a model, which keeps the weights of the epoch with the best validation score."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

import torch
from comparison import Comparison, Result
from options import Options
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from tables import MakeTable
from torch import Tensor, nn
from torch.optim.lr_scheduler import LinearLR

import edge_embed
from edge_embed.layers.attention import Activation
from edge_embed.layers.regularization import regularization_loss

Part = Literal["validation", "test"]
Optimizer = Literal["adam", "yogi"]
Batch = tuple[Tensor, ...]
Model = TypeVar("Model", bound=nn.Module)
Observer = Callable[[nn.Module], None]

# With Adam's own 1e-8 the first threshold would empty every row of ANT's transform that has not occurred yet.
_ANT_EPS = 1e-4


@dataclass(frozen=True)
class Recipe:
    """Table and training settings of one method.

    Attributes:
        table: function that makes an embedding layer for a number of rows; a model may need several.
        epochs: passes over the training data.
        quick_epochs: the same for a quick run.
        rate: learning rate of the table; the rest of the model has the task's.
        penalty: penalty of ANT's proximal step, which makes the transform sparse; 0 for other methods.
        anchor_penalty: penalty of an anchor, with which nbANT selects their number; 0 leaves the number as it is.
        weight_decay: penalty of the squares of the table's numbers, half of which is added to the loss.
        decay: whether all rates fall linearly to zero; otherwise they are constant.
        optimizer: ``"yogi"`` is that of the ANT paper; only with a penalty.
        attention: activation of the model's attention, as `edge_embed.use_sparse_attention` takes it.
        begin: function of the task and a number of epochs that returns the model to train, in place of a new one.
    """

    table: MakeTable
    epochs: int
    quick_epochs: int
    rate: float
    penalty: float = 0.0
    decay: bool = False
    attention: Activation = "softmax"
    optimizer: Optimizer = "adam"
    begin: Callable[["Task[Any]", int], Any] | None = None
    anchor_penalty: float = 0.0
    weight_decay: float = 0.0

    def model_of(self, task: "Task[Model]") -> Model:
        """Return the task's model with this table and this attention."""
        model = task.model(self.table)
        if self.attention != "softmax":
            edge_embed.use_sparse_attention(model, self.attention)
        return model


class Task(ABC, Generic[Model]):
    """Training task: data, model, loss and score."""

    metric: ClassVar[str]
    higher_is_better: ClassVar[bool] = True
    rate: ClassVar[float] = 3e-3  # of all parameters outside the table

    @abstractmethod
    def model(self, table: MakeTable) -> Model:
        """Return the model around the embedding layers that ``table`` makes, which are its attribute ``table``."""

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """Yield the training data once, in random order."""

    @abstractmethod
    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Return the loss, a scalar."""

    @abstractmethod
    def score(self, model: Model, part: Part) -> float:
        """Return the metric; the model is in eval mode, without gradients."""

    @abstractmethod
    def example(self) -> Tensor | tuple[Tensor, ...]:
        """Return example ids for the exported model; its sizes are examples too."""

    def further(self, model: Model) -> Mapping[str, float]:
        """Return other figures of the test part by name, under the same conditions; no choice depends on them."""
        return {}

    def ids(self, batch: Batch) -> Sequence[Tensor]:
        """Return the ids that a batch looks up in each table."""
        return batch[:1]


def compare(task: Task[Model], recipes: Mapping[str, Recipe], options: Options) -> list[Result]:
    """Train, export and validate the model with each table; validation data selects the epochs."""
    comparison = Comparison(options.output, task.example(), options.quick)
    for method, recipe in recipes.items():
        torch.manual_seed(options.seed)
        model = train(task, recipe, method, recipe.quick_epochs if options.quick else recipe.epochs)
        comparison.add(method, model, {task.metric: evaluate(task, model, "test")})
    return comparison.results


def train(task: Task[Model], recipe: Recipe, name: str, epochs: int, observe: Observer = lambda model: None) -> Model:
    """Return a trained model in eval mode, of the epoch with the best validation score.

    ``observe`` is called after each step.
    """
    model: Model = recipe.model_of(task) if recipe.begin is None else recipe.begin(task, epochs)
    optimizer = optimizer_of(model, task.rate, recipe)
    steps = epochs * sum(1 for _ in task.batches()) if recipe.decay else 1
    rates = LinearLR(optimizer, 1.0, 0.0 if recipe.decay else 1.0, steps)
    search = _search_of(optimizer, recipe)
    best, kept = -math.inf, model
    with _bar() as bar:
        progress = bar.add_task(name, total=epochs, note="")
        for _ in range(epochs):
            _epoch(task, model, optimizer, rates, observe)
            score = evaluate(task, model, "validation")
            if (rank := score if task.higher_is_better else -score) > best:
                best, kept = rank, copy.deepcopy(model)
            if search is not None:
                search.step(-rank)
            bar.update(progress, advance=1, note=f"{task.metric} on validation: {score:.4g}")
    return kept.eval()


def _epoch(
    task: Task[Model], model: Model, optimizer: torch.optim.Optimizer, rates: LinearLR, observe: Observer
) -> None:
    model.train()
    for batch in task.batches():
        step(task, model, optimizer, batch)
        rates.step()
        observe(model)


def step(task: Task[Model], model: Model, optimizer: torch.optim.Optimizer, batch: Batch) -> None:
    """Train on one batch."""
    optimizer.zero_grad()
    loss = task.loss(model, batch) + regularization_loss(model)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


@torch.no_grad()
def evaluate(task: Task[Model], model: Model, part: Part) -> float:
    """Return the metric in eval mode."""
    return task.score(model.eval(), part)


def optimizer_of(model: nn.Module, rate: float, recipe: Recipe) -> torch.optim.Optimizer:
    """Return Adam with the recipe's rate for the table and ``rate`` for the rest."""
    table, decay = {id(p) for p in model.get_submodule("table").parameters()}, {"weight_decay": recipe.weight_decay}
    groups = [
        {"params": [p for p in model.parameters() if id(p) in table], "lr": recipe.rate, **decay},
        {"params": [p for p in model.parameters() if id(p) not in table], "lr": rate},
    ]
    if not recipe.penalty:
        return torch.optim.Adam(groups)
    optimizer = edge_embed.Yogi(groups) if recipe.optimizer == "yogi" else torch.optim.Adam(groups, eps=_ANT_EPS)
    return edge_embed.ProximalOptimizer(optimizer, model, recipe.penalty)


def _search_of(optimizer: torch.optim.Optimizer, recipe: Recipe) -> edge_embed.AnchorSearch | None:
    """Return nbANT for a recipe that penalises anchors."""
    if not recipe.anchor_penalty:
        return None
    assert isinstance(optimizer, edge_embed.ProximalOptimizer)
    return edge_embed.AnchorSearch(optimizer, recipe.anchor_penalty)


def _bar() -> Progress:
    columns = TextColumn("{task.description:6}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, TextColumn("{task.fields[note]}"), console=Console(stderr=True))
