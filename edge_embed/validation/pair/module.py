"""A file as a module: its runtime computes the outputs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx

from edge_embed.program.program import ProgramModule, array
from edge_embed.text_arrays import as_texts, holds_texts
from edge_embed.validation.pair.texts import Texts

Feeds = Mapping[str, NDArray[Any]]
Run = Callable[[Feeds], Sequence[NDArray[Any]]]


class FileModule(ProgramModule):
    """Runs a file in its runtime.

    Args:
        graph: the uses of its packed tables, for tests of the tables alone.
        weights: tensors of the packed tables.
        names: names of the inputs.
        run: function that runs the file.
        id_rows: rows of the smallest table that an input reaches, for inputs that hold ids.
        texts: the texts to draw inputs from.
    """

    def __init__(
        self,
        graph: fx.Graph,
        weights: Mapping[str, Tensor],
        names: Sequence[str],
        run: Run,
        id_rows: Mapping[str, int],
        texts: Texts,
    ) -> None:
        super().__init__(graph, {})  # some names of tables are invalid names in a module
        self._weights = weights
        self._names, self._run, self.id_rows, self.texts = names, run, id_rows, texts

    def weight(self, name: str) -> Tensor:
        """Return a tensor of a packed table."""
        return self._weights[name]

    def forward(self, *inputs: Any) -> Any:
        """Return the outputs of the file: tensors, and arrays of texts.

        Raises:
            ValueError: an output holds a NaN, with which nothing can be compared.
        """
        outputs = self._run({name: array(value) for name, value in zip(self._names, inputs, strict=True)})
        for number, output in enumerate(outputs):
            if np.issubdtype(output.dtype, np.floating) and np.isnan(output).any():
                raise ValueError(f"its output {number} contains NaN")
        return tuple(map(_value, outputs))


def _value(output: NDArray[Any]) -> Tensor | NDArray[Any]:
    return as_texts(output) if holds_texts(output) else torch.from_numpy(np.array(output))
