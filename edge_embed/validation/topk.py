"""The top-k rows: paths sum in different orders, so rows whose logits are nearly equal may swap places.

Every path must return different ids, with values in descending order and equal values by lowest id. Each value must be
within the margin of its row's logit. No other row may have a logit above the last value by more than its margin.
"""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import NodeProto, helper

from edge_embed.packed.packed_form import Use
from edge_embed.packed.topk import topk
from edge_embed.validation.ids import Distribution
from edge_embed.validation.logits import LogitsCall
from edge_embed.validation.table_call import Case, Expected, Feeds, Results, unlike


class TopKCall(LogitsCall):
    """Top-k of an output layer: hidden [*, d], bias [n] or [0] -> values and ids [*, k]."""

    use: ClassVar[Use] = "topk"
    inputs = ("hidden", "bias")
    dense = "dense MatMul and TopK"

    @property
    def k(self) -> int:
        """Return the number of requested rows."""
        return int(self.leading[2])

    @property
    def biased(self) -> bool:
        """Return whether a bias is added to the logits."""
        return self.leading[1] is not None

    @property
    def name(self) -> str:
        """Return a name with k and the bias, which distinguish calls."""
        return f"top {self.k}{' with bias' if self.biased else ''}"

    def outputs(self, first: np.dtype[Any]) -> dict[str, np.dtype[Any]]:
        """Return the types of values and ids."""
        return {**super().outputs(first), "ids": np.dtype(np.int64)}

    @property
    def signatures(self) -> dict[np.dtype[Any], dict[str, Any]]:
        """Return the input types: hidden states in float32 or in the type of the table, and a bias of the same type."""
        return {kind: {**types, "bias": kind} for kind, types in super().signatures.items()}

    def cases(self, random: np.random.Generator) -> list[Case]:
        """Return the cases of the logits, and one in which every logit is its bias, or zero."""
        zeros = np.zeros((2, self.table.packed.embedding_dim), np.float32)
        cases = [*super().cases(random), Case("hidden states of zeros", {"hidden": zeros})]
        return [replace(case, feeds=self._with_bias(case.feeds, random)) for case in cases]

    def refused(self) -> list[Case]:
        """Return states of another width."""
        random = np.random.default_rng(0)
        return [replace(case, feeds=self._with_bias(case.feeds, random)) for case in super().refused()]

    def _with_bias(self, feeds: Feeds, random: np.random.Generator) -> Feeds:
        count = self.table.packed.num_embeddings if self.biased else 0
        return {**feeds, "bias": random.normal(size=count).astype(feeds["hidden"].dtype)}

    def expected(self, case: Case) -> Expected:
        """Return the logits of all rows, with their bias, which determine the order."""
        logits = super().expected(case)
        if not self.biased:
            return logits
        bias = case.feeds["bias"].astype(np.float64)
        return replace(logits, values=logits.values + bias, magnitudes=logits.magnitudes + np.abs(bias))

    def oracle(self, feeds: Feeds) -> Results:
        """Compute the top-k with the packed form."""
        return topk(self.table.packed, feeds["hidden"], self.k, feeds["bias"] if self.biased else None)

    def arguments(self, feeds: Feeds) -> tuple[Any, ...]:
        """Return hidden states, bias and k."""
        bias = torch.from_numpy(feeds["bias"]) if self.biased else None
        return torch.from_numpy(feeds["hidden"]), bias, self.k

    def difference(self, case: Case, got: Results, expected: Expected) -> str:
        """Return the first hidden state whose rows are not those of its largest logits, in words."""
        values, ids = got
        kind, shape = case.feeds["hidden"].dtype, (*expected.values.shape[:-1], self.k)
        for name, array, wanted in (("values", values, kind), ("ids", ids, np.dtype(np.int64))):
            if problem := unlike(array, shape, wanted):
                return f"{name}: {problem}"
        flat = (array.reshape(-1, array.shape[-1]) for array in (values, ids, expected.values, expected.margins(kind)))
        for state, arrays in enumerate(zip(*flat, strict=True)):
            if problem := _wrong(*arrays):
                return f"hidden state {state}, {problem}"
        return ""

    def dense_nodes(self) -> list[NodeProto]:
        """Return MatMul, Add and TopK; the runtime transposes the table when it loads it."""
        logits = "logits" if self.biased else "scores"
        nodes = [
            helper.make_node("Constant", [], ["k"], value_ints=[self.k]),
            helper.make_node("Transpose", ["table"], ["columns"], perm=[1, 0]),
            helper.make_node("MatMul", ["hidden", "columns"], [logits]),
            helper.make_node("Add", ["logits", "bias"], ["scores"]),
            helper.make_node("TopK", ["scores", "k"], ["result", "ids"]),
        ]
        return [node for node in nodes if self.biased or node.op_type != "Add"]

    def timed(self, random: np.random.Generator, distribution: Distribution, batch: int) -> Feeds:
        """Draw ``batch`` hidden states."""
        return self._with_bias(super().timed(random, distribution, batch), random)


def _wrong(
    values: NDArray[Any], ids: NDArray[np.int64], logits: NDArray[np.float64], margins: NDArray[np.float64]
) -> str:
    """Return the error of values and ids [k] of one hidden state with logits [n], in words, or an empty string."""
    outside = (ids < 0) | (ids >= len(logits))
    if outside.any():
        return f"place {outside.argmax()}: got id {ids[outside.argmax()]}, expected 0 to {len(logits) - 1}"
    found, counts = np.unique(ids, return_counts=True)
    if len(found) < len(ids):
        return f"got row {found[counts.argmax()]} {counts.max()} times, expected different rows"
    in_order = (values[:-1] > values[1:]) | ((values[:-1] == values[1:]) & (ids[:-1] < ids[1:]))
    if not in_order.all():
        first = in_order.argmin()
        pairs = " before ".join(f"{values[at]} (row {ids[at]})" for at in (first, first + 1))
        return f"place {first}: got {pairs}, expected descending values, equal ones by lowest id"
    off = ~(np.abs(values.astype(np.float64) - logits[ids]) <= margins[ids])
    if off.any():
        at = off.argmax()
        return f"place {at}, row {ids[at]}: got {values[at]}, expected {logits[ids[at]]}"
    missed = logits - margins > float(values[-1])
    missed[ids] = False
    if missed.any():
        return f"row {missed.argmax()} is missing: its logit {logits[missed.argmax()]} is above the last, {values[-1]}"
    return ""
