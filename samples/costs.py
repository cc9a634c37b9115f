"""Time and memory of a training step, by method, relative to a dense table or in bytes."""

import ctypes
import sys
from collections.abc import Iterator, Mapping
from time import process_time

import numpy as np
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from training import Batch, Model, Recipe, Task, optimizer_of, step

from edge_embed.layers.regularization import regularization_loss

_ROUNDS, _QUICK_ROUNDS = 40, 3
_STEPS = 5
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def step_costs(task: Task[Model], recipes: Mapping[str, Recipe], quick: bool) -> dict[str, list[float]]:
    """Return the processor time of training steps relative to ``dense``, by method: one ratio for each round."""
    _keep_freed_memory()
    random, batches = np.random.default_rng(0), list(task.batches())
    models = {method: recipe.model_of(task).train() for method, recipe in recipes.items()}
    optimizers = {method: optimizer_of(model, task.rate, recipes[method]) for method, model in models.items()}
    rounds: list[dict[str, float]] = []
    for _ in range(_QUICK_ROUNDS if quick else _ROUNDS):
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


def step_memory(task: Task[Model], recipes: Mapping[str, Recipe]) -> dict[str, int]:
    """Return the bytes of a training step, by method, for the largest batch of an epoch.

    They are those of the whole model: parameters, buffers, gradients, the state of the optimiser, and the tensors that
    the forward pass keeps for the backward pass. Temporary tensors within an operator are not counted.
    """
    largest = max(task.batches(), key=lambda batch: sum(column.numel() for column in batch))
    return {method: _memory(task, recipe, largest) for method, recipe in recipes.items()}


def _memory(task: Task[Model], recipe: Recipe, batch: Batch) -> int:
    model = recipe.model_of(task).train()
    optimizer = optimizer_of(model, task.rate, recipe)
    step(task, model, optimizer, batch)  # gradients and the optimiser's state exist from here on
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = task.loss(model, batch) + regularization_loss(model)
    assert loss.requires_grad  # and so keeps its tensors until here
    return _bytes([*kept, *_state(model), *_tensors(optimizer.state)])


def _state(model: nn.Module) -> Iterator[Tensor]:
    """Yield parameters, buffers and gradients."""
    yield from model.buffers()
    for parameter in model.parameters():
        yield parameter
        if parameter.grad is not None:
            yield parameter.grad


def _tensors(state: object) -> Iterator[Tensor]:
    """Yield the tensors in nested dicts."""
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, Mapping):
        for part in state.values():
            yield from _tensors(part)


def _bytes(tensors: list[Tensor]) -> int:
    """Return the bytes of tensors, each memory once."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())
