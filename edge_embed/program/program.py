"""`Program`: a model as a graph of allowed operators over named weights, for running, lowering and export."""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx, nn
from torch.export import Dim

from edge_embed.errors import BadInputError
from edge_embed.program.trace_errors import empty_example
from edge_embed.report.results.model_source import NO_FACTS, SourceFacts
from edge_embed.report.results.widened_bfloat16 import Widened
from edge_embed.steps import step
from edge_embed.text_arrays import holds_texts


class ProgramModule(nn.Module):
    """Module that interprets a graph; unlike ``fx.GraphModule`` it generates and compiles no code.

    Weights keep their names in the user's model, even if this class has an attribute of that name. ``graph`` reads them
    by ``get_attr``.
    """

    def __init__(self, graph: fx.Graph, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.graph = graph
        for name, tensor in weights.items():
            self.add_weight(name, tensor)

    def add_weight(self, name: str, tensor: Tensor) -> None:
        """Register ``tensor`` under a dotted name, with a plain module for every part of the path.

        Raises:
            BadInputError: if the name is invalid or taken.
        """
        *path, leaf = name.split(".")
        for part in (*path, leaf):
            if not part or not part.isprintable() or (part.startswith("__") and part.endswith("__")):
                raise BadInputError(f"{name!r:.200} is not a valid name of a weight")
        owner: nn.Module = self
        for part in path:
            if part in owner._buffers:
                raise BadInputError(f"the name of weight {name!r:.200} begins with that of another weight")
            # Written into the tables of nn.Module directly: its own methods refuse "weight", "graph", ...
            owner = owner._modules.setdefault(part, nn.Module())  # type: ignore[assignment]
        if leaf in owner._buffers or leaf in owner._modules:
            raise BadInputError(f"two weights are named {name!r:.200}")
        owner._buffers[leaf] = tensor

    def weight(self, name: str) -> Tensor:
        """Return the tensor registered under a dotted name."""
        *path, leaf = name.split(".")
        owner: Any = self
        for part in path:
            owner = owner._modules[part]
        tensor: Tensor = owner._buffers[leaf]
        return tensor

    def forward(self, *inputs: Any) -> Any:
        """Return the outputs of the graph, flat, in order."""
        return ProgramInterpreter(self).run(*inputs)

    def with_input_names(self, names: Sequence[str]) -> "ProgramModule":
        """Return the module with a ``forward`` that names its arguments: ``torch.export`` keeps these names."""

        def forward(*inputs: Any) -> Any:
            return self.forward(*inputs)

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        forward.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
        named = copy.copy(self)
        named.forward = forward  # type: ignore[method-assign]
        return named


class ProgramInterpreter(fx.Interpreter):
    """Interpreter that reads weights from the module's tables only, never an attribute of the same name."""

    def __init__(self, module: ProgramModule) -> None:
        super().__init__(module, graph=module.graph)

    def fetch_attr(self, target: str) -> Tensor:
        """Return a weight by its dotted name."""
        module: ProgramModule = self.module  # type: ignore[assignment]
        return module.weight(target)


TEXT = torch.bits8  # no tensor of a model has this dtype
Sizes = Mapping[str, int]  # of all dynamic dimensions, by name


def spelled_sizes(sizes: Sizes) -> str:
    """Return text such as ``batch=2, sequence=16``."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


@dataclass(frozen=True)
class ProgramInput:
    """One input: each dimension is a size or the name of a dynamic dimension.

    Texts, which torch has no dtype for, are numpy arrays in place of tensors; their ``dtype`` is `TEXT`.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int | str, ...]

    @property
    def holds_texts(self) -> bool:
        """Return whether the input holds texts."""
        return self.dtype == TEXT

    @property
    def holds_integers(self) -> bool:
        """Return whether the input may hold ids."""
        return not self.dtype.is_floating_point and self.dtype not in (torch.bool, TEXT)

    @property
    def array_type(self) -> np.dtype[Any]:
        """Dtype of the numpy array for runtimes."""
        return np.dtype(object) if self.holds_texts else array(torch.empty(0, dtype=self.dtype)).dtype

    def sizes(self, dynamic: Sizes) -> list[int]:
        """Return its shape for these sizes of the dynamic dimensions."""
        return [size if isinstance(size, int) else dynamic[size] for size in self.shape]

    @property
    def traced(self) -> tuple[Any, ...]:
        """Dimensions in the form of ``torch.export``."""
        return tuple(Dim.AUTO if isinstance(size, str) else Dim.STATIC for size in self.shape)

    def mismatch(self, value: Any) -> str | None:
        """Return why ``value`` does not fit this input, or None if dtype, rank and fixed sizes fit."""
        if type(value) not in ((np.ndarray,) if self.holds_texts else (Tensor, nn.Parameter)):
            return f"a {type(value).__name__}, expected {'texts' if self.holds_texts else 'a tensor'}"
        sizes = list(value.shape)
        fits = len(sizes) == len(self.shape) and all(
            isinstance(wanted, str) or wanted == size for wanted, size in zip(self.shape, sizes, strict=True)
        )
        dtype = TEXT if self.holds_texts and holds_texts(value) else value.dtype
        if dtype != self.dtype or not fits:
            return f"{_spelled(dtype, sizes)}, expected {_spelled(self.dtype, self.shape)}"
        return None


def _spelled(dtype: torch.dtype, shape: Sequence[int | str]) -> str:
    """Return text such as ``int64[batch,16]``, as on the command line."""
    return f"{dtype_name(dtype)}[{','.join(map(str, shape))}]"


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name that numpy and files use, such as ``int64``."""
    return "string" if dtype == TEXT else str(dtype).removeprefix("torch.")


@dataclass
class Program:
    """Model read from a file, or captured.

    Attributes:
        module: graph with its weights.
        inputs: name, dtype and shape of every input.
        output_names: names of the flat outputs.
        example_inputs: one tensor for each input.
        vocabulary: token of every id, if the model has a vocabulary.
        metadata: the user's own strings (task, tokenizer, licence, ...).
        source: file that it was read from, which no export may replace.
        facts: decisions about that file, and its content that is not in the model.
        release: returns memory-mapped pages to the system while a large weight is streamed.
        widened: parts that were bfloat16 and are float32 now.
    """

    module: ProgramModule
    inputs: tuple[ProgramInput, ...]
    output_names: tuple[str, ...]
    example_inputs: tuple[Tensor, ...]
    vocabulary: Sequence[str] | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    source: Path | None = None
    facts: SourceFacts = NO_FACTS
    release: Callable[[], None] = lambda: None
    widened: Widened = field(default_factory=Widened)

    @property
    def numbers(self) -> int:
        """Number of numbers in its weights, without integers."""
        return sum(weight.numel() for weight in self.module.buffers() if weight.is_floating_point())

    @property
    def example_sizes(self) -> dict[str, int]:
        """Sizes of the dynamic dimensions in the example, by name."""
        return self.dynamic_sizes(self.example_inputs)

    def dynamic_sizes(self, inputs: Sequence[Tensor]) -> dict[str, int]:
        """Return the sizes of the dynamic dimensions in some inputs, by name."""
        return {
            name: int(size)
            for declared, value in zip(self.inputs, inputs, strict=True)
            for name, size in zip(declared.shape, value.shape, strict=True)
            if isinstance(name, str)
        }

    @torch.no_grad()
    def run(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs of the training form in eval mode.

        Raises:
            BadInputError: if the inputs do not have the declared dtypes, ranks and fixed sizes.
        """
        if len(inputs) != len(self.inputs):
            raise BadInputError(f"got {len(inputs)} inputs, expected {len(self.inputs)}")
        for declared, value in zip(self.inputs, inputs, strict=True):
            # Ids may have any integer dtype, in the layers as in the exported file.
            ids = isinstance(value, Tensor) and declared.holds_integers and not value.is_floating_point()
            if problem := declared.mismatch(value.to(declared.dtype) if ids else value):
                raise BadInputError(f"input {declared.name}: got {problem}")
        with step("the training form runs"):
            return tuple(self.module(*inputs))

    def check_example(self) -> None:
        """Run the model on its own example inputs.

        Raises:
            BadInputError: if it does not run, for example because of ids out of range.
        """
        try:
            self.run(*self.example_inputs)
        except Exception as error:  # its operators raise anything
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            if empty := empty_example(self.example_inputs):
                reason = f"{reason.rstrip('.')}; {empty}"
            raise BadInputError(f"the model fails on its example inputs: {reason}") from error


def default_dimension_name(name: str, position: int, taken: Mapping[str, object]) -> str:
    """Return a readable, free name for dynamic dimension ``position`` of input ``name``."""
    common = ("batch", "sequence")
    wanted = common[position] if position < len(common) else f"{name}_dim{position}"
    return wanted if wanted not in taken else f"{name}_{wanted}"


def array(tensor: Tensor | NDArray[Any]) -> NDArray[Any]:
    """Return a tensor as numpy array; bfloat16 becomes float32, and texts are arrays already."""
    if isinstance(tensor, np.ndarray):
        return tensor
    result: NDArray[Any] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).detach().numpy()
    return result
