"""Dense tables that are trained, compressed and trained further, each for half of the epochs."""

from dataclasses import replace
from typing import Any

import torch
from tables import tables
from training import Model, Recipe, Task, train
from trials import counts

import edge_embed


def fine_tuned(recipe: Recipe, dense: Recipe, method: str, **sizes: Any) -> Recipe:
    """Return a recipe whose models begin as compressed ones.

    Args:
        recipe: table and settings of the second half; costs of a step are measured with this table.
        dense: recipe of the dense model, which is trained for as many epochs first.
        method: method of `edge_embed.compress`, which sees the frequencies of the rows in training.
        **sizes: its sizes.
    """

    def begin(task: Task[Model], epochs: int) -> Model:
        model = train(task, dense, f"dense before {method}", epochs)
        weights = [table.get_parameter("weight").detach().numpy() for table in tables(model)]
        found = {id(table): rows for table, rows in zip(tables(model), counts(task, weights), strict=True)}
        named = {name: found[id(module)] for name, module in model.named_modules() if id(module) in found}
        given: dict[str, Any] = {name: torch.from_numpy(rows) for name, rows in named.items()}
        wanted: dict[str, Any] = {"modules": list(given), "counts": given, "trainable": True, **sizes}
        small: Any = edge_embed.compress(model, method, **wanted).model
        found_model: Model = small
        return found_model

    return replace(recipe, begin=begin)
