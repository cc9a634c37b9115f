"""A file as a module: its runtime runs it."""

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
        graph: the uses of its packed tables, for tests of these alone.
        weights: of those.
        names: of the inputs.
        run: the file.
        id_rows: of the inputs that hold ids: rows of the smallest table that they reach.
        texts: to draw inputs of texts from.
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
        super().__init__(graph, {})  # names of tables may be none that a module can have
        self._weights = weights
        self._names, self._run, self.id_rows, self.texts = names, run, id_rows, texts

    def weight(self, name: str) -> Tensor:
        """A tensor of a packed table."""
        return self._weights[name]

    def forward(self, *inputs: Any) -> Any:
        """The outputs of the file: tensors, and arrays of texts.

        Raises:
            ValueError: one of them is not a number, so that nothing can be compared with it.
        """
        outputs = self._run({name: array(value) for name, value in zip(self._names, inputs, strict=True)})
        for number, output in enumerate(outputs):
            if np.issubdtype(output.dtype, np.floating) and np.isnan(output).any():
                raise ValueError(f"its output {number} has numbers that are none (NaN)")
        return tuple(map(_value, outputs))


def _value(output: NDArray[Any]) -> Tensor | NDArray[Any]:
    return as_texts(output) if holds_texts(output) else torch.from_numpy(np.array(output))
