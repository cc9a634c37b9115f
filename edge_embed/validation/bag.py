"""Bags: the rows of each bag, given by offsets, are reduced to their sum, mean or maximum."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import NodeProto, helper

from edge_embed.packed.bag import bag
from edge_embed.packed.packed_form import Use
from edge_embed.validation import ids as random_ids
from edge_embed.validation.table_call import IDS_AT_ONCE, Case, Expected, Feeds, TableCall

_BAGS, _IDS_A_BAG = 64, 8


class BagCall(TableCall):
    """Bags: ids [N], offsets [B + 1], sample_weights [N] or [0] -> [B, d]."""

    use: ClassVar[Use] = "bag"
    inputs = ("ids", "offsets", "sample_weights")
    dense = "dense Gather and reduce"

    @property
    def mode(self) -> str:
        """Return the mode: ``sum``, ``mean`` or ``max``."""
        return str(self.leading[3])

    @property
    def weighted(self) -> bool:
        """Return whether every id has a weight."""
        return self.leading[2] is not None

    @property
    def name(self) -> str:
        """Return the name with the mode."""
        return f"bag ({'weighted ' if self.weighted else ''}{self.mode})"

    @property
    def signatures(self) -> dict[np.dtype[Any], dict[str, Any]]:
        """Return the input types for int64 and int32 ids."""
        rest = {"offsets": np.int64, "sample_weights": self.table.row_type}
        return {np.dtype(kind): {"ids": kind, **rest} for kind in (np.int64, np.int32)}

    def cases(self, random: np.random.Generator) -> list[Case]:
        """Return bags of random lengths, one bag, empty bags and no bag."""
        count = min(_BAGS * _IDS_A_BAG, 4 * self.ids_at_once)
        lengths = random.multinomial(count, random.dirichlet(np.ones(_BAGS)))
        return [
            self._case("uniform ids, bags of random lengths", random, "uniform", lengths, np.int64),
            self._case("Zipf int32 ids, bags of 8", random, "zipf", np.full(count // 8, 8), np.int32),
            self._case("one bag", random, "uniform", np.array([5]), np.int64),
            self._case("empty bags", random, "uniform", np.array([0, 2, 0]), np.int64),
            self._case("no bag", random, "uniform", np.zeros(0, np.int64), np.int64),
        ]

    def _case(
        self, name: str, random: np.random.Generator, kind: random_ids.Distribution, lengths: Any, dtype: Any
    ) -> Case:
        packed = self.table.packed
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        ids = random_ids.draw(random, kind, packed.num_embeddings, (int(offsets[-1]),), dtype)
        if packed.padding_idx is not None:
            ids[::5] = packed.padding_idx  # the padding row does not count
        return Case(name, {"ids": ids, "offsets": offsets, "sample_weights": self._weights(random, ids.size)})

    def _weights(self, random: np.random.Generator, count: int) -> NDArray[Any]:
        return random.normal(size=count if self.weighted else 0).astype(self.table.row_type)

    def wrong_ids(self) -> list[Case]:
        """Return ids outside the table."""
        n = self.table.packed.num_embeddings
        return [self._wrong(f"id {bad}", [0, bad], [0, 1, 2]) for bad in (-1, n, -n, 2**32)]

    def refused(self) -> list[Case]:
        """Return offsets outside the ids."""
        return [
            self._wrong("an offset beyond the ids", [0, 0], [0, 3, 2]),
            self._wrong("offsets that fall", [0, 0], [0, 2, 1, 2]),
            self._wrong("a negative offset", [0, 0], [0, -1, 2]),
        ]

    def _wrong(self, name: str, ids: list[int], offsets: list[int]) -> Case:
        weights = self._weights(np.random.default_rng(0), len(ids))
        return Case(name, {"ids": np.array(ids), "offsets": np.array(offsets), "sample_weights": weights})

    def expected(self, case: Case) -> Expected:
        """Compute the bags with the packed form."""
        feeds = case.feeds
        weights = feeds["sample_weights"] if self.weighted else None
        longest = int(np.diff(feeds["offsets"]).max(initial=0))
        values, magnitudes = bag(self.table.packed, feeds["ids"], feeds["offsets"], self.mode, weights)
        return Expected(values, magnitudes, max(longest, self.row_terms))

    def arguments(self, feeds: Feeds) -> tuple[Any, ...]:
        """Return ids, offsets, weights and mode."""
        ids, offsets, weights = (torch.from_numpy(feeds[name]) for name in self.inputs)
        return ids, offsets, weights if self.weighted else None, self.mode

    def place(self, case: Case, shape: tuple[int, ...], index: int) -> str:
        """Return bag and column in words."""
        position, column = divmod(index, shape[-1])
        return f"bag {position}, {self.table.method.column(self.table.packed, column)}"

    def dense_nodes(self) -> list[NodeProto]:
        """Return a Gather and a reduction over bags of equal length, without weights, which would cost extra time."""
        return dense_bag_nodes(self.mode, self.table.packed.embedding_dim)

    def all_rows(self, random: np.random.Generator) -> Iterator[Feeds]:
        """Yield all ids in order, each block as one bag."""
        n = self.table.packed.num_embeddings
        for start in range(0, n, IDS_AT_ONCE):
            ids = np.arange(start, min(start + IDS_AT_ONCE, n))
            offsets = np.array([0, ids.size])
            yield {"ids": ids, "offsets": offsets, "sample_weights": self._weights(random, ids.size)}

    def timed(self, random: np.random.Generator, distribution: random_ids.Distribution, batch: int) -> Feeds:
        """Draw ``batch`` ids in bags of 8, or in one bag if there are fewer."""
        bags = max(1, batch // _IDS_A_BAG)
        offsets = np.linspace(0, batch, bags + 1, dtype=np.int64)
        ids = random_ids.draw(random, distribution, self.table.packed.num_embeddings, (batch,))
        return {"ids": ids, "offsets": offsets, "sample_weights": self._weights(random, batch)}


def dense_bag_nodes(mode: str, dim: int) -> list[NodeProto]:
    """Return nodes that reduce equal bags: ``ids``, ``offsets`` and float32 ``table`` [n, d] to ``result``."""
    reduce = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}[mode]
    return [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Shape", ["offsets"], ["bounds"]),
        helper.make_node("Constant", [], ["one"], value_ints=[1]),
        helper.make_node("Constant", [], ["rest"], value_ints=[-1, dim]),
        helper.make_node("Sub", ["bounds", "one"], ["bags"]),
        helper.make_node("Concat", ["bags", "rest"], ["by_bag_shape"], axis=0),
        helper.make_node("Reshape", ["rows", "by_bag_shape"], ["by_bag"]),
        helper.make_node(reduce, ["by_bag", "one"], ["result"], keepdims=0),
    ]
