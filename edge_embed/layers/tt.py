"""`TTEmbedding`: an embedding table learned as the cores of a tensor train.

    E[(i_1 ... i_N), (j_1 ... j_N)] = G_1[i_1, :, j_1, :] G_2[i_2, :, j_2, :] ... G_N[i_N, :, j_N, :]

Source: "Tensorized Embedding Layers for Efficient Model Compression" (ICLR 2020 submission), eq. (1) and (2).
Arithmetic and the order of indices: `edge_embed.ops.tt`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.layers import factorization
from edge_embed.layers.table import CompressedEmbedding, check_count
from edge_embed.ops import tt
from edge_embed.ops.operators import TableOperators
from edge_embed.ops.storage import StoredType, rounded
from edge_embed.packed.tt import PackedTT
from edge_embed.packed.tt_shape import MAX_CORES, MIN_CORES, TTShape

_DEFAULT_CORES = 3


_MOST_FACTORED = 10**9  # rows; the search takes a second there


class TTEmbedding(CompressedEmbedding):
    """Drop-in for ``nn.Embedding`` whose table is a product of a few small cores.

    The layer has two states. *Trainable* keeps ``cores``, parameters [I_k, R_{k-1}, J_k, R_k]. *Frozen* (after
    `freeze` or `from_packed`) keeps the same numbers as buffers ``core_0`` ... and no longer learns. The dense table
    is never built, neither in training nor later.

    Rows whose ids share leading digits share cores, so the order of the vocabulary matters; the paper sorts it by
    frequency. Its compression ratio is n d / sum_k I_k R_{k-1} J_k R_k.

    A checkpoint of another n is refused, as every layer does it. Cores alone do not tell n: ``state_dict()`` notes it
    in the metadata that ``torch.save`` writes, but a safetensors file has tensors only and is not checked.

    Args:
        num_embeddings: rows n.
        embedding_dim: d.
        rank: R, one for all or R_1 ... R_{N-1}; the paper uses 16 for small vocabularies and 64 to 192 for large
            ones. What is more than the shapes can use is cut off.
        row_shape: I_1 ... I_N with a product of at least n; by default even factors of n rounded up.
        col_shape: J_1 ... J_N with the product d; by default even factors of d.
        num_cores: N, 2 to 6; by default that of a given shape, else 3.
        padding_idx: this row is exactly zero and gets no gradient.
        device: as for ``nn.Embedding``.
        dtype: as for ``nn.Embedding``; export wants float32 or float16.

    Shape:
        ids of any integer dtype and any shape (*), 0-d and empty included -> (*, d).

    Raises:
        BadInputError: for impossible sizes, or ids that are not integers.
        IdOutOfRangeError: for ids below 0 or at least n (on an accelerator its own gather asserts).
    """

    cores: nn.ParameterList

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        rank: int | Sequence[int],
        row_shape: Sequence[int] | None = None,
        col_shape: Sequence[int] | None = None,
        num_cores: int | None = None,
        padding_idx: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, dtype)
        count = _number_of_cores(num_cores, row_shape, col_shape)
        rows = _automatic_rows(num_embeddings, count) if row_shape is None else row_shape
        columns = factorization.column_shape(embedding_dim, count) if col_shape is None else col_shape
        self.row_shape = _checked("row_shape", rows, count)
        self.col_shape = _checked("col_shape", columns, count)
        self.ranks = self._clipped_ranks(rank)
        self._check_sizes()
        shapes = zip(self.row_shape, self.ranks, self.col_shape, self.ranks[1:], strict=False)
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.cores = nn.ParameterList(nn.Parameter(torch.empty(shape, **options)) for shape in shapes)
        self.reset_parameters()

    def _check_sizes(self) -> None:
        TTShape(self.num_embeddings, self.row_shape, self.col_shape, self.ranks)  # refuses what cannot be packed later
        width = math.prod(self.col_shape)
        if width != self.embedding_dim:
            raise BadInputError(
                f"col_shape {list(self.col_shape)} makes {width} columns, got embedding_dim {self.embedding_dim}"
            )

    def _clipped_ranks(self, rank: int | Sequence[int]) -> tuple[int, ...]:
        """R_0 ... R_N; R_k is no more than the rows or columns of the matrix that it separates."""
        count = len(self.row_shape)
        inner = rank if isinstance(rank, Sequence) else [rank] * (count - 1)
        sizes = [i * j for i, j in zip(self.row_shape, self.col_shape, strict=True)]
        given = _checked("rank", inner, count - 1)
        bounds = (min(math.prod(sizes[:k]), math.prod(sizes[k:])) for k in range(1, count))
        return (1, *map(min, given, bounds), 1)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the cores anew, normal, so that the variance in E is 2 / (rows + columns), as Glorot's (eq. 2)."""
        count, paths = len(self.cores), math.prod(self.ranks)
        variance = 2 / (math.prod(self.row_shape) + self.embedding_dim)
        for core in self.cores:
            nn.init.normal_(core, std=(variance / paths) ** (0.5 / count))

    @classmethod
    def from_packed(cls, packed: PackedTT) -> Self:
        """A frozen layer over the cores of ``packed``, which are copied."""
        shape = packed.shape
        layer = cls(
            packed.num_embeddings,
            packed.embedding_dim,
            shape.ranks[1:-1],
            shape.row_shape,
            shape.col_shape,
            padding_idx=packed.padding_idx,
            device="meta",
        )
        layer.ranks = shape.ranks
        layer._become_frozen([torch.tensor(core) for core in packed.cores])
        return layer

    @property
    def frozen(self) -> bool:
        """Whether the cores are buffers and no longer learn."""
        return "core_0" in self._buffers

    @property
    def stored_type(self) -> torch.dtype:
        """Type of the cores."""
        return self._cores()[0].dtype

    def _cores(self) -> list[Tensor]:
        if self.frozen:
            return [getattr(self, f"core_{k}") for k in range(len(self.row_shape))]
        return list(self.cores)

    def to_packed(self) -> PackedTT:
        """The packed form: the cores as they are."""
        return tt.pack(self._cores(), self.num_embeddings, self.padding_idx)

    def freeze(self, value_type: StoredType | None = None) -> Self:
        """Make the cores buffers, in place.

        Args:
            value_type: ``"float16"`` halves the cores and rounds them; rows keep the type of the layer. By default
                cores stay as they are.

        Raises:
            BadInputError: if a number is not finite, also after rounding, or of a type that is not stored.
        """
        cores = [core.detach() for core in self._cores()]
        if value_type is not None:
            cores = [rounded(core, value_type) for core in cores]
        tt.pack(cores, self.num_embeddings, self.padding_idx)  # refuses what cannot be stored, before anything is lost
        self._become_frozen(cores)
        return self

    def _become_frozen(self, cores: Sequence[Tensor]) -> None:
        if not self.frozen:
            del self.cores
        for k, core in enumerate(cores):
            self.register_buffer(f"core_{k}", core)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Note n in torch's metadata of the checkpoint: cores of the same shapes hold tables of several sizes."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        metadata: dict[str, dict[str, Any]] = getattr(destination, "_metadata", {})  # a user's plain dict has none
        metadata.get(prefix[:-1], {})["num_embeddings"] = self.num_embeddings

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, local_metadata: Mapping[str, Any], *rest: Any
    ) -> None:
        """A frozen checkpoint makes this layer frozen, so that it can be loaded by constructing the model."""
        noted = local_metadata.get("num_embeddings", self.num_embeddings)  # safetensors, for one, notes nothing
        if noted != self.num_embeddings:
            errors: list[str] = rest[-1]
            sizes = f"a table of {noted!r:.80} rows from the checkpoint, {self.num_embeddings} in the current model"
            errors.append(f"size mismatch for {prefix.removesuffix('.') or 'the table'}: {sizes}.")
        stored = state_dict.get(prefix + "core_0")
        if isinstance(stored, Tensor):
            self._become_frozen([torch.zeros_like(core, dtype=stored.dtype) for core in self._cores()])
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _table(self) -> tuple[TableOperators, tuple[Any, ...]]:
        return tt.TT, (self._cores(), self.num_embeddings, self.padding_idx)

    def training_rows(self, ids: Tensor, counts: Tensor, share: float = 1.0, update: bool = True) -> Tensor:
        """Rows [B, d] of ids int64 [B] by eq. (1)."""
        return tt.chain(ids, self._cores())

    def extra_repr(self) -> str:
        """Sizes and state, as ``print(model)`` shows them."""
        optional = f", padding_idx={self.padding_idx}" if self.padding_idx is not None else ""
        return (
            f"{self.num_embeddings}, {self.embedding_dim}, row_shape={self.row_shape}, col_shape={self.col_shape}, "
            f"ranks={self.ranks}{optional}, frozen={self.frozen}"
        )


def _automatic_rows(num_embeddings: int, count: int) -> tuple[int, ...]:
    if num_embeddings > _MOST_FACTORED:
        raise BadInputError(
            f"row_shape cannot be found for {num_embeddings} rows (above {_MOST_FACTORED}): give row_shape"
        )
    return factorization.row_shape(num_embeddings, count)


def _number_of_cores(given: int | None, *shapes: Sequence[int] | None) -> int:
    lengths = {len(shape) for shape in shapes if shape is not None} | ({given} if given is not None else set())
    if len(lengths) > 1:
        raise BadInputError(f"row_shape, col_shape and num_cores must speak of as many cores, got {sorted(lengths)}")
    count = lengths.pop() if lengths else _DEFAULT_CORES
    check_count("num_cores", count)
    if not MIN_CORES <= count <= MAX_CORES:
        raise BadInputError(f"a tensor train has {MIN_CORES} to {MAX_CORES} cores, got {count}")
    return count


def _checked(name: str, numbers: Sequence[int], count: int) -> tuple[int, ...]:
    """``count`` positive integers, as a tuple."""
    if len(numbers) != count:
        raise BadInputError(f"{name} {list(numbers)} has {len(numbers)} numbers, expected {count}")
    for k, number in enumerate(numbers):
        check_count(f"{name}[{k}]", number)
    return tuple(numbers)
