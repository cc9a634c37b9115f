"""Dense tables to compress: tables of a model, or random ones whose rows form clusters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.fitting.dense_table import table_size
from edge_embed.fitting.found_table import chosen
from edge_embed.lowering.dense_tables import program_tables
from edge_embed.program.program import Program

_ROWS_A_CENTRE, _NOISE = 100, 0.3
CLUSTERED = (
    f"Tables: one centre per {_ROWS_A_CENTRE} rows, with numbers from N(0, 1); each row is a uniformly drawn centre "
    f"plus {_NOISE} N(0, 1) in every column"
)


@dataclass(frozen=True)
class DenseSubject:
    """Dense table to compress.

    Attributes:
        name: name in reports.
        shape: n and d.
        make: makes its numbers, float32 [n, d], when they are needed.
    """

    name: str
    shape: tuple[int, int]
    make: Callable[[], NDArray[np.float32]]


def subjects_of(program: Program, names: Sequence[str] = ()) -> list[DenseSubject]:
    """Return the tables of a model that `compress` would compress.

    Args:
        program: the model.
        names: names of tables; by default all with at least a twentieth of the model's numbers.

    Raises:
        BadInputError: if there is none, or no table of a name.
    """
    wanted = [table for table in chosen(program_tables(program, names), names, program.numbers) if not table.reason]
    return [DenseSubject(table.name, table_size(table.weight), partial(_float32, table.weight)) for table in wanted]


def _float32(weight: Tensor) -> NDArray[np.float32]:
    numbers: NDArray[np.float32] = weight.detach().float().contiguous().numpy()
    return numbers


def random_subject(seed: int, n: int, dim: int) -> DenseSubject:
    """Return a table [n, d] whose rows form clusters, as rows of words do."""
    return DenseSubject("clustered", (n, dim), partial(_clustered, seed, n, dim))


def _clustered(seed: int, n: int, dim: int) -> NDArray[np.float32]:
    random = np.random.default_rng(seed)
    centres = random.standard_normal((-(-n // _ROWS_A_CENTRE), dim), np.float32)
    noise = random.standard_normal((n, dim), np.float32)
    return centres[random.integers(len(centres), size=n)] + np.float32(_NOISE) * noise
