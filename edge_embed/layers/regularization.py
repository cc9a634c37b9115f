"""The loss from which centroids of DPQ-VQ learn, for the training passes since it was last taken.

    L_reg    = mean((V_j[c_j] - sg(q_j))^2)      moves each centroid to the mean of the queries that chose it
    L_commit = mean((sg(V_j[c_j]) - q_j)^2)      keeps queries near their centroids
    loss     = weight (L_reg + commitment L_commit)

Source: "Learning Compact Embedding Layers via Differentiable Product Quantization" (ICLR 2020 submission), sec. 2.3,
which prints a sum where the authors' released code has a mean; commitment (beta) is that of van den Oord, Vinyals and
Kavukcuoglu, "Neural Discrete Representation Learning" (2017), eq. (3), and 0 in both.

It is a loss of the model and no gradient that the layer adds by itself: a layer cannot know by what the loss is
multiplied, as ``torch.amp.GradScaler`` and gradient accumulation do.
"""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.layers.dpq_options import Variant
from edge_embed.layers.moving_centroids import MovingCentroids
from edge_embed.layers.table import CompressedEmbedding, is_number, is_recomputed, is_transformed
from edge_embed.ops.dpq_straight_through import squared_distance

Reduction = Literal["mean", "sum"]


class TrainingPass(NamedTuple):
    """One use of a table in training.

    Attributes:
        query: [B, d].
        code: the centroid that each sub-vector chose, [D, B].
        counts: how often each query came up, int64 [B]; 0 for the padding row.
        value: the centroids [G, K, s] of this pass, those of ``torch.func.functional_call`` if it was called so.
        version: of the parameters then, by which a later step is told; None under ``torch.compile``, which knows none.
    """

    query: Tensor
    code: Tensor
    counts: Tensor
    value: Tensor
    version: int | None = None


class Centroids(CompressedEmbedding):
    """Base of the layer whose values may be centroids: it keeps the training passes that their loss is of."""

    variant: Variant
    value: Tensor
    query: nn.Parameter
    centroids: MovingCentroids | None
    _passes: tuple[TrainingPass, ...] = ()  # since the loss was last taken
    _commits = False  # whether it was last taken with a commitment, all that moving averages have of it

    def regularization_loss(
        self, weight: float = 1.0, commitment: float = 0.0, reduction: Reduction = "mean"
    ) -> Tensor:
        """The loss from which the centroids of VQ learn (sec. 2.3), of all training passes since it was last taken.

        Add it to the loss of the model before that is scaled or divided: ``loss = loss + layer.regularization_loss()``.
        `edge_embed.layers.regularization.regularization_loss` sums it up over a model.

        Args:
            weight: of the whole.
            commitment: beta, of the term by which queries stay near their centroids; with ``ema_decay`` nothing learns
                from another one. Under ``torch.compile`` such a layer keeps passes from the second step on.
            reduction: ``"mean"`` over the numbers of each pass, as in the authors' code, or ``"sum"``, as the paper
                prints it.

        Returns:
            Of rank 0, float32 or wider; 0 for SX, and for a layer that is frozen or in eval mode.

        Raises:
            BadInputError: for a weight or commitment below 0 or not finite, or another reduction.
        """
        check_options(weight, commitment, reduction)
        passes, self._passes = self._passes, ()
        is_expected = self.variant == "vq" and self.learns and (self.centroids is None or self._commits)
        if not passes and is_expected:
            warnings.warn(
                "regularization_loss: there was no training pass since it was last taken, so nothing learns from it: "
                "take it once in each step, after the forward pass; passes under torch.no_grad, in "
                "reentrant checkpoints, in transforms of torch.func and in copies of nn.DataParallel are not seen",
                stacklevel=2,
            )
        self._commits = commitment > 0
        return loss_of(passes, weight, commitment, reduction, like=self.value)

    def training_logits(self, hidden: Tensor, bias: Tensor | None = None) -> Tensor:
        """Logits as the method trains them: all rows are one step of the moving averages, and one training pass."""
        earlier, self._passes = self._passes, ()
        with nullcontext() if self.centroids is None or is_recomputed() else self.centroids.one_step():
            logits = super().training_logits(hidden, bias)
        parts, self._passes = self._passes, earlier
        if parts:
            codes, counts = [part.code for part in parts], [part.counts for part in parts]
            self._note(TrainingPass(self.query, torch.cat(codes, 1), torch.cat(counts), self.value))
        return logits

    def _note(self, one: TrainingPass, is_part: bool = False) -> None:
        """Keep a pass, or a part of one, and none of a step that the optimiser has finished."""
        if is_part:
            self._passes += (one,)
        elif torch.compiler.is_compiling():
            if self.centroids is None or self._commits:  # else nobody takes them, and they would stay for ever
                self._passes += (one,)
        elif torch.is_grad_enabled() and not is_transformed(one.query, self.value):
            version = sum(parameter._version for parameter in self.parameters())
            self._drop_earlier_steps(version)
            self._passes += (one._replace(version=version),)

    def _drop_earlier_steps(self, version: int) -> None:
        """Keep what came after the last pass of another version: what was compiled has none, and goes with its step."""
        stale = [place for place, one in enumerate(self._passes) if one.version not in (None, version)]
        if not stale:
            return
        self._passes = self._passes[stale[-1] + 1 :]
        if self.centroids is None:
            warnings.warn(
                f"{type(self).__name__}: centroids learn from regularization_loss() alone, and the last step "
                "was without: loss = loss + layer.regularization_loss(), before the loss is scaled",
                stacklevel=3,
            )

    def __getstate__(self) -> dict[str, Any]:
        """Leave passes out of copies and files: they belong to one step."""
        return {name: state for name, state in self.__dict__.items() if name not in ("_passes", "_commits")}


def regularization_loss(
    model: nn.Module, weight: float = 1.0, commitment: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """The sum of `Centroids.regularization_loss` over all layers of a model.

    Args:
        model: any module; without such layers the loss is 0.
        weight: as there, and so are the other two.
        commitment: beta.
        reduction: ``"mean"`` or ``"sum"``.

    Returns:
        Of rank 0.

    Raises:
        BadInputError: as there.
    """
    check_options(weight, commitment, reduction)
    layers = [module for module in model.modules() if isinstance(module, Centroids)]
    losses = [layer.regularization_loss(weight, commitment, reduction) for layer in layers]
    return torch.stack([loss.to(losses[0]) for loss in losses]).sum() if losses else torch.zeros(())


def loss_of(
    passes: Sequence[TrainingPass], weight: float, commitment: float, reduction: Reduction, like: Tensor
) -> Tensor:
    """The loss of training passes, each of which has a mean of its own, on the device and in the type of ``like``.

    Raises:
        BadInputError: for a weight or commitment that is no finite number of at least 0, or another reduction.
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
    """Raise `BadInputError` for options that `loss_of` does not take."""
    for name, number in (("weight", weight), ("commitment", commitment)):
        if not is_number(number) or not 0 <= number <= torch.finfo(torch.float32).max:
            raise BadInputError(f"{name} must be a finite number of at least 0, got {number!r:.80}")
    if reduction not in ("mean", "sum"):
        raise BadInputError(f'reduction must be "mean" or "sum", got {reduction!r:.80}')
