"""Models as programs: saved to a file and read back, like the models of users."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from edge_embed.lowering.graph import LoweredProgram, lower_program
from edge_embed.program.capture import write_archive
from edge_embed.program.program import Program
from edge_embed.program.reader import read_program


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def capture(tmp_path: Path) -> Callable[..., Program]:
    """Return a function from module and example inputs (default: ids of shape (2, 3)) to a program."""
    numbers = itertools.count()

    def run(model: nn.Module, example: object = None) -> Program:
        path = tmp_path / f"model{next(numbers)}.pt"
        with path.open("wb") as file:
            write_archive(model, file, torch.tensor([[1, 2, 3], [4, 5, 0]]) if example is None else example)
        return read_program(path)

    return run


@pytest.fixture
def lower(capture: Callable[..., Program]) -> Callable[..., LoweredProgram]:
    """Return a function from module and example inputs to a lowered program."""
    return lambda model, example=None: lower_program(capture(model, example))
