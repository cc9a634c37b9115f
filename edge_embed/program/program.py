"""`Program`: a model as a graph of allowed operators over named weights, ready to run, lower and export."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn

from edge_embed.errors import BadInputError


class ProgramModule(nn.Module):
    """Runs a graph by interpretation: unlike ``fx.GraphModule`` it generates and compiles no code.

    Weights keep the names they have in the user's model; ``graph`` reads them by ``get_attr``.
    """

    def __init__(self, graph: fx.Graph, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.graph = graph
        for name, tensor in weights.items():
            self.add_weight(name, tensor)

    def add_weight(self, name: str, tensor: Tensor) -> None:
        """Register ``tensor`` under a dotted name, with a plain module for every part of the path."""
        *path, leaf = name.split(".")
        owner: nn.Module = self
        for part in path:
            if not part.isidentifier() and not part.isdigit():
                raise BadInputError(f"{name!r} is no name of a weight")
            if part not in owner._modules:
                owner.add_module(part, nn.Module())
            owner = owner.get_submodule(part)
        owner.register_buffer(leaf, tensor)

    def weight(self, name: str) -> Tensor:
        """The tensor registered under a dotted name."""
        return self.get_buffer(name)

    def forward(self, *inputs: Any) -> Any:
        """The outputs of the graph, flat, in order."""
        return fx.Interpreter(self, graph=self.graph).run(*inputs)


@dataclass(frozen=True)
class ProgramInput:
    """One input tensor: a dimension is its size, or the name of a dynamic dimension."""

    name: str
    dtype: torch.dtype
    shape: tuple[int | str, ...]

    @property
    def holds_integers(self) -> bool:
        """Whether ids may come in here."""
        return not self.dtype.is_floating_point and self.dtype != torch.bool


@dataclass
class Program:
    """A model read back from a file, or captured.

    Attributes:
        module: the graph with its weights.
        inputs: name, dtype and shape of every input.
        output_names: names of the flat outputs.
        example_inputs: one tensor per input.
        vocabulary: the token of every id, if the model carries them.
        metadata: the user's own strings (task, tokenizer, licence, ...).
        release: gives memory-mapped pages back to the system while a large weight is streamed.
    """

    module: ProgramModule
    inputs: tuple[ProgramInput, ...]
    output_names: tuple[str, ...]
    example_inputs: tuple[Tensor, ...]
    vocabulary: Sequence[str] | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    release: Callable[[], None] = lambda: None

    @torch.no_grad()
    def run(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Outputs of the training form in eval mode."""
        return tuple(self.module(*inputs))


def dimension_names(name: str, position: int, taken: Mapping[str, object]) -> str:
    """A readable name for dynamic dimension ``position`` of input ``name`` that is not yet ``taken``."""
    common = ("batch", "sequence")
    wanted = common[position] if position < len(common) else f"{name}_dim{position}"
    return wanted if wanted not in taken else f"{name}_{wanted}"
