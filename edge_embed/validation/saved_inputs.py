"""Inputs of a validation in a file, to run the same ones again: here, elsewhere, or with another program.

An ``.npz`` archive of numpy without pickled objects: ``0/ids`` is input ``ids`` of case 0; ``names`` are the cases in
words, ``seed`` is the seed that they were drawn with.
"""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edge_embed.errors import BadInputError, one_line
from edge_embed.files import new_file
from edge_embed.program.program import Program, array
from edge_embed.validation.model_inputs import ModelCase, run_case

_LARGEST = 1000  # cases; a file of another program must not keep us busy


def save_inputs(path: Path, program: Program, cases: Sequence[ModelCase], seed: int, *, force: bool = False) -> None:
    """Write the inputs of all cases.

    Raises:
        BadInputError: if the file exists and ``force`` is false.
        OutputError: if it cannot be written; nothing partial is left.
    """
    arrays = {
        f"{number}/{name}": value for number, case in enumerate(cases) for name, value in case.feeds(program).items()
    }
    with new_file(path, force=force) as temporary, temporary.open("wb") as file:
        np.savez_compressed(
            file, allow_pickle=False, names=np.array([case.name for case in cases]), seed=np.array(seed), **arrays
        )


def load_inputs(path: Path, program: Program) -> list[ModelCase]:
    """Read inputs, and run the training form on them.

    Raises:
        BadInputError: if the file is missing or damaged, or its inputs do not fit the model.
    """
    if not zipfile.is_zipfile(path):
        raise BadInputError(f"{path}: is no .npz archive, or not there: expected a file of --save-inputs")
    try:
        with np.load(path, allow_pickle=False) as archive:
            names = [str(name) for name in archive["names"].reshape(-1)[:_LARGEST]]
            found = [
                {declared.name: archive[f"{number}/{declared.name}"] for declared in program.inputs}
                for number in range(len(names))
            ]
    except Exception as error:  # numpy, zipfile and zlib each have their own
        raise BadInputError(
            f"{path}: cannot be read as inputs of this model ({one_line(error)}): expected a file of --save-inputs, "
            f"with the inputs {', '.join(declared.name for declared in program.inputs)}"
        ) from error
    if not names:
        raise BadInputError(f"{path}: holds no inputs: expected a file of --save-inputs")
    return [_case(program, name, feeds, path) for name, feeds in zip(names, found, strict=True)]


def _case(program: Program, name: str, feeds: dict[str, NDArray[Any]], path: Path) -> ModelCase:
    tensors = []
    for declared in program.inputs:
        value, wanted = feeds[declared.name], array(torch.empty(0, dtype=declared.dtype)).dtype
        if value.dtype != wanted:
            raise BadInputError(f"{path}: {name}: input {declared.name}: got {value.dtype}, expected {wanted}")
        tensors.append(torch.from_numpy(value.copy()).to(declared.dtype))
    try:
        return run_case(program, name, tuple(tensors))
    except Exception as error:  # whatever the model's operators raise
        raise BadInputError(f"{path}: {name}: the model does not run on these inputs: {one_line(error)}") from error
