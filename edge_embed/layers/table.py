"""`CompressedEmbedding`: base class of the embedding layers of all methods.

A method defines the content of its table and the computation of training rows. Lookup, bags, logits, padding, dtypes
and capture for export are the same for all methods.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from numbers import Real
from operator import index
from typing import Any, NamedTuple, Self, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional

from edge_embed.errors import BadInputError
from edge_embed.ops.ids import check_id_range, integer_ids
from edge_embed.ops.logits import check_hidden, in_autocast_type, row_blocks
from edge_embed.ops.operators import TableOperators
from edge_embed.ops.topk import TopK, largest
from edge_embed.packed.packed_form import PackedTable, Use
from edge_embed.packed.topk import check_k

Sizes = Mapping[str, Sequence[int]]
Memory = dict[str, Tensor]  # tensors that a method keeps for recomputing rows, by name

_MOST = 1 << 40  # sizes beyond this overflow in torch before they fill the memory


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
        self.dtype = dtype or torch.get_default_dtype()
        if not self.dtype.is_floating_point:
            raise BadInputError(f"dtype must be a float type, got {self.dtype}")

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
        flat = hidden.reshape(-1, self.embedding_dim)  # [B, d]
        _, end = next(row_blocks(self.num_embeddings, self.embedding_dim))
        # An accelerator has no kernel that recomputes the distances of DPQ: all rows would keep K D numbers each.
        are_few = hidden.device.type == "cpu" and len(flat) >= self.embedding_dim
        if end == self.num_embeddings or are_few:
            return _logits_of_all_rows(self, hidden, bias)
        logits = _BlockedLogits.apply(self, flat, bias, *self.parameters())  # type: ignore[no-untyped-call]
        result: Tensor = logits.reshape(*hidden.shape[:-1], self.num_embeddings)
        return result

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


def _logits_of_all_rows(layer: CompressedEmbedding, hidden: Tensor, bias: Tensor | None) -> Tensor:
    """Return the logits ``[*, n]`` from all rows, which stay in memory for the faster backward pass.

    Used for small tables, and for tables of fewer numbers than the logits.
    """
    ids = slice(0, layer.num_embeddings)
    own = torch.arange(ids.stop, device=hidden.device) if layer.own_rows is None else layer.own_rows
    block = _block(layer, ids, own, update=not is_recomputed(), memory={})
    rows = block.without_padding(block.rows).to(hidden.dtype)
    with torch.autocast(hidden.device.type, enabled=False):  # keep the dtype of hidden states, as with blocks
        return functional.linear(hidden, rows, bias)


class _BlockedLogits(torch.autograd.Function):
    """hidden [B, d], bias [n] -> logits [B, n], one block of rows at a time; the backward pass recomputes the rows.

    A bias is an additional column of the rows, with 1 in the hidden states. A separate pass over all logits would take
    as long as much of the product.
    """

    @staticmethod
    def forward(
        ctx: Any, layer: CompressedEmbedding, hidden: Tensor, bias: Tensor | None, *parameters: Tensor
    ) -> Tensor:
        ctx.layer, ctx.memories, ctx.has_bias = layer, defaultdict(dict), bias is not None
        hidden = hidden if bias is None else torch.cat((hidden, torch.ones_like(hidden[:, :1])), 1)  # [B, d or d + 1]
        ctx.save_for_backward(hidden, *parameters)
        logits = hidden.new_empty(hidden.shape[0], layer.num_embeddings)
        for block in _blocks(layer, hidden.device, ctx.memories, update=True):
            rows = block.without_padding(block.rows).to(hidden.dtype)
            if bias is not None:
                rows = torch.cat((rows, bias[block.place].unsqueeze(1)), 1)
            torch.mm(hidden, rows.t(), out=logits[:, block.place])
        return logits

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, *_ = ctx.saved_tensors  # saved parameters are only checked for changes; hooks may return copies
        width = ctx.layer.embedding_dim
        parameters, own_rows = list(ctx.layer.parameters()), ctx.layer.own_rows
        learned = {id(parameter): torch.zeros_like(parameter) for parameter in parameters if parameter.requires_grad}
        shared = [parameter for parameter in parameters if parameter.requires_grad and parameter is not own_rows]
        of_hidden = torch.zeros_like(hidden[:, :width])
        of_bias = hidden.new_empty(ctx.layer.num_embeddings) if ctx.has_bias else None
        with torch.enable_grad():
            for block in _blocks(ctx.layer, hidden.device, ctx.memories, update=False):
                gradient = gradients[0][:, block.place]  # [B, block]
                of_hidden += gradient @ block.without_padding(block.rows.detach()).to(hidden.dtype)
                of_rows = gradient.t() @ hidden  # [block, d or d + 1]
                if of_bias is not None:
                    of_bias[block.place] = of_rows[:, width]
                of_rows = block.without_padding(of_rows[:, :width]).to(block.rows.dtype)
                wanted = [block.own, *shared] if block.own.requires_grad else shared
                parts = list(torch.autograd.grad(block.rows, wanted, of_rows, materialize_grads=True))
                if block.own.requires_grad:
                    learned[id(own_rows)][block.place] = parts.pop(0)
                for parameter, part in zip(shared, parts, strict=True):
                    learned[id(parameter)] += part
        return None, of_hidden, of_bias, *(learned.get(id(parameter)) for parameter in parameters)


class _Block(NamedTuple):
    """Consecutive rows in training.

    Attributes:
        place: slice of their ids.
        padding: position of the padding row among them, or None.
        own: rows of `own_rows`, or ids. With several blocks it is a leaf of autograd: the gradient of a part of
            `own_rows` would be as large as the whole parameter, for each block.
        rows: [block, d]; the padding row holds anything.
    """

    place: slice
    padding: int | None
    own: Tensor
    rows: Tensor

    def without_padding(self, numbers: Tensor) -> Tensor:
        """Return numbers of each row, [block, *], with 0 for the padding row."""
        if self.padding is None:
            return numbers
        return numbers.index_fill(0, torch.tensor([self.padding], device=numbers.device), 0.0)


def _blocks(
    layer: CompressedEmbedding, device: torch.device, memories: Mapping[int, Memory], update: bool
) -> Iterator[_Block]:
    """Yield all rows in blocks; each row counts once, the padding row not at all."""
    own_rows, update = layer.own_rows, update and not is_recomputed()
    for begin, end in row_blocks(layer.num_embeddings, layer.embedding_dim):
        place = slice(begin, end)
        if own_rows is None:
            own = torch.arange(begin, end, device=device)
        else:
            own = own_rows[place].detach().requires_grad_(own_rows.requires_grad)
        yield _block(layer, place, own, update, memories[begin])


def _block(layer: CompressedEmbedding, place: slice, own: Tensor, update: bool, memory: Memory) -> _Block:
    """Return the block of the ids in ``place``, computed from ``own``."""
    counts = torch.ones(place.stop - place.start, dtype=torch.int64, device=own.device)
    padding = None
    if layer.padding_idx is not None and place.start <= layer.padding_idx < place.stop:
        padding = layer.padding_idx - place.start
        counts[padding] = 0
    rows = layer.training_block(place.start, place.stop, own, counts, update, memory)
    return _Block(place, padding, own, rows)


def is_recomputed() -> bool:
    """Return whether a backward pass runs: `torch.utils.checkpoint` repeats forward passes there, which have counted.

    False while ``torch.compile`` traces, because the caller of the graph is unknown then.
    """
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1


def is_transformed(*tensors: Tensor) -> bool:
    """Return whether a tensor belongs to a transform of ``torch.func``; such tensors must not leave the transform."""
    return any(torch._C._functorch.is_functorch_wrapped_tensor(tensor) for tensor in tensors)


def checked_count(name: str, count: object, least: int = 1) -> int:
    """Return the number; raise `BadInputError` unless it is an integer of Python or numpy and at least ``least``."""
    number = _integer(count)
    if number is None:
        raise BadInputError(f"{name} must be an integer, got {count!r:.80}")
    if number < least:
        raise BadInputError(f"{name} must be at least {least}, got {number}")
    if number > _MOST:
        raise BadInputError(f"{name} must be at most {_MOST}, got {number:.3g}")
    return number


def _integer(value: object) -> int | None:
    """Return the value as an ``int`` if it is an integer of Python or numpy, else None."""
    try:
        return None if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def is_number(value: object) -> TypeGuard[float]:
    """Return whether the value is a real number, of Python or of numpy."""
    return isinstance(value, Real) and not isinstance(value, bool)


def checked_counts(counts: object) -> Tensor:
    """Return the frequency of each token as float64 [n]; raise `BadInputError` unless they are finite numbers [n]."""
    try:
        given = torch.as_tensor(counts).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadInputError(f"counts: got {counts!r:.80}, expected a number for each token, [n]") from error
    if given.is_complex() or given.ndim != 1 or not len(given):
        raise BadInputError(f"counts: got {given.dtype} {list(given.shape)}, expected a number for each token, [n]")
    if not (finite := given.isfinite()).all():
        token = int((~finite).nonzero()[0])
        raise BadInputError(f"counts: got {float(given[token])} for token {token}, expected finite numbers")
    return given.double().cpu()


def checked_padding(padding_idx: int | None, num_embeddings: int) -> int | None:
    """Return the padding row counted from 0; negative ids count from the end, as for ``nn.Embedding``."""
    if padding_idx is None:
        return None
    row = _integer(padding_idx)
    if row is None:
        raise BadInputError(f"padding_idx must be an integer or None, got {padding_idx!r:.80}")
    if not -num_embeddings <= row < num_embeddings:
        raise BadInputError(f"padding_idx {row} is outside a table of {num_embeddings} rows")
    return row % num_embeddings
