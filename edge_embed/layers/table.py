"""`CompressedEmbedding`: base class of the embedding layers of all methods.

A method defines the content of its table and the computation of training rows. Lookup, bags, logits, padding, dtypes
and capture for export are the same for all methods.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from edge_embed.layers.arguments import checked_count, checked_float_type, checked_padding
from edge_embed.layers.training_logits import logits_of_training_rows
from edge_embed.ops.autograd_state import is_recomputed, is_transformed
from edge_embed.ops.ids import check_id_range, integer_ids
from edge_embed.ops.logits import check_hidden, in_autocast_type
from edge_embed.ops.operators import TableOperators
from edge_embed.ops.topk import TopK, largest
from edge_embed.packed.packed_form import PackedTable, Use
from edge_embed.packed.topk import check_k

Sizes = Mapping[str, Sequence[int]]
Memory = dict[str, Tensor]  # tensors that a method keeps for recomputing rows, by name


class CompressedEmbedding(nn.Module, ABC):
    """Base of the embedding layers: an ``nn.Embedding`` whose table is never stored dense.

    Args:
        num_embeddings: number of rows n.
        embedding_dim: width d of a row.
        padding_idx: id of the padding row, which is exactly zero and gets no gradient; negative ids count from the end.
        dtype: dtype of the rows, as for ``nn.Embedding``.

    Raises:
        BadInputError: for impossible sizes, or a dtype that is not a float type.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = checked_count("num_embeddings", num_embeddings)
        self.embedding_dim = checked_count("embedding_dim", embedding_dim)
        self.padding_idx = checked_padding(padding_idx, self.num_embeddings)
        self.dtype = checked_float_type(dtype)

    def __getattr__(self, name: str) -> Any:
        """Raise an error that names the replacements of ``weight``, which code of a model may ask for."""
        if name == "weight":
            raise AttributeError(
                f"{type(self).__name__} has no dense weight: look rows up, compute logits with "
                "edge_embed.TiedOutput(layer), or save the dense model and compress the file, which finds such uses"
            )
        return super().__getattr__(name)

    @property
    @abstractmethod
    def frozen(self) -> bool:
        """Return whether the layer holds only the numbers stored for inference and can no longer be trained."""

    @abstractmethod
    def to_packed(self) -> PackedTable:
        """Return the packed form of the table as it is in eval mode."""

    @abstractmethod
    def freeze(self) -> Self:
        """Keep only the numbers stored for inference, in place; methods have options for the dtypes to round to."""

    @abstractmethod
    def _table(self) -> tuple[TableOperators, tuple[Any, ...]]:
        """Return the operators of the present state and the arguments that identify the table."""

    @property
    def own_rows(self) -> nn.Parameter | None:
        """The parameter [n, *] with one row for each row of the table, or None if the method has none."""
        return None

    @abstractmethod
    def training_rows(self, own: Tensor, counts: Tensor, update: bool = True, memory: Memory | None = None) -> Tensor:
        """Return the differentiable rows of training.

        Args:
            own: rows [B, *] of `own_rows`, or ids int64 [B], in range, if there is no such parameter.
            counts: number of occurrences of each row in the step, int64 [B]; 0 for the padding row.
            update: whether the method's statistics follow these rows; false if rows are recomputed.
            memory: tensors for a later recomputation of these rows; the method fills an empty dict.

        Returns:
            [B, d]; the padding row may hold anything.
        """

    def training_block(self, begin: int, end: int, own: Tensor, counts: Tensor, update: bool, memory: Memory) -> Tensor:
        """Return `training_rows` of the ids begin .. end - 1; a method may override this with a faster computation."""
        return self.training_rows(own, counts, update, memory)

    @property
    @abstractmethod
    def stored_type(self) -> torch.dtype:
        """Dtype of the rows as the table stores them; `forward` returns rows in ``dtype``."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Apply ``.half()``, ``.to(dtype)`` and similar to ``dtype`` too: the table may be stored in another dtype."""
        self.dtype = fn(torch.empty(0, dtype=self.dtype)).dtype
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _noted(self) -> dict[str, Any]:
        """Return properties of the table that its tensors do not show, by name; checkpoints record them."""
        return {}

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Record these properties in torch's metadata of the checkpoint."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        metadata: dict[str, dict[str, Any]] = getattr(destination, "_metadata", {})  # a plain dict has none
        metadata.get(prefix[:-1], {}).update(self._noted())

    def _is_noted(self, state_dict: MutableMapping[str, Any], prefix: str, rest: tuple[Any, ...]) -> bool:
        """Return whether a checkpoint records the properties of this layer; if not, leave the layer unchanged.

        Properties that the checkpoint does not record are not compared. The arguments are those of `_takes`; ``rest``
        begins with the metadata.
        """
        metadata, *_, errors = rest  # safetensors, for example, records no properties
        wrong = [
            f"size mismatch for {prefix.removesuffix('.') or 'the table'}: {name} {metadata[name]!s:.80} from the "
            f"checkpoint, {own} in the current model."
            for name, own in self._noted().items()
            if metadata.get(name, own) != own
        ]
        errors += wrong
        if wrong:
            state_dict.update(self.state_dict(prefix=prefix, keep_vars=True))
        return not wrong

    def _takes(self, state_dict: MutableMapping[str, Any], prefix: str, sizes: Sizes, rest: tuple[Any, ...]) -> bool:
        """Return whether a frozen checkpoint has tensors of these sizes; if not, leave the layer unchanged.

        Args:
            state_dict: as for ``_load_from_state_dict``.
            prefix: prefix of the layer, as for ``_load_from_state_dict``.
            sizes: sizes of all tensors that the layer is going to have.
            rest: other arguments of ``_load_from_state_dict``; the reasons for a refusal are added there in torch's
                words.
        """
        missing, _, errors = rest[-3:]
        stored = {name: state_dict.get(prefix + name) for name in sizes}
        absent = [prefix + name for name, tensor in stored.items() if not isinstance(tensor, Tensor)]
        wrong = [
            f"size mismatch for {prefix}{name}: copying a param with shape {tensor.shape} from checkpoint, "
            f"the shape in current model is {torch.Size(sizes[name])}."
            for name, tensor in stored.items()
            if isinstance(tensor, Tensor) and tensor.shape != torch.Size(sizes[name])
        ]
        missing += absent
        errors += wrong
        if absent or wrong:  # torch visits the parts of the layer next: let them find their own tensors
            state_dict.update(self.state_dict(prefix=prefix, keep_vars=True))
        return not (absent or wrong)

    @property
    def learns(self) -> bool:
        """Return whether the forward pass is that of training."""
        return self.training and not self.frozen

    def forward(self, ids: Tensor) -> Tensor:
        """Look up the rows of ``ids``: integers of shape ``(*)`` -> ``(*, d)``.

        Raises:
            BadInputError: for ids that are not integers.
            IdOutOfRangeError: for ids below 0 or at least n (on an accelerator, its own gather asserts).
        """
        ids = integer_ids(ids)
        if self.learns:
            return self._learning_rows(ids.reshape(-1).long()).reshape(*ids.shape, self.embedding_dim)
        return self.use("rows", ids)

    def logits(self, hidden: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the products with every row of the table: ``[*, d]`` -> ``[*, n]``.

        Rows are computed in blocks of 2^20 numbers. The exception is training on the CPU with d or more hidden states:
        all rows are then kept, which are no more numbers than the logits.

        Args:
            hidden: ``[*, d]``. Logits have its dtype, or the dtype of ``torch.autocast`` inside it, like those of
                ``nn.Linear``.
            bias: [n], added to the logits in their dtype.

        Raises:
            BadInputError: for hidden states that are not float ``[*, d]``.
        """
        if self.learns:
            check_hidden(hidden, self.embedding_dim)
        hidden = in_autocast_type(hidden)
        offsets = None if bias is None else bias.to(hidden.dtype)
        if self.learns:
            return self.training_logits(hidden, offsets)
        logits = self.use("logits", hidden)
        return logits if offsets is None else logits + offsets

    def topk(self, hidden: Tensor, k: int, bias: Tensor | None = None) -> TopK:
        """Return the ``k`` largest of ``logits(hidden) + bias``, values and ids ``[*, k]``, as `TiedOutput.topk`.

        Raises:
            BadInputError: for hidden states that are not float ``[*, d]``, or ``k`` outside 1 to 1000 and n.
        """
        check_k(k, self.num_embeddings)
        check_hidden(hidden, self.embedding_dim)
        hidden = in_autocast_type(hidden)
        offsets = None if bias is None else bias.to(hidden.dtype)
        if self.learns:
            return largest(self.training_logits(hidden, offsets), k)
        operators, table = self._table()
        return TopK(*operators("topk", hidden, offsets, k, *table))

    def training_logits(self, hidden: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the logits of training plus a bias [n]; a method with a faster computation overrides this."""
        return logits_of_training_rows(self, hidden, bias)

    def use(self, use: Use, *arguments: Any) -> Tensor:
        """Run one use of the table as at inference; rows stored in another dtype are converted to ``dtype``."""
        operators, table = self._table()
        result: Tensor = operators(use, *arguments, *table)
        return result if use == "logits" or self.stored_type == self.dtype else result.to(self.dtype)

    def _learning_rows(self, ids: Tensor) -> Tensor:
        """Return training rows [B, d] of checked ids int64 [B]. On the CPU a repeated id is computed once."""
        check_id_range(ids, self.num_embeddings)
        # Unique ids would make an accelerator wait. Their number is unknown while ``torch.compile`` traces and under
        # ``torch.vmap``.
        if torch.compiler.is_compiling() or ids.device.type != "cpu" or is_transformed(ids):
            return self._counted_rows(ids, torch.ones_like(ids))
        each, places, counts = ids.unique(return_inverse=True, return_counts=True)
        return functional.embedding(places, self._counted_rows(each, counts))

    def _counted_rows(self, ids: Tensor, counts: Tensor) -> Tensor:
        """Return `training_rows` with a padding row of zeros."""
        own = ids if self.own_rows is None else functional.embedding(ids, self.own_rows)
        update = not is_recomputed()
        if self.padding_idx is None:
            return self.training_rows(own, counts, update=update)
        is_padding = ids == self.padding_idx
        rows = self.training_rows(own, counts.masked_fill(is_padding, 0), update=update)
        return rows.masked_fill(is_padding.unsqueeze(-1), 0.0)
