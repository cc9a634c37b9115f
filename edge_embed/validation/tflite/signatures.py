"""The sizes that a TFLite file with fixed sizes can run: those of its signatures."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.inspection.report import PortInfo
from edge_embed.inspection.tflite_file import TfliteModel
from edge_embed.program.program import Program, Sizes
from edge_embed.validation.model_inputs import ModelCase


def fixed_sizes(program: Program, model: TfliteModel) -> list[Sizes]:
    """Return the sizes of a program's dynamic dimensions in each signature of a file; empty if the file's are dynamic.

    Raises:
        BadInputError: the inputs of the file are not those of the program.
    """
    return [found for ports in model.signatures.values() if (found := _sizes(program, ports))]


def narrowed(case: ModelCase, program: Program, ports: Sequence[PortInfo]) -> ModelCase:
    """Convert integer outputs of a case to the types of the file, because a converted model computes int32."""
    narrow = {port.name for port in ports if port.dtype == "int32"}
    outputs = tuple(
        value.int() if name in narrow and isinstance(value, Tensor) and not value.is_floating_point() else value
        for name, value in zip(program.output_names, case.outputs, strict=True)
    )
    return replace(case, outputs=outputs)


def _sizes(program: Program, ports: tuple[PortInfo, ...]) -> Sizes:
    got = {port.name: port.shape or [] for port in ports}
    expected = {declared.name: declared.shape for declared in program.inputs}
    sizes: dict[str, int] = {}
    if got.keys() != expected.keys() or any(len(got[name]) != len(shape) for name, shape in expected.items()):
        raise BadInputError(f"got a file with inputs {got}, expected {expected} of the model: export again")
    for name, shape in expected.items():
        for dimension, size in zip(shape, got[name], strict=True):
            if isinstance(dimension, str) and isinstance(size, int):
                sizes[dimension] = size
    return sizes
