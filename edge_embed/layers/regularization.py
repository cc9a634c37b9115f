"""Regularisation loss that trains the centroids of DPQ-VQ, over the training passes since the last call.

    L_reg    = mean((V_j[c_j] - sg(q_j))^2)      moves each centroid to the mean of the queries that chose it
    L_commit = mean((sg(V_j[c_j]) - q_j)^2)      keeps queries near their centroids
    loss     = weight (L_reg + commitment L_commit)

Source: "Learning Compact Embedding Layers via Differentiable Product Quantization" (ICLR 2020 submission), sec. 2.3.
The paper prints a sum; the authors' released code has a mean. The commitment (beta) is from van den Oord, Vinyals and
Kavukcuoglu, "Neural Discrete Representation Learning" (2017), eq. (3), and is 0 in the paper and in its code.

The term is part of the model's loss, not a gradient that the layer adds by itself: a layer cannot know the factor of
the loss, which ``torch.amp.GradScaler`` and gradient accumulation set.
"""

import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.layers.arguments import is_number
from edge_embed.layers.dpq_options import Variant
from edge_embed.layers.moving_centroids import MovingCentroids
from edge_embed.ops.autograd_state import is_transformed
from edge_embed.ops.dpq_straight_through import squared_distance

Reduction = Literal["mean", "sum"]


class TrainingPass(NamedTuple):
    """One use of a table in training.

    Attributes:
        query: [B, d].
        code: code that each sub-vector chose, [D, B].
        counts: number of occurrences of each query, int64 [B]; 0 for the padding row.
        value: centroids [G, K, s] of this pass; under ``torch.func.functional_call`` those of the call.
        version: version of the parameters, which identifies the step; None under ``torch.compile``, which has no
            versions, and for a layer that trains no parameter.
    """

    query: Tensor
    code: Tensor
    counts: Tensor
    value: Tensor
    version: int | None = None


class Centroids(nn.Module):
    """Base of the layers whose values may be centroids; stores the training passes for their loss."""

    variant: Variant
    value: Tensor
    centroids: MovingCentroids | None
    _passes: tuple[TrainingPass, ...] = ()  # since the last call of regularization_loss
    _commits = False  # whether that call had a commitment: with moving averages only this term trains anything

    @property
    def learns(self) -> bool:
        """Return whether the forward pass is that of training."""
        return self.training

    def regularization_loss(
        self, weight: float = 1.0, commitment: float = 0.0, reduction: Reduction = "mean"
    ) -> Tensor:
        """Return the loss that trains the centroids of VQ (sec. 2.3), over all training passes since the last call.

        Add it to the loss of the model before that is scaled or divided: ``loss = loss + layer.regularization_loss()``.
        `edge_embed.layers.regularization.regularization_loss` sums it over all layers of a model.

        Args:
            weight: factor of the whole term.
            commitment: beta, factor of the term that keeps queries near their centroids. With ``ema_decay`` only this
                term trains anything; under ``torch.compile`` such a layer stores passes from the second step on.
            reduction: ``"mean"`` over the numbers of each pass, as in the authors' code, or ``"sum"``, as the paper
                prints it.

        Returns:
            A scalar, at least float32; 0 for SX and without training passes, as of a frozen layer or in eval mode.

        Raises:
            BadInputError: for a weight or commitment below 0 or not finite, or another reduction.
        """
        check_options(weight, commitment, reduction)
        passes, self._passes = self._passes, ()
        is_expected = self.variant == "vq" and self.learns and (self.value.requires_grad or self._commits)
        if not passes and is_expected:
            warnings.warn(
                "regularization_loss: no training pass was recorded since the last call, so this loss trains nothing. "
                "Call it once per step, after the forward pass. Passes under torch.no_grad, in "
                "reentrant checkpoints, in transforms of torch.func and in copies of nn.DataParallel are not recorded",
                stacklevel=2,
            )
        self._commits = commitment > 0
        return loss_of(passes, weight, commitment, reduction, like=self.value)

    def _note(self, one: TrainingPass, is_part: bool = False) -> None:
        """Store a pass or a part of one, and drop passes of steps that the optimiser has finished."""
        if is_part:
            self._passes += (one,)
        elif torch.compiler.is_compiling():
            if self.centroids is None or self._commits:  # else no loss would ever consume the stored passes
                self._passes += (one,)
        elif torch.is_grad_enabled() and not is_transformed(one.query, self.value):
            if any(parameter.requires_grad for parameter in self.parameters()):
                version = sum(parameter._version for parameter in self.parameters())
                self._drop_earlier_steps(version)
                self._passes += (one._replace(version=version),)
            elif self._commits:  # of a layer without parameters, whose steps cannot be told apart
                self._passes += (one,)

    def _drop_earlier_steps(self, version: int) -> None:
        """Drop passes up to the last one of another version. Compiled passes have no version and go with their step."""
        stale = [place for place, one in enumerate(self._passes) if one.version not in (None, version)]
        if not stale:
            return
        self._passes = self._passes[stale[-1] + 1 :]
        if self.centroids is None:
            warnings.warn(
                f"{type(self).__name__}: only regularization_loss() trains the centroids, and the last step did "
                "not use it. Write loss = loss + layer.regularization_loss() before the loss is scaled",
                stacklevel=3,
            )

    def __getstate__(self) -> dict[str, Any]:
        """Exclude passes from copies and files: they belong to one step."""
        return {name: state for name, state in self.__dict__.items() if name not in ("_passes", "_commits")}


def regularization_loss(
    model: nn.Module, weight: float = 1.0, commitment: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """Return the sum of `Centroids.regularization_loss` over all layers of a model.

    Args:
        model: any module; the loss is 0 without such layers.
        weight: as for `Centroids.regularization_loss`.
        commitment: beta, as there.
        reduction: ``"mean"`` or ``"sum"``, as there.

    Returns:
        A scalar.

    Raises:
        BadInputError: as for `Centroids.regularization_loss`.
    """
    check_options(weight, commitment, reduction)
    layers = [module for module in model.modules() if isinstance(module, Centroids)]
    losses = [layer.regularization_loss(weight, commitment, reduction) for layer in layers]
    return torch.stack([loss.to(losses[0]) for loss in losses]).sum() if losses else torch.zeros(())


def loss_of(
    passes: Sequence[TrainingPass], weight: float, commitment: float, reduction: Reduction, like: Tensor
) -> Tensor:
    """Return the loss of training passes, on the device and in the dtype of ``like``; each pass has its own mean.

    Raises:
        BadInputError: if weight or commitment is not a finite number of at least 0, or for another reduction.
    """
    check_options(weight, commitment, reduction)
    wide = torch.promote_types(like.dtype, torch.float32)
    loss = torch.zeros((), dtype=wide, device=like.device)
    for query, code, counts, value, _ in passes:
        factor: Tensor | float = weight
        if reduction == "mean":
            factor = weight / (query.shape[-1] * counts.sum()).clamp(min=1).to(wide)
        loss = loss + factor * squared_distance(query.detach(), value, code, counts)
        if commitment:
            loss = loss + factor * commitment * squared_distance(query, value.detach(), code, counts)
    return loss


def check_options(weight: float, commitment: float, reduction: str) -> None:
    """Raise `BadInputError` for options that `loss_of` does not support."""
    for name, number in (("weight", weight), ("commitment", commitment)):
        if not is_number(number) or not 0 <= number <= torch.finfo(torch.float32).max:
            raise BadInputError(f"{name} must be a finite number of at least 0, got {number!r:.80}")
    if reduction not in ("mean", "sum"):
        raise BadInputError(f'reduction must be "mean" or "sum", got {reduction!r:.80}')
