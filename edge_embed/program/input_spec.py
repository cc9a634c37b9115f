"""Inputs as the command line describes them: ``ids:int64[batch,sequence]``, ``x:float32[batch,16]``, ``step:int64[]``.

A number is a fixed size, and a name is a dynamic dimension. The same name always has the same size.
"""

import inspect
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from edge_embed.errors import BadInputError
from edge_embed.program.archive_weights import DTYPES
from edge_embed.program.program import ProgramInput, dtype_name

_PATTERN = re.compile(r"([A-Za-z_]\w*):([a-z]+\d*)\[([^\[\]]*)\]", re.ASCII)
_DTYPES = {dtype_name(dtype): dtype for dtype in DTYPES.values()}
_EXPECTED = "expected name:type[sizes], such as ids:int64[batch,sequence] or x:float32[batch,16]"
_MAX_ELEMENTS = 1 << 28
_SEED = 0
_NO_TABLE_ROWS = 16
# Example sizes of dynamic dimensions: a small batch, then lengths divisible by pooling and convolutions.
_BATCH, _LENGTH_STEP = 2, 4


def parse_input(text: str) -> ProgramInput:
    """Parse one ``--input``.

    Raises:
        BadInputError: if it does not have the form ``name:type[sizes]``.
    """
    found = _PATTERN.fullmatch(text.strip())
    if found is None:
        raise BadInputError(f"--input {text!r:.200}: {_EXPECTED}")
    name, dtype, sizes = found.groups()
    if dtype not in _DTYPES:
        known = ", ".join(_DTYPES)
        raise BadInputError(f"--input {text!r:.200}: unknown type {dtype:.40}, expected one of {known}")
    parts = [part.strip() for part in sizes.split(",")] if sizes.strip() else []
    return ProgramInput(name, _DTYPES[dtype], tuple(_size(text, part) for part in parts))


def _size(text: str, part: str) -> int | str:
    if part.isascii() and part.isdigit() and 0 < len(part) < 10 and int(part) > 0:
        return int(part)
    if part.isascii() and part.isidentifier():
        return part
    raise BadInputError(f"--input {text!r:.200}: {part!r:.40} is neither a positive size nor a name; {_EXPECTED}")


def make_examples(model: nn.Module, specs: Sequence[ProgramInput]) -> dict[str, Tensor]:
    """Return seeded random example inputs by name; ids are above 0 and below the smallest table.

    Raises:
        BadInputError: if ``model.forward`` has no such arguments, or a size is too large for an example.
    """
    _check_names(model, specs)
    sizes = _example_sizes(specs)
    counts = (vars(module).get("num_embeddings") for module in model.modules())
    rows = max(2, min([count for count in counts if isinstance(count, int)], default=_NO_TABLE_ROWS))
    generator = torch.Generator().manual_seed(_SEED)
    examples = {}
    for spec in specs:
        shape = [sizes[size] if isinstance(size, str) else size for size in spec.shape]
        if math.prod(shape) > _MAX_ELEMENTS:
            raise BadInputError(
                f"--input {spec.name}: got {math.prod(shape)} elements, expected at most "
                f"{_MAX_ELEMENTS}: choose smaller sizes"
            )
        examples[spec.name] = _example(spec.dtype, shape, rows, generator)
    return examples


def _example_sizes(specs: Sequence[ProgramInput]) -> dict[str, int]:
    """Return a distinct size for every dynamic dimension, none equal to a fixed size, so that a mix-up shows."""
    fixed = {size for spec in specs for size in spec.shape if isinstance(size, int)}
    free = (
        size for size in itertools.chain([_BATCH], itertools.count(2 * _LENGTH_STEP, _LENGTH_STEP)) if size not in fixed
    )
    names = dict.fromkeys(size for spec in specs for size in spec.shape if isinstance(size, str))
    return dict(zip(names, free, strict=False))


def _example(dtype: torch.dtype, shape: list[int], rows: int, generator: torch.Generator) -> Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.75
    return torch.randint(1, rows, shape, generator=generator).to(dtype)


def dynamic_shapes(specs: Sequence[ProgramInput]) -> dict[str, Any]:
    """Return the named dimensions for ``torch.export``: dynamic, or an error if the model fixes them."""
    return {
        spec.name: {at: Dim.DYNAMIC for at, size in enumerate(spec.shape) if isinstance(size, str)} for spec in specs
    }


def dimension_names(specs: Sequence[ProgramInput]) -> dict[str, Mapping[int, str]]:
    """Return the names of the dynamic dimensions by input and position."""
    return {spec.name: {at: size for at, size in enumerate(spec.shape) if isinstance(size, str)} for spec in specs}


def _check_names(model: nn.Module, specs: Sequence[ProgramInput]) -> None:
    parameters = inspect.signature(model.forward).parameters
    named = [name for name, item in parameters.items() if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)]
    needed = [name for name in named if parameters[name].default is inspect.Parameter.empty]
    given = [spec.name for spec in specs]
    if len(set(given)) < len(given):
        raise BadInputError(f"--input: got a duplicate name in {', '.join(given)}, expected different names")
    if set(given) - set(named) or set(needed) - set(given):
        example = " ".join(f"--input {name}:int64[batch,sequence]" for name in needed or named)
        raise BadInputError(
            f"--input: got {', '.join(given) or 'no inputs'}, expected the arguments of "
            f"{type(model).__name__}.forward: {', '.join(named) or 'none'}. A file of torch.save has no example "
            f"inputs: describe the type and sizes of each, such as {example}"
        )
