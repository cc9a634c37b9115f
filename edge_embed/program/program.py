"""`Program`: a model as a graph of allowed operators over named weights, ready to run, lower and export."""

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
    """Runs a graph by interpretation: unlike ``fx.GraphModule`` it generates and compiles no code.

    Weights keep the names they have in the user's model, whatever attributes this class has; ``graph``
    reads them by ``get_attr``.
    """

    def __init__(self, graph: fx.Graph, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.graph = graph
        for name, tensor in weights.items():
            self.add_weight(name, tensor)

    def add_weight(self, name: str, tensor: Tensor) -> None:
        """Register ``tensor`` under a dotted name, with a plain module for every part of the path.

        Raises:
            BadInputError: if no model can have that name, or it is taken.
        """
        *path, leaf = name.split(".")
        for part in (*path, leaf):
            if not part or not part.isprintable() or (part.startswith("__") and part.endswith("__")):
                raise BadInputError(f"{name!r:.200} is no name of a weight")
        owner: nn.Module = self
        for part in path:
            if part in owner._buffers:
                raise BadInputError(f"weight {name!r:.200} lies inside another weight")
            # Straight into the tables of nn.Module: its own methods refuse "weight", "graph", ...
            owner = owner._modules.setdefault(part, nn.Module())  # type: ignore[assignment]
        if leaf in owner._buffers or leaf in owner._modules:
            raise BadInputError(f"two weights are named {name!r:.200}")
        owner._buffers[leaf] = tensor

    def weight(self, name: str) -> Tensor:
        """The tensor registered under a dotted name."""
        *path, leaf = name.split(".")
        owner: Any = self
        for part in path:
            owner = owner._modules[part]
        tensor: Tensor = owner._buffers[leaf]
        return tensor

    def forward(self, *inputs: Any) -> Any:
        """The outputs of the graph, flat, in order."""
        return ProgramInterpreter(self).run(*inputs)

    def with_input_names(self, names: Sequence[str]) -> "ProgramModule":
        """The same module, whose ``forward`` says how its arguments are called: ``torch.export`` keeps these names."""

        def forward(*inputs: Any) -> Any:
            return self.forward(*inputs)

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        forward.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
        named = copy.copy(self)
        named.forward = forward  # type: ignore[method-assign]
        return named


class ProgramInterpreter(fx.Interpreter):
    """Takes weights from the module's tables only, never an attribute that has the same name."""

    def __init__(self, module: ProgramModule) -> None:
        super().__init__(module, graph=module.graph)

    def fetch_attr(self, target: str) -> Tensor:
        """A weight by its dotted name."""
        module: ProgramModule = self.module  # type: ignore[assignment]
        return module.weight(target)


TEXT = torch.bits8  # no tensor of a model has this type
Sizes = Mapping[str, int]  # of every dynamic dimension, by name


def spelled_sizes(sizes: Sizes) -> str:
    """``batch=2, sequence=16``."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


@dataclass(frozen=True)
class ProgramInput:
    """One input: a dimension is its size, or the name of a dynamic dimension.

    Texts, which torch has no type for, are arrays of numpy in the place of tensors; their ``dtype`` is `TEXT`.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int | str, ...]

    @property
    def holds_texts(self) -> bool:
        """Whether texts come in here."""
        return self.dtype == TEXT

    @property
    def holds_integers(self) -> bool:
        """Whether ids may come in here."""
        return not self.dtype.is_floating_point and self.dtype not in (torch.bool, TEXT)

    @property
    def array_type(self) -> np.dtype[Any]:
        """As runtimes take it."""
        return np.dtype(object) if self.holds_texts else array(torch.empty(0, dtype=self.dtype)).dtype

    def sizes(self, dynamic: Sizes) -> list[int]:
        """Its shape where the dynamic dimensions have these sizes."""
        return [size if isinstance(size, int) else dynamic[size] for size in self.shape]

    @property
    def traced(self) -> tuple[Any, ...]:
        """Its dimensions, as ``torch.export`` takes them."""
        return tuple(Dim.AUTO if isinstance(size, str) else Dim.STATIC for size in self.shape)

    def mismatch(self, value: Any) -> str | None:
        """What is wrong with ``value`` as this input, or None: its type, rank and fixed sizes must fit."""
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
    """``int64[batch,16]``, as on the command line."""
    return f"{dtype_name(dtype)}[{','.join(map(str, shape))}]"


def dtype_name(dtype: torch.dtype) -> str:
    """``int64``, as numpy and files call it."""
    return "string" if dtype == TEXT else str(dtype).removeprefix("torch.")


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
        source: the file it came from, which no export may replace.
        facts: what was decided about that file, and what of it is not in the model.
        release: gives memory-mapped pages back to the system while a large weight is streamed.
        widened: what was in bfloat16 and is in float32 now.
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
        """How many numbers its weights hold, but for integers."""
        return sum(weight.numel() for weight in self.module.buffers() if weight.is_floating_point())

    @property
    def example_sizes(self) -> dict[str, int]:
        """The dynamic dimensions, by name, with their sizes in the example."""
        return self.dynamic_sizes(self.example_inputs)

    def dynamic_sizes(self, inputs: Sequence[Tensor]) -> dict[str, int]:
        """The dynamic dimensions, by name, with their sizes in some inputs."""
        return {
            name: int(size)
            for declared, value in zip(self.inputs, inputs, strict=True)
            for name, size in zip(declared.shape, value.shape, strict=True)
            if isinstance(name, str)
        }

    @torch.no_grad()
    def run(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Outputs of the training form in eval mode.

        Raises:
            BadInputError: if the inputs do not have the declared types, ranks and fixed sizes.
        """
        if len(inputs) != len(self.inputs):
            raise BadInputError(f"the model has {len(self.inputs)} inputs, got {len(inputs)}")
        for declared, value in zip(self.inputs, inputs, strict=True):
            # Ids of any integer type: the layers take them, and so does the exported file.
            ids = isinstance(value, Tensor) and declared.holds_integers and not value.is_floating_point()
            if problem := declared.mismatch(value.to(declared.dtype) if ids else value):
                raise BadInputError(f"input {declared.name}: got {problem}")
        with step("the training form runs"):
            return tuple(self.module(*inputs))

    def check_example(self) -> None:
        """Run the model on its own example inputs.

        Raises:
            BadInputError: if it does not run, such as on ids out of range.
        """
        try:
            self.run(*self.example_inputs)
        except Exception as error:  # whatever its operators raise
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            if empty := empty_example(self.example_inputs):
                reason = f"{reason.rstrip('.')}; {empty}"
            raise BadInputError(f"the model does not run on its example inputs: {reason}") from error


def default_dimension_name(name: str, position: int, taken: Mapping[str, object]) -> str:
    """A readable name for dynamic dimension ``position`` of input ``name`` that is not yet ``taken``."""
    common = ("batch", "sequence")
    wanted = common[position] if position < len(common) else f"{name}_dim{position}"
    return wanted if wanted not in taken else f"{name}_{wanted}"


def array(tensor: Tensor | NDArray[Any]) -> NDArray[Any]:
    """A tensor for numpy, which has no bfloat16; texts are arrays already."""
    if isinstance(tensor, np.ndarray):
        return tensor
    result: NDArray[Any] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).detach().numpy()
    return result
