"""The sizes that a converted model has: a signature for each combination of those that are wanted."""

from collections.abc import Mapping, Sequence
from itertools import product

from edge_embed.errors import BadInputError
from edge_embed.exporters.tflite.graph import ONLY_SIGNATURE
from edge_embed.program.program import Program, Sizes


def choose_signatures(program: Program, wanted: Mapping[str, Sequence[int]]) -> dict[str, Sizes]:
    """Sizes of all dynamic dimensions, by names such as ``sequence_64``.

    Args:
        program: what is not wanted has the size of its example.
        wanted: sizes by name of the dimension.

    Raises:
        BadInputError: if there is no such dimension, or a size is below 1.
    """
    example = program.dynamic_sizes(program.example_inputs)
    _check(wanted, example)
    sizes = {name: list(dict.fromkeys(wanted.get(name, (max(size, 1),)))) for name, size in example.items()}
    varied = [name for name, several in sizes.items() if len(several) > 1]
    signatures: dict[str, Sizes] = {}
    for combination in product(*sizes.values()):
        chosen = dict(zip(sizes, combination, strict=True))
        signatures["_".join(f"{name}_{chosen[name]}" for name in varied) or ONLY_SIGNATURE] = chosen
    return signatures


def _check(wanted: Mapping[str, Sequence[int]], dynamic: Sizes) -> None:
    for name, several in wanted.items():
        if name not in dynamic:
            expected = f"one of {', '.join(dynamic)}" if dynamic else "none, for all dimensions are fixed"
            raise BadInputError(f"tflite_sizes: got the dimension {name!r:.80}, expected {expected}")
        if not several or min(several) < 1:
            raise BadInputError(f"tflite_sizes: got {list(several)} for {name}, expected sizes of at least 1")
