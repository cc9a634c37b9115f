"""`TTEmbedding`, an embedding table trained as the cores of a tensor train.

    E[(i_1 ... i_N), (j_1 ... j_N)] = G_1[i_1, :, j_1, :] G_2[i_2, :, j_2, :] ... G_N[i_N, :, j_N, :]

Source: "Tensorized Embedding Layers for Efficient Model Compression" (ICLR 2020 submission), eq. (1) and (2).
Arithmetic and the order of indices: `edge_embed.ops.tt`.
"""

import math
from bisect import bisect_right
from collections.abc import MutableMapping, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.keywords import suggests_keywords
from edge_embed.layers import core_orders, factorization
from edge_embed.layers.arguments import checked_count, is_number
from edge_embed.layers.core_orders import CoreOrder
from edge_embed.layers.table import CompressedEmbedding, Memory
from edge_embed.ops import tt
from edge_embed.ops.operators import TableOperators
from edge_embed.ops.storage import StoredType, rounded
from edge_embed.packed.packed_form import check_form
from edge_embed.packed.row_order import checked_row_order
from edge_embed.packed.tt import PackedTT
from edge_embed.packed.tt_shape import MAX_STATE, TTShape
from edge_embed.report.beside_limit import beside_limit

_RANKS = range(1, MAX_STATE + 1)  # packed forms have no larger ranks


@suggests_keywords
class TTEmbedding(CompressedEmbedding):
    """Drop-in for ``nn.Embedding`` whose table is a product of a few small cores.

    The layer has two states. A trainable layer holds ``cores``, parameters [I_k, R_{k-1}, J_k, R_k]. A frozen layer
    (after `freeze` or `from_packed`) holds the same numbers as buffers ``core_0`` ... and can no longer be trained.
    Lookups never materialise the dense table, neither in training nor later.

    Rows whose ids share leading digits share cores, so the order of the vocabulary matters. The paper sorts the
    vocabulary by frequency. Other ids need a ``row_order``, which gives the rows of the table an order of their own.
    `edge_embed.fitting.order` computes such orders. The order is stored and exported with the table, at 4 bytes a row.

    The compression ratio is n d / sum_k I_k R_{k-1} J_k R_k. A ``row_order`` adds n numbers to the denominator.

    A checkpoint of another n is refused, as by every layer. Cores alone do not determine n: ``state_dict()`` records it
    in the metadata that ``torch.save`` writes. A safetensors file has only tensors, so its n is not checked.

    Args:
        num_embeddings: number of rows n.
        embedding_dim: width d of a row.
        rank: R_1 ... R_{N-1}, or one R for all, which is reduced to the largest useful rank of the shapes. The paper
            uses 16 for small vocabularies and 64 to 192 for large ones.
        row_shape: I_1 ... I_N with a product of at least n; by default even factors of n rounded up.
        col_shape: J_1 ... J_N with the product d; by default even factors of d.
        num_cores: N, 2 to 6; by default that of a given shape, else 3.
        padding_idx: id of the padding row, which is exactly zero and gets no gradient.
        device: as for ``nn.Embedding``.
        dtype: as for ``nn.Embedding``; export requires float32 or float16.
        ratio: alternative to ``rank``: selects the largest R with a ``compression_ratio`` of at least this.
        row_order: row in the cores of each id, int64 [n], a permutation that keeps the place of the padding row.

    Shape:
        ids of any integer dtype and any shape ``(*)``, 0-d and empty included -> ``(*, d)``.

    Raises:
        BadInputError: for impossible sizes, a ratio that no rank reaches, a ``row_order`` that is not such a
            permutation, or ids that are not integers.
        IdOutOfRangeError: for ids below 0 or at least n (on an accelerator, its own gather asserts).
    """

    cores: nn.ParameterList
    row_order: Tensor | None

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        rank: int | Sequence[int] | None = None,
        row_shape: Sequence[int] | None = None,
        col_shape: Sequence[int] | None = None,
        num_cores: int | None = None,
        padding_idx: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        ratio: float | None = None,
        row_order: Tensor | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, dtype)
        self._set_row_order(row_order, device)
        count = factorization.number_of_cores(num_cores, row_shape, col_shape)
        rows = factorization.row_shape(self.num_embeddings, count) if row_shape is None else row_shape
        columns = factorization.column_shape(self.embedding_dim, count) if col_shape is None else col_shape
        self.row_shape = factorization.checked_numbers("row_shape", rows, count)
        self.col_shape = factorization.checked_numbers("col_shape", columns, count)
        self._check_columns()
        if rank is None and ratio is not None:
            rank = self._rank_with(ratio)
        elif rank is None or ratio is not None:
            raise BadInputError(f"got rank {rank!r:.80} and ratio {ratio!r:.80}, expected one of them")
        self.ranks = self._checked_ranks(rank)
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.cores = nn.ParameterList(nn.Parameter(torch.empty(shape, **options)) for shape in self._shapes(self.ranks))
        self.reset_parameters()

    def _set_row_order(self, row_order: Tensor | None, device: torch.device | str | None = None) -> None:
        """Store an order as a buffer; ``state_dict()`` contains the buffer only if there is an order."""
        if row_order is not None:
            if not isinstance(row_order, Tensor):
                got = f"got a {type(row_order).__name__}"
                raise BadInputError(
                    f"row_order: {got}, expected a tensor: give torch.from_numpy(row_order) for an array"
                )
            if not row_order.is_meta:
                checked_row_order(row_order.cpu().numpy(), self.num_embeddings, self.padding_idx)
            row_order = row_order.to(device, torch.int64, copy=True)
        self.register_buffer("row_order", row_order)

    def _check_columns(self) -> None:
        width = math.prod(self.col_shape)
        if width != self.embedding_dim:
            got = f"got {list(self.col_shape)} with product {width}"
            raise BadInputError(f"col_shape: {got}, expected embedding_dim, {self.embedding_dim}")

    def _checked_ranks(self, rank: int | Sequence[int]) -> tuple[int, ...]:
        """Return R_0 ... R_N after a check that a table of these ranks can be packed."""
        ranks = self._ranks(rank)
        TTShape(self.num_embeddings, self.row_shape, self.col_shape, ranks)
        return ranks

    _is_ring: ClassVar[bool] = False

    def _ranks(self, rank: int | Sequence[int]) -> tuple[int, ...]:
        """Return R_0 ... R_N. One R for all is limited to the rows or columns of the matrix at each R_k."""
        count = len(self.row_shape)
        if isinstance(rank, Sequence):
            return 1, *factorization.checked_numbers("rank", rank, count - 1), 1
        rank = checked_count("rank", rank)
        sizes = [i * j for i, j in zip(self.row_shape, self.col_shape, strict=True)]
        return 1, *(min(rank, math.prod(sizes[:k]), math.prod(sizes[k:])) for k in range(1, count)), 1

    @staticmethod
    def _rank_for(ranks: Sequence[int]) -> Sequence[int]:
        """Return the argument ``rank`` for R_0 ... R_N."""
        if ranks[0] != 1:
            raise BadInputError(f"R_0: got {ranks[0]}, expected 1; use TREmbedding for a tensor ring")
        return ranks[1:-1]

    def _rank_with(self, ratio: float) -> int:
        """Return the largest R, one for all, with a compression ratio of at least ``ratio``."""
        if not is_number(ratio) or not 1 <= ratio < math.inf:
            raise BadInputError(f"ratio must be a number of at least 1, got {ratio!r:.80}")
        found = bisect_right(_RANKS, -ratio, key=lambda rank: -self._ratio(self._ranks(rank)))
        if not found:
            most, got = beside_limit(self._ratio(self._ranks(1)), ratio)
            reached = f"expected at most {most}, that of rank 1 with these shapes"
            remedy = "use more cores" if self.row_order is None else "row_order alone stores a number per row"
            raise BadInputError(f"ratio: got {got}, {reached}; {remedy}")
        return found

    def _ratio(self, ranks: Sequence[int]) -> float:
        ordered = 0 if self.row_order is None else self.num_embeddings
        return self.num_embeddings * self.embedding_dim / (sum(map(math.prod, self._shapes(ranks))) + ordered)

    def _shapes(self, ranks: Sequence[int]) -> list[tuple[int, int, int, int]]:
        """Return [I_k, R_{k-1}, J_k, R_k] of all cores."""
        return list(zip(self.row_shape, ranks, self.col_shape, ranks[1:], strict=False))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw new normal cores so that the variance in E is 2 / (rows + columns), as Glorot's (eq. 2).

        A number of E is a sum over all paths r_0 ... r_{N-1} (the trace of a ring sums over R_0 of them). Each path has
        the variance of a product of N core numbers, and paths are uncorrelated.
        """
        count, paths = len(self.cores), math.prod(self.ranks[:-1])
        variance = 2 / (math.prod(self.row_shape) + self.embedding_dim)
        for core in self.cores:
            nn.init.normal_(core, std=(variance / paths) ** (0.5 / count))

    @classmethod
    def from_cores(
        cls,
        cores: Sequence[Tensor],
        num_embeddings: int,
        padding_idx: int | None = None,
        row_order: Tensor | None = None,
        *,
        order: CoreOrder = "edge-embed",
        col_shape: Sequence[int] | None = None,
    ) -> Self:
        """Return a trainable layer over a copy of ``cores`` from another source, all of one dtype.

        Cores do not determine the order of their digits, and with a wrong order the rows are wrong. Name the library in
        ``order``. `edge_embed.layers.core_orders` shows all orders. The order of this layer is

            id = (i_1 I_2 + i_2) I_3 + i_3     column = (j_1 J_2 + j_2) J_3 + j_3     core k: [I_k, R_{k-1}, J_k, R_k]

        Args:
            cores: G_1 ... G_N.
            num_embeddings: rows n; must be I_1 ... I_N for ``tt-pytorch-rows`` and ``hetu``, whose rows need an order.
            padding_idx: as for the layer.
            row_order: as for the layer: for each id its row in the numbering of ``order``.
            order: ``edge-embed``, ``paper`` (eq. 1 and appendix A), ``tt-pytorch``, ``tt-pytorch-rows`` (which gathers
                rows by ind2sub), ``tltorch``, ``fbtt`` or ``hetu``.
            col_shape: J_1 ... J_N for cores of ``fbtt`` and ``hetu``, which do not determine it.

        Returns:
            A trainable layer with one parameter for each core.

        Raises:
            BadInputError: if cores are not tensors, or do not fit each other, n or ``order``; if ``row_order`` is not a
                permutation.
        """
        if not all(isinstance(core, Tensor) for core in cores):
            got = ", ".join(sorted({type(core).__name__ for core in cores}))
            raise BadInputError(f"cores: got {got}, expected tensors: give torch.from_numpy(core) for arrays")
        types = {core.dtype for core in cores}
        if len(types) != 1:
            raise BadInputError(f"cores: got {', '.join(sorted(map(str, types)))}, expected one type")
        if cls._is_ring and core_orders.has_flat_cores(order):
            got = f"order: got {order!r} for a tensor ring"
            raise BadInputError(f"{got}, but its cores are always a tensor train; use TTEmbedding.from_cores")
        cores = core_orders.own_cores(cores, order, col_shape)
        layer = cls._for_shapes([core.shape for core in cores], num_embeddings, padding_idx, *types)
        copies = (core.detach().clone(memory_format=torch.contiguous_format) for core in cores)
        layer.cores = nn.ParameterList(map(nn.Parameter, copies))
        layer._set_row_order(layer._placed(row_order, order), cores[0].device)
        return layer

    def _placed(self, row_order: Tensor | None, order: CoreOrder) -> Tensor | None:
        """Convert an order of rows from the numbering of a library to that of the cores."""
        places = core_orders.row_places(self.row_shape, order)
        if places is None:
            return row_order
        if self.spare_rows:
            got, expected = f"got {self.num_embeddings} with order {order!r}", len(places)
            reason = "as its ids are spread over all rows of the cores"
            remedy = f"give {expected}, and look up the first {self.num_embeddings}"
            raise BadInputError(f"num_embeddings: {got}, expected {expected}, the product of I, {reason}: {remedy}")
        if row_order is None:
            return places
        checked_row_order(row_order.cpu().numpy(), self.num_embeddings, self.padding_idx)
        return places[row_order.cpu()]

    @classmethod
    def from_packed(cls, packed: PackedTT) -> Self:
        """Return a frozen layer with a copy of the cores and the order of ``packed``.

        Raises:
            BadInputError: if ``packed`` is a table of another method.
        """
        check_form(packed, PackedTT)
        shapes = [core.shape for core in packed.cores]
        layer = cls._for_shapes(shapes, packed.num_embeddings, packed.padding_idx)
        layer._become_frozen([torch.tensor(core) for core in packed.cores])
        layer._set_row_order(None if packed.row_order is None else torch.from_numpy(packed.row_order))
        return layer

    @classmethod
    def _for_shapes(
        cls,
        shapes: Sequence[Sequence[int]],
        num_embeddings: int,
        padding_idx: int | None,
        dtype: torch.dtype | None = None,
    ) -> Self:
        """Return a layer without numbers for cores of ``shapes``."""
        if not all(len(shape) == 4 for shape in shapes):
            raise BadInputError(f"cores: got shapes {[list(shape) for shape in shapes]}, expected [I, R, J, R'] each")
        rows, befores, columns, afters = zip(*shapes, strict=True)
        ranks = (befores[0], *afters)
        width, rank = math.prod(columns), cls._rank_for(ranks)
        layer = cls(num_embeddings, width, rank, rows, columns, padding_idx=padding_idx, device="meta", dtype=dtype)
        if befores != ranks[:-1] or layer.ranks != ranks:
            shown = " ".join("x".join(map(str, shape)) for shape in shapes)
            raise BadInputError(f"cores: got shapes {shown}, expected R of each core to equal R' of the core before")
        return layer

    @property
    def frozen(self) -> bool:
        """Return whether the cores are buffers and can no longer be trained."""
        return "core_0" in self._buffers

    @property
    def compression_ratio(self) -> float:
        """Numbers of the dense table over numbers of cores and ``row_order``; without an order, the paper's ratio."""
        return self._ratio(self.ranks)

    @property
    def spare_rows(self) -> int:
        """Number of rows of the cores beyond n, which no id reaches."""
        return math.prod(self.row_shape) - self.num_embeddings

    @property
    def stored_type(self) -> torch.dtype:
        """Dtype of the cores."""
        return self._cores()[0].dtype

    def _cores(self) -> list[Tensor]:
        if self.frozen:
            return [getattr(self, f"core_{k}") for k in range(len(self.row_shape))]
        return list(self.cores)

    def to_packed(self) -> PackedTT:
        """Return the packed form: the cores as they are."""
        return tt.pack(self._cores(), self.num_embeddings, self.padding_idx, self.row_order)

    def freeze(self, value_type: StoredType | None = None) -> Self:
        """Turn the cores into buffers, in place.

        Args:
            value_type: ``"float16"`` rounds the cores to half the size; rows keep the dtype of the layer. By default
                cores stay the same.

        Returns:
            The layer itself.

        Raises:
            BadInputError: if a number is not finite before or after rounding, or its dtype cannot be stored.
        """
        cores = [core.detach() for core in self._cores()]
        if value_type is not None:
            cores = [rounded(core, value_type) for core in cores]
        # Raise for numbers that cannot be stored before the layer changes.
        tt.pack(cores, self.num_embeddings, self.padding_idx, self.row_order)
        self._become_frozen(cores)
        return self

    def _become_frozen(self, cores: Sequence[Tensor]) -> None:
        if not self.frozen:
            del self.cores
        for k, core in enumerate(cores):
            self.register_buffer(f"core_{k}", core)

    def _noted(self) -> dict[str, Any]:
        """Return n, because cores of the same shapes hold tables of several sizes."""
        return {"num_embeddings": self.num_embeddings}

    def _load_from_state_dict(self, state_dict: MutableMapping[str, Any], prefix: str, *rest: Any) -> None:
        """Make the layer frozen or ordered if the checkpoint is, so that a newly constructed model can load it.

        Cores are loaded together with their order or not at all.
        """
        if not self._is_noted(state_dict, prefix, rest):
            return
        stored, order = (state_dict.get(prefix + name) for name in ("core_0", "row_order"))
        ordered = order is not None or self.row_order is not None
        if isinstance(stored, Tensor) or ordered:
            tensors: dict[str, Sequence[int]] = {"row_order": [self.num_embeddings]} if ordered else {}
            name = "core_{}" if isinstance(stored, Tensor) else "cores.{}"
            tensors |= {name.format(k): core.shape for k, core in enumerate(self._cores())}
            if not self._takes(state_dict, prefix, tensors, rest):
                return
        if order is not None:
            try:
                self._set_row_order(order, self._cores()[0].device)
            except BadInputError as error:
                rest[-1].append(f"{prefix}{error}")
                state_dict.update(self.state_dict(prefix=prefix, keep_vars=True))  # refuse the cores too
                return
        if isinstance(stored, Tensor):
            self._become_frozen([torch.zeros_like(core, dtype=stored.dtype) for core in self._cores()])
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _table(self) -> tuple[TableOperators, tuple[Any, ...]]:
        if self.row_order is None:
            return tt.TT, (self._cores(), self.num_embeddings, self.padding_idx)
        return tt.ORDERED, (self._cores(), self.row_order, self.num_embeddings, self.padding_idx)

    def training_rows(self, ids: Tensor, counts: Tensor, update: bool = True, memory: Memory | None = None) -> Tensor:
        """Return the rows [B, d] of ids int64 [B] by eq. (1)."""
        return tt.chain(ids if self.row_order is None else tt.placed(ids, self.row_order), self._cores())

    def training_block(self, begin: int, end: int, own: Tensor, counts: Tensor, update: bool, memory: Memory) -> Tensor:
        """Return consecutive rows, which share most digits unless the table has an order of its own."""
        if self.row_order is not None:
            return self.training_rows(own, counts, update, memory)
        return tt.block(begin, end, self._cores())

    def extra_repr(self) -> str:
        """Return sizes and state for ``print(model)``."""
        optional = f", padding_idx={self.padding_idx}" if self.padding_idx is not None else ""
        ordered = "" if self.row_order is None else ", ordered"
        return (
            f"{self.num_embeddings}, {self.embedding_dim}, row_shape={self.row_shape}, col_shape={self.col_shape}, "
            f"ranks={self.ranks}, compression_ratio={self.compression_ratio:.1f}, spare_rows={self.spare_rows}"
            f"{optional}{ordered}, frozen={self.frozen}"
        )
