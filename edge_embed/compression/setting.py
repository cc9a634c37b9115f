"""Settings: a method with all that says how small it makes a table, and which of them fit into some bytes."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

from torch import Tensor

from edge_embed.compression import ant, dpq, low_rank, opq, rows, tr, tt
from edge_embed.compression.dense import Weight
from edge_embed.compression.fitted import Fitted
from edge_embed.compression.kept import NOTHING, Kept
from edge_embed.compression.processes import ALONE, Processes
from edge_embed.errors import BadInputError, suggested
from edge_embed.layers.scaled_dpq import ScaledDPQEmbedding
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.layers.tr import TREmbedding
from edge_embed.layers.tt import TTEmbedding
from edge_embed.packed.ant_shape import ANTShape
from edge_embed.packed.dpq_shape import DPQShape
from edge_embed.packed.floats import FLOAT_BYTES
from edge_embed.packed.form import TableShape
from edge_embed.packed.tt_shape import MAX_STATE, TTShape

_CODES = (4, 8, 16, 32, 64, 128, 256, 1024)  # K of DPQ
_ANCHORS = (8, 16, 32, 64, 128, 256, 512, 1024)
_FEWER = 0.9  # of the weights with twice as many anchors bring rows nearer
_SAMPLED = 0.98  # of the bytes for weights, where ANT knows the rows of a sample alone, are sure to be enough
_DRAFT = {"dpq": {"runs": 1}, "opq": {"runs": 1}, "ant": {"turns": 5}}  # not quite the best, and sooner
_SPARSE = 8  # weights of a row of ANT, at most, or as many columns for each: with more its lookup takes long
_SHORT = {"num_codes": "K", "num_groups": "D", "num_anchors": "A", "rank": "R"}
_LARGEST_SHARE = 0.5  # of the bytes, for what all rows have in common: codes and weights say more

OnBlock = Callable[[int], None]
Types = Mapping[str, str]  # of numbers to store, by the name of the option of ``freeze``


@dataclass(frozen=True)
class Setting:
    """One way to compress a table.

    Attributes:
        method: a name of `METHODS`.
        options: of the method's ``fit``, beside the table: sizes such as ``num_codes`` or ``rank``.
        stored: the types of the stored numbers, as ``freeze`` of the layer takes them.
    """

    method: str
    options: Mapping[str, Any]
    stored: Types = field(default_factory=dict)

    def __str__(self) -> str:
        sizes = (f"{_SHORT.get(name, name)}={value}" for name, value in self.options.items())
        types = (f"{name.removesuffix('_type')}s {value}" for name, value in self.stored.items())
        return ", ".join((*sizes, *types))

    def fit(
        self,
        weight: Weight,
        padding_idx: int | None = None,
        counts: Tensor | None = None,
        trainable: bool = False,
        seed: int = 0,
        draft: bool = False,
        kept: Kept = NOTHING,
        on_block: OnBlock = lambda rows: None,
        processes: Processes = ALONE,
    ) -> Fitted:
        """What this makes of a table [n, d]: frozen, its numbers stored as said, unless it is trainable.

        A draft is not quite as near to the table, and takes less time. ``kept`` has finished parts, where the method
        has any, ``on_block`` is told the finished rows, where it goes through them, and ``processes`` share the work.

        Raises:
            BadInputError: for a method or options that there are not, or as ``fit`` of the method.
        """
        check_method(self.method)
        effort = _DRAFT.get(self.method, {}) if draft else {}
        given: dict[str, Any] = {"padding_idx": padding_idx, "counts": counts, "trainable": trainable, "seed": seed}
        given |= {"kept": kept, "on_block": on_block, "processes": processes}
        made = METHODS[self.method].fit(weight, **given, **self.options, **effort)
        fitted = made if isinstance(made, Fitted) else Fitted(made)
        return fitted if trainable else fitted.frozen(**self.stored)


@dataclass(frozen=True)
class Method:
    """What the settings of a method are.

    Attributes:
        fit: the layer, or that and its rotation, from the weight and, by name, padding_idx, counts, trainable, seed,
            the options of a setting, kept, on_block and processes.
        sizes: names of those options.
        types: names of the options of ``freeze``.
        within: for n, d, a number of bytes and the types to store: the largest settings that take no more.
        learns: whether layers of it can be trained.
        rotates: whether rows of it are rotated.
    """

    fit: Callable[..., CompressedEmbedding | Fitted]
    sizes: tuple[str, ...]
    types: tuple[str, ...]
    within: Callable[[int, int, int, Types], Iterator[Setting]]
    learns: bool = True
    rotates: bool = False


def check_method(method: str) -> None:
    """Raise `BadInputError` for one that there is not."""
    if method not in METHODS:
        hint = suggested(str(method), (*METHODS, "auto"))
        raise BadInputError(f"method: got {method!r:.80}, {hint}expected {', '.join(METHODS)} or auto")


def check_learns(method: str, trainable: bool) -> None:
    """Raise `BadInputError` if layers of a method are to learn that cannot."""
    if trainable and not METHODS[method].learns:
        able = ", ".join(name for name, known in METHODS.items() if known.learns)
        raise BadInputError(f"method: got {method!r} for layers that learn, expected one of {able}")


def _has_room(count: int, dim: int, nbytes: int, value_type: str) -> bool:
    """Whether codes or anchors [count, d] leave enough of the bytes for the rows."""
    return FLOAT_BYTES[value_type] * count * dim <= _LARGEST_SHARE * nbytes


def _dpq_within(n: int, dim: int, nbytes: int, types: Types, method: str = "dpq") -> Iterator[Setting]:
    value_type = types["value_type"]
    for num_codes in _CODES:
        if num_codes > n or not _has_room(num_codes, dim, nbytes, value_type):
            break
        groups = (groups for groups in range(dim, 0, -1) if dim % groups == 0)
        shapes = (DPQShape(n, dim, num_codes, each, value_type=value_type) for each in groups)
        if largest := next((shape for shape in shapes if shape.nbytes <= nbytes), None):
            options = {"num_codes": num_codes, "num_groups": largest.num_groups}
            yield Setting(method, options, {"value_type": value_type})


def _ant_within(n: int, dim: int, nbytes: int, types: Types) -> Iterator[Setting]:
    """Numbers of anchors of which twice as many would cost a tenth of the weights: up to there more of them pay."""
    stored = {"weight_type": types["weight_type"], "value_type": types["value_type"]}

    def nonzeros(num_anchors: int) -> float:
        if not _has_room(num_anchors, dim, nbytes, stored["value_type"]):
            return 0
        without, with_one = (ANTShape(n, dim, num_anchors, each, **stored).nbytes for each in (0, n))
        room = (nbytes - without) / (with_one - without) * (_SAMPLED if n > ant.SAMPLE else 1)
        most = min(num_anchors, dim, max(_SPARSE, dim // _SPARSE))
        return most if room >= most else math.floor(10 * room) / 10

    sizes = [(num_anchors, nonzeros(num_anchors)) for num_anchors in _ANCHORS]
    for (num_anchors, each), (_, of_more) in pairwise([*sizes, (0, 0)]):
        if each >= 1 and of_more < _FEWER * each:
            yield Setting("ant", {"num_anchors": num_anchors, "nonzeros": each}, stored)


def _decomposition(fit: Callable[..., TTEmbedding]) -> Callable[..., TTEmbedding]:
    """One that draws nothing, is made in one go, and whose layer always learns."""

    def fit_cores(
        weight: Weight,
        padding_idx: int | None,
        *,
        counts: Tensor | None,
        rank: int,
        processes: Processes,
        **unused: Any,
    ) -> TTEmbedding:
        return fit(weight, rank, padding_idx=padding_idx, counts=counts, processes=processes)

    return fit_cores


def _cores_within(
    method: str, layer: type[TTEmbedding], ranks_of: Callable[[TTEmbedding], tuple[int, ...]]
) -> Callable[[int, int, int, Types], Iterator[Setting]]:
    def within(n: int, dim: int, nbytes: int, types: Types) -> Iterator[Setting]:
        def size(rank: int) -> int:
            try:
                pattern = layer(n, dim, rank=rank, device="meta")
            except BadInputError:  # it cannot be packed
                return nbytes + 1
            ranks = ranks_of(pattern)
            sizes = zip(pattern.row_shape, ranks, pattern.col_shape, ranks[1:], strict=False)
            return FLOAT_BYTES[types["value_type"]] * sum(map(math.prod, sizes))

        every = range(1, MAX_STATE + 1)
        if found := bisect_right(every, nbytes, key=size):
            rank = bisect_left(every, size(found), key=size) + 1  # of larger ones the cores are as large
            yield Setting(method, {"rank": rank}, {"value_type": types["value_type"]})

    return within


def _low_rank_within(n: int, dim: int, nbytes: int, types: Types) -> Iterator[Setting]:
    value_type = types["value_type"]
    rank = nbytes // (FLOAT_BYTES[value_type] * (n + dim))
    if rank:
        yield Setting("low_rank", {"rank": min(rank, n, dim)}, {"value_type": value_type})


def _fit_rows(
    weight: Weight, padding_idx: int | None, *, bits: int, processes: Processes, **unused: Any
) -> ScaledDPQEmbedding:
    return rows.fit(weight, bits, padding_idx, processes=processes)


def _rows_within(n: int, dim: int, nbytes: int, types: Types) -> Iterator[Setting]:
    every = range(rows.MOST_BITS, rows.FEWEST_BITS - 1, -1)
    if bits := next((bits for bits in every if rows.shape_of(n, dim, bits).nbytes <= nbytes), None):
        yield Setting("rows", {"bits": bits})


def bytes_of(shape: TableShape, num_embeddings: int) -> int:
    """Bytes of a table of so many rows, each of which takes what it takes in one of this shape."""
    n, share = num_embeddings, num_embeddings / shape.num_embeddings
    if isinstance(shape, ANTShape):
        return replace(shape, num_embeddings=n, num_nonzeros=math.ceil(share * shape.num_nonzeros)).nbytes
    if isinstance(shape, TTShape):
        row_shape = shape.row_shape if share == 1 else (n, 1)  # of low rank
        return replace(shape, num_embeddings=n, row_shape=row_shape).nbytes
    assert isinstance(shape, DPQShape)
    return replace(shape, num_embeddings=n).nbytes


METHODS: Mapping[str, Method] = {
    "dpq": Method(dpq.fit, ("num_codes", "num_groups"), ("value_type",), _dpq_within),
    "opq": Method(
        opq.fit,
        ("num_codes", "num_groups"),
        ("value_type",),
        partial(_dpq_within, method="opq"),
        rotates=True,
    ),
    "ant": Method(ant.fit, ("num_anchors", "nonzeros"), ("weight_type", "value_type"), _ant_within),
    "tt": Method(_decomposition(tt.fit), ("rank",), ("value_type",), _cores_within("tt", TTEmbedding, tt.fitted_ranks)),
    "tr": Method(_decomposition(tr.fit), ("rank",), ("value_type",), _cores_within("tr", TREmbedding, tr.fitted_ranks)),
    "low_rank": Method(_decomposition(low_rank.fit), ("rank",), ("value_type",), _low_rank_within),
    "rows": Method(_fit_rows, ("bits",), (), _rows_within, learns=False),
}

ROTATING = [name for name, known in METHODS.items() if known.rotates]


def setting_of(method: str, options: Mapping[str, Any]) -> Setting:
    """The setting with these sizes and types.

    Raises:
        BadInputError: if there is no such method, or its sizes and types have other names.
    """
    check_method(method)
    known = METHODS[method]
    own = (*known.sizes, *known.types)
    if wrong := options.keys() - {*own}:
        got, expected = (", ".join(f"`{name}`" for name in names) for names in (sorted(wrong), own))
        raise BadInputError(f"{method}: got {got}, expected options among {expected}")
    if missing := [name for name in known.sizes if name not in options]:
        got = " and ".join(f"`{name}`" for name in missing)
        raise BadInputError(f"{method}: got no {got}: give it, or `ratio`, `budget` or `min_cosine` alone")
    types = {name: options[name] for name in known.types if name in options}
    return Setting(method, {name: options[name] for name in known.sizes}, types)
