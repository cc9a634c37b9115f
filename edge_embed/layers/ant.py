"""`ANTEmbedding`, an embedding table trained as anchors and a sparse transform.

    E = T A        T >= 0 sparse [n, A], A anchors [A, d]

Source: "Anchor & Transform: Learning Sparse Embeddings for Large Vocabularies" (ICLR 2021), eq. (1). The proximal step
after each step of the optimiser, eq. (3), makes T sparse: `edge_embed.layers.proximal`. Arithmetic:
`edge_embed.ops.ant`.
"""

import math
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from edge_embed.errors import BadInputError
from edge_embed.keywords import suggests_keywords
from edge_embed.layers.arguments import checked_count
from edge_embed.layers.table import CompressedEmbedding, Memory
from edge_embed.ops import ant
from edge_embed.ops.ids import check_id_range, integer_ids
from edge_embed.ops.operators import TableOperators
from edge_embed.ops.storage import StoredType, rounded, stored_array
from edge_embed.packed.ant import PackedANT
from edge_embed.packed.packed_form import check_form

_CSR = ("row_offsets", "anchor_ids", "weights", "weight_scale")


@suggests_keywords
class ANTEmbedding(CompressedEmbedding):
    """Drop-in for ``nn.Embedding`` whose rows are sparse combinations, with weights >= 0, of shared anchors.

    The layer has two states. A trainable layer holds ``anchors`` [A, d] and ``transform`` [n, A]; entries below zero
    count as zero. Wrap its optimiser in `edge_embed.ProximalOptimizer`, which makes most entries exactly zero. Without
    it the table hardly shrinks. A frozen layer (after `freeze` or `from_packed`) holds the nonzeros in CSR form and
    can no longer be trained: ``row_offsets`` int32 [n + 1], ``anchor_ids`` unsigned [nnz], ``weights`` [nnz],
    ``weight_scale`` [1], and ``anchors``. The dense table is never materialised, neither in training nor later.

    The paper counts A d + nnz(T) stored numbers. `start_from` begins with anchors known beforehand (section 3.1).
    `edge_embed.layers.anchors` selects them by frequency, TF-IDF or clustering. By default anchors are drawn around
    zero. The authors' code draws them above zero, so all rows begin alike. On AG News (A = 10, five seeds,
    `samples/ag_news/defaults.md`) a start above zero scored .879 and the default .890 (difference .011 ± .010, 95 %).
    The lowest scores were .870 and .889.

    Args:
        num_embeddings: number of rows n.
        embedding_dim: width d of a row.
        num_anchors: number of anchors A. The paper uses 5 to 100 for classification and 500 to 2,000 for language
            models. `edge_embed.AnchorSearch` selects it while training.
        padding_idx: id of the padding row, which is exactly zero and gets no gradient.
        device: as for ``nn.Embedding``.
        dtype: as for ``nn.Embedding``; export requires float32 or float16.

    Shape:
        ids of any integer dtype and any shape ``(*)``, 0-d and empty included -> ``(*, d)``.

    Raises:
        BadInputError: for impossible sizes, or ids that are not integers.
        IdOutOfRangeError: for ids below 0 or at least n (on an accelerator, its own gather asserts).
    """

    transform: nn.Parameter
    anchors: Tensor
    row_offsets: Tensor
    anchor_ids: Tensor
    weights: Tensor
    weight_scale: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        num_anchors: int,
        padding_idx: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, dtype)
        self.num_anchors = checked_count("num_anchors", num_anchors)
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.anchors = nn.Parameter(torch.empty(self.num_anchors, self.embedding_dim, **options))
        self.transform = nn.Parameter(torch.empty(self.num_embeddings, self.num_anchors, **options))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw new anchors around zero and a new transform above zero; the padding row is zero."""
        draw(self.anchors, len(self.anchors))
        draw(self.transform, len(self.transform)).abs_()
        if self.padding_idx is not None:
            self.transform[self.padding_idx] = 0

    @torch.no_grad()
    def start_from(self, anchor_ids: Tensor | None = None, vectors: Tensor | None = None) -> Self:
        """Initialise training from known anchors (section 3.1). An omitted argument leaves its parameter unchanged.

        Args:
            anchor_ids: token of each anchor, integers [A], all different. The row of a token becomes its anchor alone:
                T[token, anchor] = 1 and 0 elsewhere, as in appendix I. Of other rows the paper says only that they
                begin sparse.
            vectors: anchors, float [A, d], such as ``pretrained[anchor_ids]`` or centres of k-means.

        Returns:
            The layer itself.

        Raises:
            BadInputError: for other shapes, numbers that are not finite in the layer's dtype, a token given twice, the
                padding row as a token, or a frozen layer.
            IdOutOfRangeError: for an id outside the table.
        """
        if self.frozen:
            raise BadInputError("the layer is frozen and no longer trained: call start_from before training")
        tokens = None if anchor_ids is None else self._checked_tokens(anchor_ids)
        if vectors is not None:
            self.anchors.copy_(self._checked_vectors(vectors))
        if tokens is not None:
            self.transform[tokens] = torch.eye(self.num_anchors).to(self.transform)
        return self

    def _checked_vectors(self, vectors: Tensor) -> Tensor:
        expected = f"expected numbers {list(self.anchors.shape)} that are finite in {self.anchors.dtype}"
        try:
            given = torch.as_tensor(vectors)
        except (TypeError, ValueError, RuntimeError):
            raise BadInputError(f"vectors: got {vectors!r:.80}, {expected}") from None
        if given.is_complex() or given.shape != self.anchors.shape:
            raise BadInputError(f"vectors: got {given.dtype} {list(given.shape)}, {expected}")
        if not given.to(self.anchors.dtype).isfinite().all():
            raise BadInputError(f"vectors: got NaN, infinity or a number that is too large, {expected}")
        return given

    def _checked_tokens(self, anchor_ids: Tensor) -> Tensor:
        tokens = integer_ids(anchor_ids).long()
        check_id_range(tokens, self.num_embeddings)
        if tokens.shape != (self.num_anchors,) or len(tokens.unique()) < len(tokens):
            shape, different = list(tokens.shape), len(tokens.unique())
            expected = f"expected {self.num_anchors} different tokens, one for each anchor"
            raise BadInputError(f"anchor_ids: got shape {shape} with {different} different tokens, {expected}")
        if self.padding_idx is not None and (tokens == self.padding_idx).any():
            raise BadInputError(f"anchor_ids: got {self.padding_idx}, the padding row, which cannot be an anchor")
        return tokens.to(self.transform.device)

    @classmethod
    def from_packed(cls, packed: PackedANT) -> Self:
        """Return a frozen layer with a copy of the arrays of ``packed``.

        Raises:
            BadInputError: if ``packed`` is a table of another method.
        """
        check_form(packed, PackedANT)
        num_anchors, embedding_dim = packed.anchors.shape
        layer = cls(packed.num_embeddings, embedding_dim, num_anchors, padding_idx=packed.padding_idx, device="meta")
        layer._become_frozen(packed)
        return layer

    @property
    def frozen(self) -> bool:
        """Return whether the layer holds only nonzeros and anchors and can no longer be trained."""
        return "row_offsets" in self._buffers

    @property
    def stored_type(self) -> torch.dtype:
        """Dtype of the anchors."""
        return self.anchors.dtype

    def to_packed(self) -> PackedANT:
        """Return the packed form: the nonzeros of the transform and the anchors."""
        if not self.frozen:
            return ant.pack(*self._linear_form(), self.padding_idx)
        csr: dict[str, Any] = {name: self.get_buffer(name).cpu().numpy() for name in _CSR}
        return PackedANT(**csr, anchors=stored_array(self.anchors), padding_idx=self.padding_idx)

    def freeze(self, weight_type: ant.WeightType | None = None, value_type: StoredType | None = None) -> Self:
        """Keep only the nonzeros and the anchors, in place.

        Args:
            weight_type: dtype of the nonzeros: ``"float32"``, ``"float16"``, or ``"int8"`` with one scale for all.
                By default it stays the same. Nonzeros that round to zero are dropped.
            value_type: dtype of the anchors, ``"float32"`` or ``"float16"``. By default it stays the same. Rows keep
                the dtype of the layer.

        Returns:
            The layer itself.

        Raises:
            BadInputError: if a weight is not finite before or after rounding, or a dtype cannot be stored.
        """
        transform, anchors = (None, self.anchors) if self.frozen else self._linear_form()
        anchors = anchors if value_type is None else rounded(anchors, value_type)
        if transform is not None:
            self._become_frozen(ant.pack(transform, anchors, self.padding_idx, weight_type))
        elif weight_type is not None:
            self._become_frozen(ant.with_weight_type(self.to_packed(), weight_type))
        self.anchors = anchors.detach()
        return self

    def _become_frozen(self, packed: PackedANT) -> None:
        device = None if self.anchors.is_meta else self.anchors.device  # a layer from a packed form has no device yet
        self._keep({name: torch.tensor(array, device=device) for name, array in packed.tensors().items()})

    def _keep(self, buffers: Mapping[str, Tensor]) -> None:
        """Replace the parameters with these buffers."""
        for name in ("transform", *buffers):
            if hasattr(self, name):
                delattr(self, name)
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor)

    def _noted(self) -> dict[str, Any]:
        """Return the mixing of anchors, which a transform of any size leaves open."""
        return {"mixing": "linear"}

    def _load_from_state_dict(self, state_dict: MutableMapping[str, Any], prefix: str, *rest: Any) -> None:
        """Make the layer frozen if the checkpoint is; the checkpoint gives the number of nonzeros."""
        if not self._is_noted(state_dict, prefix, rest):
            return
        weights = state_dict.get(prefix + "weights")
        if isinstance(weights, Tensor):
            nonzeros, anchors = (weights.numel(),), (self._stored_anchors, self.embedding_dim)
            sizes = dict(zip(_CSR, ((self.num_embeddings + 1,), nonzeros, nonzeros, (1,)), strict=True))
            if not self._takes(state_dict, prefix, {**sizes, "anchors": anchors}, rest):
                return
            stored = {name: state_dict[prefix + name] for name in (*_CSR, "anchors")}
            self._keep({name: torch.zeros_like(part, device=self.anchors.device) for name, part in stored.items()})
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Apply ``.half()`` and similar to the anchors. Frozen weights keep theirs: rounding could make zeros."""
        kept = {name: self.get_buffer(name) for name in ("weights", "weight_scale") if self.frozen}
        super()._apply(fn, recurse)
        for name, tensor in kept.items():
            moved = self.get_buffer(name)
            if moved.dtype != tensor.dtype:
                setattr(self, name, tensor.to(moved.device))
        return self

    def _table(self) -> tuple[TableOperators, tuple[Any, ...]]:
        if self.frozen:
            csr = (self.row_offsets, self.anchor_ids, self.weights, self.weight_scale)
            return ant.FROZEN, (*csr, self.anchors, self.padding_idx)
        return ant.TRAINABLE, (self.transform, self.anchors, self.padding_idx)

    def _weights_of(self, transform: Tensor) -> Tensor:
        """Return the weights of the anchors from rows of T: [B, A] -> [B, A]."""
        return transform.clamp(min=0)

    def _linear_form(self) -> tuple[Tensor, Tensor]:
        """Return the transform and the anchors whose product is the table; entries below zero count as zero."""
        return self.transform, self.anchors

    @property
    def _stored_anchors(self) -> int:
        """Number of anchors of the frozen layer."""
        return self.num_anchors

    @property
    def own_rows(self) -> nn.Parameter:
        """The transform [n, A]."""
        return self.transform

    def training_rows(
        self, transform: Tensor, counts: Tensor, update: bool = True, memory: Memory | None = None
    ) -> Tensor:
        """Return the rows [B, d] of rows [B, A] of the transform by eq. (1)."""
        return ant.products(self._weights_of(transform), self.anchors)

    def training_logits(self, hidden: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the logits ``[*, n]`` of ``[*, d]`` as (h A^T) T^T, with A numbers a row of T instead of d."""
        anchors, weights = self.anchors.to(hidden.dtype), self._weights_of(self.transform).to(hidden.dtype)
        if self.padding_idx is not None:
            padding = torch.tensor([self.padding_idx], device=weights.device)
            weights = weights.index_fill(0, padding, 0.0)
        return functional.linear(hidden @ anchors.t(), weights, bias)  # [*, A] -> [*, n]

    def extra_repr(self) -> str:
        """Return sizes and state for ``print(model)``."""
        optional = f", padding_idx={self.padding_idx}" if self.padding_idx is not None else ""
        nonzeros = f", nonzeros={self.weights.shape[0]}" if self.frozen else ""
        return (
            f"{self.num_embeddings}, {self.embedding_dim}, num_anchors={self.num_anchors}{optional}, "
            f"frozen={self.frozen}{nonzeros}"
        )


def draw(tensor: Tensor, rows: int) -> Tensor:
    """Fill with N(0, 2 / rows); the authors' code uses the absolute value of this for a matrix of so many rows."""
    return nn.init.normal_(tensor, std=math.sqrt(2 / rows))


def frozen_layer(packed: PackedANT) -> ANTEmbedding:
    """Return a frozen layer with a copy of a packed table."""
    return ANTEmbedding.from_packed(packed)
