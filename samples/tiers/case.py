"""A trained model with tables to compress, the counts of their rows, and figures of the model with other tables."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

Judge = Callable[[nn.Module], Mapping[str, float]]


@dataclass(frozen=True)
class Case:
    """One model and some of its tables.

    Attributes:
        name: name in reports.
        model: the dense model, in eval mode.
        counts: occurrences of the rows of each table in training data, numbers >= 0 [n], by the name of its layer.
        judge: returns figures of a model of these layers by name; methods are compared by the first one.
        higher_is_better: whether a larger first figure is better.
        other_counts: occurrences in texts of another domain, by the name of a layer; empty without any.
        is_trained: whether the model was trained here, so that it differs between seeds.
        example: inputs to save the model with, where another layer takes all rows of a table: it is then compressed as
            a saved model, which shows that layer.
    """

    name: str
    model: nn.Module
    counts: Mapping[str, Tensor]
    judge: Judge
    higher_is_better: bool = False
    other_counts: Mapping[str, Tensor] = field(default_factory=dict)
    is_trained: bool = False
    example: tuple[Tensor, ...] = ()

    @property
    def nbytes(self) -> dict[str, int]:
        """Bytes of each dense table."""
        return {name: weight_of(self.model, name).nbytes for name in self.counts}

    @torch.no_grad()
    def figures(self, rows: Mapping[str, Tensor]) -> dict[str, float]:
        """Return the figures of the model with other rows in its tables: float32 [n, d] by name."""
        model = copy.deepcopy(self.model)
        for name, found in rows.items():
            weight_of(model, name).copy_(found)
        return dict(self.judge(model))


def weight_of(model: nn.Module, name: str) -> Tensor:
    """Return the weight of a layer, [n, d]."""
    return model.get_submodule(name).get_parameter("weight")
