"""Sparse activations as opaque operators, which capture records in place of their arithmetic.

    edge_embed::sparsemax, entmax15 (scores)    alpha_entmax (scores, alpha)    topk_sparsemax (scores, k)

They compute along the last dimension, at least in float32, and return the dtype of the scores. Only programs of this
package have them: ``torch.export`` by itself records the arithmetic, which other tools can read.

Shapes: scores [*, n], alpha [*, 1] that broadcasts to the rows, probabilities [*, n].
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

_is_active: ContextVar[bool] = ContextVar("opaque_entmax", default=False)


@contextmanager
def opaque_entmax() -> Iterator[None]:
    """Record sparse activations as opaque operators while this context is active."""
    token = _is_active.set(True)
    try:
        yield
    finally:
        _is_active.reset(token)


def is_opaque() -> bool:
    """Return whether sparse activations are being recorded as opaque operators."""
    return torch.compiler.is_exporting() and _is_active.get()  # torch.compile cannot trace a look at the second


def define(
    name: str,
    arguments: str,
    probabilities: Callable[..., Tensor],
    gradients: Callable[..., tuple[Tensor, Tensor | None]],
) -> Any:
    """Register ``edge_embed::<name>``.

    Args:
        name: name of the operator.
        arguments: schema of the arguments after the scores, such as ``", int k"``.
        probabilities: (scores of float32 or float64, *arguments) -> probabilities in new memory.
        gradients: (probabilities, their gradient, *arguments) -> gradients of the scores and of a tensor after them.
    """

    def compute(scores: Tensor, *others: Any) -> Tensor:
        if scores.numel() == 0:
            return scores.clone()
        wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return probabilities(wide, *others).to(scores.dtype)

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        tensors = [value for value in inputs[1:] if isinstance(value, Tensor)]
        ctx.save_for_backward(output, *tensors)
        ctx.others = [None if isinstance(value, Tensor) else value for value in inputs[1:]]

    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        output, *tensors = ctx.saved_tensors
        kept = iter(tensors)
        others = [next(kept) if value is None else value for value in ctx.others]
        wide = torch.promote_types(output.dtype, torch.float32)
        of_scores, of_tensor = gradients(output.to(wide), gradient.to(wide), *others)
        return of_scores.to(output.dtype), *([of_tensor] if others else [])

    schema = f"(Tensor scores{arguments}) -> Tensor"
    operator = torch.library.custom_op(f"edge_embed::{name}", compute, mutates_args=(), schema=schema)
    operator.register_fake(lambda scores, *others: scores.new_empty(scores.shape))
    operator.register_autograd(backward, setup_context=keep)
    return getattr(torch.ops.edge_embed, name).default
