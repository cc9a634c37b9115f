"""Uses of a table in the benchmark: the inputs of a call, and the error of its results against the packed form.

    rows    ids [B]                          -> E[ids]             [B, d]
    bag     ids [B], offsets [B / 8 + 1]     -> reduced E[ids]     [B / 8, d]
    logits  hidden [B, d]                    -> hidden E^T         [B, n]
    topk    hidden [B, d]                    -> the k largest of hidden E^T and their rows, [B, k] each
    kernel  ids [B]                          -> E[ids]             [B, d], by the C interface, without a session
    litert, litert-bag                       rows and bags, by a TFLite file in LiteRT
    tflite-runtime, tflite-runtime-bag       the same in tflite-runtime, in processes of its own

The error of a result is its largest difference from the packed form in float64, relative to the largest number there.
For topk, the logits of the returned rows are compared with the largest logits too.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from edge_embed.packed.bag import bag
from edge_embed.packed.logits import logits
from edge_embed.packed.packed_form import PackedTable, Use
from edge_embed.packed.topk import check_k
from edge_embed.validation import ids as random_ids
from edge_embed.validation.ids import Distribution
from edge_embed.validation.timing import Feeds

CacheState = Literal["warm", "cold"]
Results = tuple[NDArray[Any], ...]

IDS_A_BAG = 8
_CHECKED_LOGITS = 256


class BenchUse(ABC):
    """One way to use a table.

    Attributes:
        name: name in options and reports.
        items: unit of a batch.
        batches: default batch sizes.
        sample: items between two readings of the clock, in several calls if a batch has fewer. The first call after
            another contender finds little in the caches, not even its code.
        most_calls: most calls of a sample.
        distributions: distributions of the ids, if there are any.
        operator: use of the node that is measured.
        inputs: types and ranks of the inputs of a call, by name.
        outputs: names of the node's outputs.
        elsewhere: whether other processes run it, and report its times.
    """

    name: ClassVar[str]
    items: ClassVar[str]
    batches: ClassVar[tuple[int, ...]]
    sample: ClassVar[int]
    most_calls: ClassVar[int] = 32
    distributions: ClassVar[tuple[Distribution, ...]] = ("uniform", "zipf")
    operator: ClassVar[Use]
    inputs: ClassVar[dict[str, tuple[type, int]]]
    outputs: ClassVar[tuple[str, ...]] = ("result",)
    elsewhere: ClassVar[bool] = False

    @property
    def words(self) -> str:
        """Return the name in reports."""
        return self.name

    @property
    def leading(self) -> tuple[Any, ...]:
        """Return the arguments of the operator before the table, None for tensors."""
        return (None,)

    def calls(self, batch: int, cache: CacheState) -> int:
        """Return the number of calls in a sample: 1 for cold caches, because only the first call finds them cold."""
        return 1 if cache == "cold" else min(self.most_calls, max(1, self.sample // batch))

    @abstractmethod
    def draw(self, packed: PackedTable, random: np.random.Generator, ids: Distribution, batch: int) -> Feeds:
        """Draw inputs of one call."""

    @abstractmethod
    def expected(self, packed: PackedTable, feeds: Feeds) -> NDArray[np.float64]:
        """Return the expected result, from the packed form."""

    def error(self, expected: NDArray[np.float64], got: Results) -> float:
        """Return the error of the results ``got``."""
        return _error(got[0], expected)


class Rows(BenchUse):
    """Lookups of rows."""

    name = "rows"
    items = "ids"
    batches: ClassVar[tuple[int, ...]] = (1, 4096)
    sample = 16_384
    operator = "rows"
    inputs: ClassVar = {"ids": (np.int64, 1)}

    def draw(self, packed: PackedTable, random: np.random.Generator, ids: Distribution, batch: int) -> Feeds:
        """Draw ``batch`` ids."""
        return {"ids": _ids(packed, random, ids, batch)}

    def expected(self, packed: PackedTable, feeds: Feeds) -> NDArray[np.float64]:
        """Return all rows."""
        return packed.rows_float64(feeds["ids"])


class Kernel(Rows):
    """Lookups without a session: the cost of a small batch in an application of its own."""

    name = "kernel"
    batches = (1, 256)
    most_calls = 4096  # that many take as long as one call from Python


@dataclass(frozen=True)
class Bag(BenchUse):
    """Bags of 8 rows, without weights.

    Attributes:
        mode: ``sum``, ``mean`` or ``max``.
    """

    mode: str = "mean"

    name = "bag"
    items = "ids"
    batches = (4096,)
    sample = 16_384
    operator = "bag"
    inputs: ClassVar = {"ids": (np.int64, 1), "offsets": (np.int64, 1)}

    @property
    def words(self) -> str:
        """Return the name with the mode."""
        return f"{self.name} ({self.mode})"

    @property
    def leading(self) -> tuple[Any, ...]:
        """Return the arguments before the table, the last of which is the mode."""
        return None, None, None, self.mode

    def draw(self, packed: PackedTable, random: np.random.Generator, ids: Distribution, batch: int) -> Feeds:
        """Draw ``batch`` ids; fewer than 8 form one bag."""
        offsets = np.linspace(0, batch, max(1, batch // IDS_A_BAG) + 1, dtype=np.int64)
        return {"ids": _ids(packed, random, ids, batch), "offsets": offsets}

    def expected(self, packed: PackedTable, feeds: Feeds) -> NDArray[np.float64]:
        """Return all bags."""
        return bag(packed, feeds["ids"], feeds["offsets"], self.mode)[0]


class LiteRtRows(Rows):
    """Lookups of rows with a TFLite file in LiteRT."""

    name = "litert"
    batches = (1, 128, 4096)


class LiteRtBag(Bag):
    """Bags of 8 rows with a TFLite file in LiteRT."""

    name = "litert-bag"


class TfliteRuntimeRows(LiteRtRows):
    """Lookups of rows with a TFLite file in tflite-runtime."""

    name = "tflite-runtime"
    elsewhere = True


class TfliteRuntimeBag(LiteRtBag):
    """Bags of 8 rows with a TFLite file in tflite-runtime."""

    name = "tflite-runtime-bag"
    elsewhere = True


class Logits(BenchUse):
    """Products of a few hidden states with every row."""

    name = "logits"
    items = "states"
    batches: ClassVar[tuple[int, ...]] = (1, 8, 64)
    sample = 4
    distributions = ("uniform",)  # there are no ids: every row is used
    operator: ClassVar[Use] = "logits"
    inputs: ClassVar = {"hidden": (np.float32, 2)}

    def draw(self, packed: PackedTable, random: np.random.Generator, ids: Distribution, batch: int) -> Feeds:
        """Draw ``batch`` hidden states."""
        return {"hidden": random.standard_normal((batch, packed.embedding_dim), np.float32)}

    def expected(self, packed: PackedTable, feeds: Feeds) -> NDArray[np.float64]:
        """Return the logits of evenly spread rows: all rows in float64 would take longer than the measurement."""
        rows = _spread(packed.num_embeddings)
        return feeds["hidden"].astype(np.float64) @ packed.rows_float64(rows).T

    def error(self, expected: NDArray[np.float64], got: Results) -> float:
        """Return the error of the logits of the same rows."""
        return _error(got[0][:, _spread(got[0].shape[1])], expected)


@dataclass(frozen=True)
class TopK(Logits):
    """Largest logits of a few hidden states, and their rows.

    Attributes:
        k: number of the largest logits.
    """

    k: int = 10

    name = "topk"
    batches = (1,)
    operator = "topk"
    outputs = ("values", "ids")

    @property
    def leading(self) -> tuple[Any, ...]:
        """Return the arguments before the table: no bias, and k."""
        return None, None, self.k

    def expected(self, packed: PackedTable, feeds: Feeds) -> NDArray[np.float64]:
        """Return the logits of all rows: each of them can be the largest."""
        return logits(packed, feeds["hidden"])[0]

    def error(self, expected: NDArray[np.float64], got: Results) -> float:
        """Return the error of the values and of the logits of the rows; infinite unless these are k different rows."""
        values, ids = got
        in_order = np.sort(ids)
        if in_order.min() < 0 or in_order.max() >= expected.shape[1] or (in_order[:, 1:] == in_order[:, :-1]).any():
            return math.inf
        largest = -np.sort(-expected)[:, : self.k]
        return max(_error(values, largest), _error(np.take_along_axis(expected, ids, 1), largest))


TFLITE_USES: tuple[BenchUse, ...] = (LiteRtRows(), LiteRtBag(), TfliteRuntimeRows(), TfliteRuntimeBag())
USES: dict[str, BenchUse] = {use.name: use for use in (Rows(), Bag(), Logits(), TopK(), Kernel(), *TFLITE_USES)}


def check_use(use: BenchUse, num_embeddings: int) -> None:
    """Raise `BadInputError` if a table of ``num_embeddings`` rows does not allow the use."""
    if isinstance(use, TopK):
        check_k(use.k, num_embeddings)


def _spread(num_embeddings: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, num_embeddings - 1, _CHECKED_LOGITS, dtype=np.int64))


def _ids(packed: PackedTable, random: np.random.Generator, distribution: Distribution, batch: int) -> NDArray[Any]:
    """Draw ids without the padding row: it takes less time, and dense bags would count it."""
    skipped = packed.padding_idx
    if skipped is None or packed.num_embeddings == 1:
        return random_ids.draw(random, distribution, packed.num_embeddings, (batch,))
    ids = random_ids.draw(random, distribution, packed.num_embeddings - 1, (batch,))
    return ids + (ids >= skipped)


def _error(got: NDArray[Any], expected: NDArray[np.float64]) -> float:
    largest = float(np.abs(expected).max(initial=0)) or 1.0
    return float(np.abs(got - expected).max(initial=0)) / largest
