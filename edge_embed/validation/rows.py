"""The lookup of rows: selected rows are compared bit by bit, summed rows within the condition of the sum."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import NodeProto, helper

from edge_embed.packed.packed_form import Use
from edge_embed.program.program import Program
from edge_embed.validation import ids as random_ids
from edge_embed.validation.table_call import IDS_AT_ONCE, Case, Expected, Feeds, Results, TableCall

_MOST_IDS, _FEWEST_IDS = 4096, 64
_COMPARISONS_IN_ALL = 1 << 26


class RowsCall(TableCall):
    """Lookup of rows: ids [*] -> rows [*, d]."""

    use: ClassVar[Use] = "rows"
    inputs = ("ids",)
    dense = "dense Gather"

    @property
    def signatures(self) -> dict[np.dtype[Any], dict[str, Any]]:
        """Return the input types for int64 and int32 ids."""
        return {np.dtype(kind): {"ids": kind} for kind in (np.int64, np.int32)}

    def cases(self, random: np.random.Generator) -> list[Case]:
        """Return cases of many ids, few ids, one id and none."""
        packed = self.table.packed
        n = packed.num_embeddings
        affordable = _COMPARISONS_IN_ALL // self.table.method.comparisons(packed)
        count = min(max(affordable, _FEWEST_IDS), _MOST_IDS)
        ends = [0, n - 1, n // 2] + ([] if packed.padding_idx is None else [packed.padding_idx])
        return [
            _case("uniform ids", random_ids.draw(random, "uniform", n, (count // 8, 8))),
            _case("Zipf ids", random_ids.draw(random, "zipf", n, (8, count // 8))),
            _case("uniform int32 ids", random_ids.draw(random, "uniform", n, (_FEWEST_IDS,), np.int32)),
            _case("first, last, middle and padding row", np.array(ends, np.int64)),
            _case("an id of rank 0", random_ids.draw(random, "uniform", n, ())),
            _case("an empty batch", np.zeros((0,), np.int64)),
            _case("an empty batch of sequences", np.zeros((0, 3), np.int64)),
        ]

    def wrong_ids(self) -> list[Case]:
        """Return ids outside the table; code that truncates ids to 32 bits would read the last one as row 0."""
        n = self.table.packed.num_embeddings
        return [_case(f"id {wrong}", np.array([0, wrong], np.int64)) for wrong in (-1, n, -n, 2**32)]

    def refused(self) -> list[Case]:
        """Return no case: only ids can be wrong."""
        return []

    def expected(self, case: Case) -> Expected:
        """Compute the rows of the packed form."""
        packed, ids = self.table.packed, case.feeds["ids"]
        if self.table.method.exact:
            return Expected(packed.rows(ids))
        return Expected(packed.rows_float64(ids), packed.magnitudes(ids), self.row_terms)

    def arguments(self, feeds: Feeds) -> tuple[Any, ...]:
        """Return the ids."""
        return (torch.from_numpy(feeds["ids"]),)

    def run_training(self, program: Program, feeds: Feeds) -> Results:
        """Run the training form on blocks of few ids."""
        ids, step = feeds["ids"], self.ids_at_once
        if ids.size <= step:
            return super().run_training(program, feeds)
        flat = ids.reshape(-1)
        blocks = [flat[at : at + step] for at in range(0, ids.size, step)]
        parts = [super(RowsCall, self).run_training(program, {"ids": block})[0] for block in blocks]
        return (np.concatenate(parts).reshape(*ids.shape, -1),)

    def place(self, case: Case, shape: tuple[int, ...], index: int) -> str:
        """Return row and column in words."""
        position, column = divmod(index, shape[-1])
        row = int(case.feeds["ids"].reshape(-1)[position])
        return f"row {row}, {self.table.method.column(self.table.packed, column)}"

    def dense_nodes(self) -> list[NodeProto]:
        """Return one Gather."""
        return [helper.make_node("Gather", ["table", "ids"], ["result"])]

    def all_rows(self, random: np.random.Generator) -> Iterator[Feeds]:
        """Yield all ids in order, in blocks."""
        n = self.table.packed.num_embeddings
        for start in range(0, n, IDS_AT_ONCE):
            yield {"ids": np.arange(start, min(start + IDS_AT_ONCE, n))}

    def timed(self, random: np.random.Generator, distribution: random_ids.Distribution, batch: int) -> Feeds:
        """Draw ``batch`` ids."""
        return {"ids": random_ids.draw(random, distribution, self.table.packed.num_embeddings, (batch,))}


def _case(name: str, ids: NDArray[Any]) -> Case:
    return Case(name, {"ids": ids})
