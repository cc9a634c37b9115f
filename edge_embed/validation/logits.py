"""Output layers: products of hidden states with every row."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from onnx import NodeProto, helper

from edge_embed.packed.logits import logits
from edge_embed.packed.packed_form import Use
from edge_embed.validation.ids import Distribution
from edge_embed.validation.table_call import Case, Expected, Feeds, TableCall

_HIDDEN = 6


class LogitsCall(TableCall):
    """Logits of an output layer: hidden [*, d] -> logits [*, n]."""

    use: ClassVar[Use] = "logits"
    inputs: ClassVar[tuple[str, ...]] = ("hidden",)
    dense = "dense MatMul"
    batches: ClassVar[Mapping[int, int]] = {1: 4, 64: 1}
    distributions: ClassVar[tuple[Distribution, ...]] = ("uniform",)

    @property
    def signatures(self) -> dict[np.dtype[Any], dict[str, Any]]:
        """Return the input types: float32 hidden states, and hidden states in the type of the table."""
        return {np.dtype(kind): {"hidden": kind} for kind in (np.float32, self.table.row_type)}

    def cases(self, random: np.random.Generator) -> list[Case]:
        """Return sequences of hidden states, one state and no state."""
        d = self.table.packed.embedding_dim
        shapes = {"sequences of hidden states": (2, _HIDDEN // 2, d), "one hidden state": (d,), "none": (0, d)}
        return [
            Case(f"{name} ({kind})", {"hidden": random.normal(size=shape).astype(kind)})
            for kind in self.signatures
            for name, shape in shapes.items()
        ]

    def refused(self) -> list[Case]:
        """Return states of another width."""
        wide = np.ones((2, self.table.packed.embedding_dim + 1), np.float32)
        return [Case("hidden states one column too wide", {"hidden": wide})]

    def expected(self, case: Case) -> Expected:
        """Multiply with the rows of the packed form; a path may round computed rows to their own type."""
        rounded = None if self.table.method.exact else self.table.row_type
        packed = self.table.packed
        return Expected(*logits(packed, case.feeds["hidden"]), max(packed.embedding_dim, self.row_terms), rounded)

    def arguments(self, feeds: Feeds) -> tuple[Any, ...]:
        """Return the hidden states."""
        return (torch.from_numpy(feeds["hidden"]),)

    def result_type(self, first: np.dtype[Any]) -> np.dtype[Any]:
        """Return the type of the hidden states."""
        return first

    def place(self, case: Case, shape: tuple[int, ...], index: int) -> str:
        """Return hidden state and row in words."""
        position, row = divmod(index, shape[-1])
        return f"hidden state {position}, row {row}"

    def dense_nodes(self) -> list[NodeProto]:
        """Return one MatMul; the runtime transposes the table when it loads it."""
        return [
            helper.make_node("Transpose", ["table"], ["columns"], perm=[1, 0]),
            helper.make_node("MatMul", ["hidden", "columns"], ["result"]),
        ]

    def all_rows(self, random: np.random.Generator) -> Iterator[Feeds]:
        """Yield one call, because any call reads every row."""
        yield self.timed(random, "uniform", 1)

    def timed(self, random: np.random.Generator, distribution: Distribution, batch: int) -> Feeds:
        """Draw ``batch`` hidden states."""
        return {"hidden": random.normal(size=(batch, self.table.packed.embedding_dim)).astype(np.float32)}
