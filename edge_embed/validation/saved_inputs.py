"""Inputs of a validation in a file, to run the same inputs again: here, elsewhere, or with another program.

The file is an ``.npz`` archive of numpy without pickled objects: ``0/ids`` is input ``ids`` of case 0, and texts are
arrays of ``str``. ``names``, which is optional, holds the names of the cases; ``seed`` is their random seed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.array_file import ArrayArchive, opened_archive
from edge_embed.errors import BadInputError, one_line
from edge_embed.files import new_file
from edge_embed.program.program import Program, array
from edge_embed.text_arrays import as_texts, without_objects
from edge_embed.validation.model_inputs import ModelCase, run_case

Inputs = tuple[Any, ...]  # a tensor for each input of a program, or an array of texts

_SHOWN = 4  # arrays that a message names
_LARGEST = 1000  # cases; bounds the time for a file of another program


def save_inputs(path: Path, program: Program, cases: Sequence[ModelCase], seed: int, *, force: bool = False) -> None:
    """Write the inputs of all cases.

    Raises:
        BadInputError: the file exists and ``force`` is false.
        OutputError: the file cannot be written; nothing partial is left.
    """
    arrays = {
        f"{number}/{name}": without_objects(value)
        for number, case in enumerate(cases)
        for name, value in case.feeds(program).items()
    }
    with new_file(path, force=force) as temporary, temporary.open("wb") as file:
        np.savez_compressed(
            file, allow_pickle=False, names=np.array([case.name for case in cases]), seed=np.array(seed), **arrays
        )


def load_inputs(path: Path, program: Program) -> list[ModelCase]:
    """Read inputs, and run the training form on them.

    Raises:
        BadInputError: the file is missing or damaged, or its inputs do not fit the model.
    """
    cases = [run_inputs(program, name, inputs, path) for name, inputs in read_inputs(path, program)]
    if not any(array(output).size for case in cases for output in case.outputs):
        raise BadInputError(f"{path}: all outputs are empty on these inputs: give longer inputs")
    return cases


def read_inputs(path: Path, program: Program) -> list[tuple[str, Inputs]]:
    """Read the name and the inputs of each case.

    Raises:
        BadInputError: the file is missing or damaged, or its arrays are not those of the model.
    """
    try:
        with opened_archive(path) as archive:
            names, keys = _names(archive), set(archive.names)
            wanted = [[f"{number}/{declared.name}" for declared in program.inputs] for number in range(len(names))]
            _check_keys(keys, [key for case in wanted for key in case])
            arrays = [[archive.read(key) for key in case] for case in wanted]
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}: expected a file of edge-embed validate --save-inputs") from error
    return [(name, _inputs(program, name, values, path)) for name, values in zip(names, arrays, strict=True)]


def _names(archive: ArrayArchive) -> list[str]:
    """Return a name for each case, from the file, or made from the numbers of its arrays."""
    if "names" in archive.names:
        names = archive.read("names").reshape(-1)
        _check_number(len(names))
        return ["".join(letter if letter.isprintable() else "?" for letter in str(name)) for name in names]
    numbers = {key.partition("/")[0] for key in archive.names if "/" in key}
    _check_number(len(numbers))
    return [f"case {number}" for number in range(len(numbers))]


def _check_number(cases: int) -> None:
    if cases > _LARGEST:
        raise BadInputError(f"got {cases:,} cases, at most {_LARGEST:,} are read, put several examples into each")


def _check_keys(got: set[str], wanted: Sequence[str]) -> None:
    missing, unknown = [key for key in wanted if key not in got], sorted(got - {*wanted} - {"names", "seed"})
    example = wanted[0] if wanted else "0/ids"
    expected = f"an array for each input and case, such as {example}, and a name for each case if it has names"
    if missing or not wanted:
        has = f", but {_listed(unknown)}" if unknown else ""
        raise BadInputError(f"has no array {_listed(missing) or 'of inputs'}{has}: expected {expected}")
    if unknown:
        raise BadInputError(f"array {_listed(unknown)} is not an input of a case: expected {expected}")


def _listed(keys: Sequence[str]) -> str:
    more = len(keys) - _SHOWN
    return ", ".join(f"{key:.80}" for key in keys[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _inputs(program: Program, name: str, values: Sequence[NDArray[Any]], path: Path) -> Inputs:
    inputs: list[Tensor | NDArray[Any]] = []
    for declared, value in zip(program.inputs, values, strict=True):
        given = as_texts(value)
        is_narrow = declared.holds_integers and given.dtype.kind in "iu" and np.can_cast(given.dtype, np.int64)
        if given.dtype != declared.array_type and not is_narrow:
            wanted = "texts (numpy's str)" if declared.holds_texts else declared.array_type
            raise BadInputError(f"{path}: {name}: input {declared.name}: got {value.dtype}, expected {wanted}")
        inputs.append(given if declared.holds_texts else torch.from_numpy(given.copy()).to(declared.dtype))
    return tuple(inputs)


def run_inputs(program: Program, name: str, inputs: Inputs, path: Path) -> ModelCase:
    """Return a case with the outputs of the training form.

    Raises:
        BadInputError: the model fails on its inputs.
    """
    try:
        return run_case(program, name, inputs)
    except Exception as error:  # any exception of the model's operators
        raise BadInputError(f"{path}: {name}: the model fails on these inputs: {one_line(error)}") from error
