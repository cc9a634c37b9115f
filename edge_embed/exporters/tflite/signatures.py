"""The sizes of a converted model: a signature for each combination of the requested sizes."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

import torch
from torch import Tensor

from edge_embed.errors import BadInputError, one_line
from edge_embed.exporters.tflite.graph import ONLY_SIGNATURE
from edge_embed.program.encoder_lengths import PAST_SOURCE
from edge_embed.program.program import Program, Sizes, spelled_sizes
from edge_embed.program.size_sums import summed

_LARGEST = 2**31 - 1  # sizes are 32-bit numbers
_MOST_BYTES = 1 << 28  # of an input, because a model is run at every size


def choose_signatures(program: Program, wanted: Mapping[str, Sequence[int]]) -> dict[str, Sizes]:
    """Return sizes of all dynamic dimensions, by names such as ``sequence_64``.

    Args:
        program: the program, whose example gives the sizes that are not requested.
        wanted: requested sizes, by name of the dimension.

    Raises:
        BadInputError: there is no such dimension, a size is below 1 or beyond the limit of the format, or the program
            does not run at it. Also: the program needs sizes of 0.
    """
    example = program.example_sizes
    if PAST_SOURCE in example:
        raise BadInputError(
            "target tflite: got an encoder-decoder model with keys and values, whose calls have empty inputs, "
            "expected inputs of fixed sizes: read the folder with --no-cache (cache=False)"
        )
    _check(wanted, example)
    sizes = {name: list(dict.fromkeys(wanted.get(name, (max(size, 1),)))) for name, size in example.items()}
    varied = [name for name, several in sizes.items() if len(several) > 1]
    signatures: dict[str, Sizes] = {}
    for combination in product(*sizes.values()):
        chosen = summed(dict(zip(sizes, combination, strict=True)), requested=wanted)
        signatures["_".join(f"{name}_{chosen[name]}" for name in varied) or ONLY_SIGNATURE] = chosen
        _check_run(program, chosen)
    return signatures


def not_at(sizes: Sizes, error: Exception) -> BadInputError:
    """Return the error for a program that does not run at some sizes."""
    return BadInputError(
        f"the model fails at {spelled_sizes(sizes)}: {one_line(error)}; expected sizes that it supports"
    )


def _check_run(program: Program, sizes: Sizes) -> None:
    """Refuse sizes beyond a table that is looked up by position, and sizes that exceed memory.

    Other values than those of the example may be invalid for the model, so its other errors are ignored.
    """
    for declared, example in zip(program.inputs, program.example_inputs, strict=True):
        if (nbytes := prod(declared.sizes(sizes)) * example.itemsize) > _MOST_BYTES:
            got = f"input {declared.name} of {nbytes:,} bytes"
            raise BadInputError(f"tflite_sizes: got {got}, expected at most {_MOST_BYTES:,}: choose smaller sizes")
    try:
        program.run(*map(_tiled, program.example_inputs, (declared.sizes(sizes) for declared in program.inputs)))
    except IndexError as error:
        raise not_at(sizes, error) from error
    except RuntimeError as error:
        if "can't allocate memory" in str(error):
            raise not_at(sizes, error) from error
    except BadInputError:
        return


def _tiled(example: Tensor, shape: Sequence[int]) -> Tensor:
    """Repeat the example to fill a shape."""
    for axis, size in enumerate(shape):
        example = example.index_select(axis, torch.arange(size) % max(1, example.shape[axis]))
    return example


def _check(wanted: Mapping[str, Sequence[int]], dynamic: Sizes) -> None:
    for name, several in wanted.items():
        if name not in dynamic:
            expected = f"one of {', '.join(dynamic)}" if dynamic else "none, because all dimensions are fixed"
            raise BadInputError(f"tflite_sizes: got dimension {name!r:.80}, expected {expected}")
        if not several or min(several) < 1 or max(several) > _LARGEST:
            got = f"tflite_sizes: got {list(several)} for {name}"
            raise BadInputError(f"{got}, expected sizes of 1 to {_LARGEST}, such as sequence=64,128")
