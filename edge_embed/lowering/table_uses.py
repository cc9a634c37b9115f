"""Uses of a table in a graph: operators that look up rows, reduce bags, or multiply with all rows.

    embedding(E, ids)                 E[ids], E[:, ids], index_select(E, dim, ids)       rows
    gather(E, 0, ids[:, None].expand) take_along_dim(E, ids[:, None], 0)                 rows
    one_hot(ids, n) @ E               (ids[:, None] == arange(n)) @ E, eye(n)[ids] @ E   rows
    embedding_bag(E, ids, offsets)                                                       bags
    h @ E.t()                         linear(h, E), einsum("bd,nd->bn", h, E)            logits

E is a constant of the graph (`edge_embed.lowering.constants`) of any rank: its rows lie along the axis of the ids.
"""

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, fx

from edge_embed.lowering.constants import Constants
from edge_embed.ops.bag import MODES
from edge_embed.packed.packed_form import Use

_ATEN = torch.ops.aten
_EMBEDDING, _BAG, _LINEAR = _ATEN.embedding.default, _ATEN.embedding_bag.padding_idx, _ATEN.linear.default
_INDEX = {_ATEN.index.Tensor, _ATEN._unsafe_index.Tensor}
_MATMUL = {_ATEN.matmul.default, _ATEN.mm.default}
_VIEWS = {_ATEN.view.default, _ATEN.reshape.default, _ATEN._unsafe_view.default}
_SAME = {  # the same numbers in another dtype or memory
    *(_ATEN._to_copy.default, _ATEN.to.dtype, _ATEN.to.dtype_layout, _ATEN.to.other, _ATEN.type_as.default),
    *(_ATEN.clone.default, _ATEN.contiguous.default, _ATEN.detach.default, _ATEN.alias.default),
}
_BAG_ARGUMENTS = 9
_INTEGERS = {torch.int32, torch.int64}

Outside = Literal["refused", "from the end", "zero"]


@dataclass(frozen=True)
class Ids:
    """Ids of a lookup in the graph.

    Attributes:
        node: integers.
        drops_last: whether they have an additional last dimension of size 1.
        sizes: sizes to which they are then expanded or viewed; None to leave them unchanged.
        is_view: whether ``sizes`` is a view.
        outside: result of ids below 0 and from n on: an error, rows counted from the end, or zeros.
    """

    node: fx.Node
    drops_last: bool = False
    sizes: Sequence[Any] | None = None
    is_view: bool = False
    outside: Outside = "refused"


@dataclass(frozen=True, eq=False)
class Call:
    """One use of a table.

    Attributes:
        use: result that it computes.
        constant: the table in the graph.
        node: node of the result; of a bag, the first of its four results.
        leading: arguments before those of the table in the operator of a packed table. For a bag they include whether
            offsets end with the number of ids.
        axis: axis of the constant along which its rows lie.
        rank: rank of the ids if sizes of the constant lie around theirs in the result; None for a result [*ids, d].
        bias: node that is added to the result, or None.
        padding_idx: the padding row of this use.
    """

    use: Use
    constant: fx.Node
    node: fx.Node
    leading: tuple[Any, ...]
    axis: int = 0
    rank: int | None = None
    bias: Any = None
    padding_idx: int | None = None

    @property
    def is_embedding(self) -> bool:
        """Return whether it is ``nn.Embedding`` or ``nn.EmbeddingBag``."""
        return self.use == "bag" or self.node.target == _EMBEDDING

    def table(self, value: Tensor) -> Tensor:
        """Return the constant as rows [n, d], as a view if possible."""
        if value.ndim == 2:
            return value if self.axis == 0 else value.t()
        return value.movedim(self.axis, 0).reshape(value.shape[self.axis], -1)


def is_plain(call: Call, constants: Constants) -> bool:
    """Return whether the result consists of looked-up rows, without another shape and without a bias."""
    return call.bias is None and (call.use != "rows" or rows_shape(call, constants) == ((), ()))


def rows_shape(call: Call, constants: Constants) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes before and behind those of the ids in a result that is not [*ids, d]; else empty ones."""
    shape = constants.shape(call.constant)
    before, behind = shape[: call.axis], shape[call.axis + 1 :]
    is_usual = call.rank is None or (not before and len(behind) == 1)
    return ((), ()) if is_usual else (before, behind)


def uses_of(constants: Constants, constant: fx.Node, user: fx.Node) -> Iterator[Call | fx.Node]:
    """Yield the uses of a constant by one node, several if the node reduces bags or makes copies first.

    Yields:
        uses of a table, and nodes with other uses of it.
    """
    if user.op == "call_function" and user.target == _BAG:
        yield from _bags(constant, user)
    elif user.op == "call_function" and user.target == _ATEN.expand.default and user.users:
        yield from (_gathered(constants, constant, each, user) or each for each in user.users)
    elif user.op == "call_function":
        yield _call(constants, constant, user) or user
    else:
        yield user


def _call(constants: Constants, constant: fx.Node, user: fx.Node) -> Call | None:
    shape, args = constants.shape(constant), _args(user)
    if user.target == _EMBEDDING:
        is_table = args[0] is constant and args[1] is not constant and len(shape) == 2
        padding_idx = _row(args[2] if len(args) > 2 else None)
        return Call("rows", constant, user, (Ids(args[1]),), padding_idx=padding_idx) if is_table else None
    if len(shape) < 2:
        return None
    if user.target in _INDEX:
        return _indexed(constants, constant, user)
    if user.target == _ATEN.index_select.default:
        return _selected(constants, constant, user)
    if user.target == _ATEN.gather.default:
        is_copies = constant.target == _ATEN.expand.default  # the number of copies is a fixed batch size
        return _gathered(constants, constant.all_input_nodes[0] if is_copies else constant, user, constant)
    if user.target == _ATEN.take_along_dim.default:
        return _taken(constants, constant, user)
    return _multiplied(constants, constant, user) if len(shape) == 2 else None


def _args(node: fx.Node) -> Any:
    """Return the arguments of a node, which were checked against its operator when the file was read."""
    return node.args


def _row(padding_idx: int | None) -> int | None:
    """Return a padding row or None; torch writes -1 for none."""
    return None if padding_idx is None or padding_idx < 0 else padding_idx


def _bags(constant: fx.Node, user: fx.Node) -> Iterator[Call | fx.Node]:
    args = _args(user)
    asks_for_more = any(
        each.target is not operator.getitem or (each.args[1] != 0 and each.users) for each in user.users
    )
    if args[0] is not constant or args.count(constant) > 1 or len(args) != _BAG_ARGUMENTS or asks_for_more:
        yield user
        return
    _, ids, offsets, _, mode, _, weights, has_last, padding_idx = args
    leading = ids, offsets, weights, MODES[mode], has_last
    for result in user.users:
        if result.args[1] == 0:
            yield Call("bag", constant, result, leading, padding_idx=_row(padding_idx))


def _indexed(constants: Constants, constant: fx.Node, user: fx.Node) -> Call | None:
    """Match ``E[ids]``, ``E[:, ids]``."""
    source, indices = _args(user)
    given = [(axis, ids) for axis, ids in enumerate(indices) if ids is not None]
    if source is not constant or len(given) != 1:
        return None
    ((axis, ids),) = given
    example = constants.example(ids)
    if example is None or example.dtype not in _INTEGERS:  # a mask selects the rows at which it is true
        return None
    return Call("rows", constant, user, (Ids(ids, outside="from the end"),), axis, example.ndim)


def _selected(constants: Constants, constant: fx.Node, user: fx.Node) -> Call | None:
    """Match ``index_select(E, dim, ids)``."""
    source, axis, ids = _args(user)
    example = constants.example(ids)
    if source is not constant or example is None:
        return None
    leading = (Ids(ids, sizes=[1] if example.ndim == 0 else None, is_view=True),)
    return Call("rows", constant, user, leading, _from_zero(axis, constants.shape(constant)), 1)


def _from_zero(axis: int, shape: Sequence[int]) -> int:
    return axis % len(shape)


def _gathered(constants: Constants, constant: fx.Node, user: fx.Node, source: fx.Node) -> Call | None:
    """Match ``gather(E, 0, ids[:, None].expand(-1, d))`` of E or copies of it: each id selects a row."""
    if user.target != _ATEN.gather.default:
        return None
    taken, axis, spread = _args(user)[:3]
    shape, is_copied = constants.shape(constant), source is not constant
    if taken is not source or spread.target != _ATEN.expand.default or not _has_rows_at(shape, axis):
        return None
    ids, sizes = _args(spread)[:2]
    if sizes[-1:] != [shape[-1]] or _last_size(constants, ids) != 1:
        return None
    if is_copied and any(size not in (-1, own) for size, own in zip(_args(source)[1][-2:], shape[-2:], strict=True)):
        return None
    others = sizes[:-1]
    leading = (Ids(ids, True, None if all(size == -1 for size in others) else others),)
    return Call("rows", constant, user, leading, len(shape) - 2)


def _taken(constants: Constants, constant: fx.Node, user: fx.Node) -> Call | None:
    """Match ``take_along_dim(E, ids[:, None], 0)``."""
    source, ids, *axis = _args(user)
    shape = constants.shape(constant)
    is_one = ids.target == _ATEN.unsqueeze.default or (ids.target in _VIEWS and _args(ids)[1][-1:] == [1])
    if source is not constant or not is_one or not _has_rows_at(shape, *axis) or _last_size(constants, ids) != 1:
        return None
    return Call("rows", constant, user, (Ids(ids, True),), len(shape) - 2)


def _has_rows_at(shape: Sequence[int], axis: int | None = None) -> bool:
    """Return whether a constant is [..., n, d] with only ones before n, and rows lie along this axis."""
    is_there = axis is not None and len(shape) > 1 and _from_zero(axis, shape) == len(shape) - 2
    return is_there and math.prod(shape[:-2]) == 1


def _last_size(constants: Constants, node: fx.Node) -> int | None:
    example = constants.example(node)
    return None if example is None or example.ndim == 0 else example.shape[-1]


def _multiplied(constants: Constants, constant: fx.Node, user: fx.Node) -> Call | None:
    """Match ``h @ C``, ``h @ C.t() + bias``: logits, or rows if h is one-hot."""
    product = _product(constant, user)
    if product is None:
        return None
    hidden, sums_over, bias = product
    ids = _one_hot(constants, hidden, constants.shape(constant)[sums_over])
    if ids is not None:
        return Call("rows", constant, user, (ids,), sums_over, bias=bias)
    return Call("logits", constant, user, (hidden,), 1 - sums_over, bias=bias)


def _product(constant: fx.Node, user: fx.Node) -> tuple[fx.Node, int, Any] | None:
    """Return for a product with a constant the other factor, the summed axis of the constant, and a bias."""
    args = _args(user)
    if user.all_input_nodes.count(constant) != 1 or user.kwargs:
        return None
    if user.target in _MATMUL and args[1] is constant:
        return args[0], 0, None
    if user.target == _ATEN.addmm.default and args[2] is constant:
        return args[1], 0, args[0]
    if user.target == _LINEAR and args[1] is constant:
        return args[0], 1, args[2] if len(args) > 2 else None
    if user.target == _ATEN.einsum.default and len(args) == 2:
        return _einsum(constant, *args)
    return None


def _einsum(constant: fx.Node, equation: str, given: Sequence[fx.Node]) -> tuple[fx.Node, int, None] | None:
    """Match ``einsum("bsd,nd->bsn", h, E)``."""
    left, _, result = equation.replace(" ", "").partition("->")
    factors = dict(zip(given, left.split(","), strict=False))
    table = factors.pop(constant, "")
    if len(given) != 2 or len(factors) != 1 or len(table) != 2 or len(set(table)) != 2 or not table.isalpha():
        return None
    ((hidden, letters),) = factors.items()
    kept_letters = letters[:-1]
    if not letters.isalpha() or len(set(letters)) < len(letters):
        return None
    for sums_over in (0, 1):
        summed, kept = table[sums_over], table[1 - sums_over]
        if letters[-1] == summed and kept not in letters and result == kept_letters + kept:
            return hidden, sums_over, None
    return None


def _one_hot(constants: Constants, node: Any, depth: int) -> Ids | None:
    """Return the ids of a one-hot [..., n], or None if the node is something else."""
    while isinstance(node, fx.Node) and node.target in _SAME:
        node = node.args[0]
    if not isinstance(node, fx.Node):
        return None
    args = _args(node)
    if node.target in _VIEWS:
        inner = _one_hot(constants, args[0], depth)
        if inner is None or inner.sizes is not None or args[1][-1:] != [depth]:
            return None
        return replace(inner, sizes=args[1][:-1], is_view=True)
    if node.target == _ATEN.one_hot.default:
        return Ids(args[0]) if args[1:] == (depth,) else None
    if node.target in _INDEX:
        return _of_eye(constants, args[0], args[1], depth)
    return _compared(constants, args, depth) if node.target == _ATEN.eq.Tensor else None


def _of_eye(constants: Constants, eye: fx.Node, indices: Sequence[fx.Node | None], depth: int) -> Ids | None:
    """Match ``eye(n)[ids]``."""
    if eye not in constants or constants.shape(eye) != (depth, depth) or len(indices) != 1 or indices[0] is None:
        return None
    example, value = constants.example(indices[0]), constants.value(eye)
    is_eye = torch.equal(value, torch.eye(depth, dtype=value.dtype))
    is_integer = example is not None and example.dtype in _INTEGERS
    return Ids(indices[0], outside="from the end") if is_eye and is_integer else None


def _compared(constants: Constants, args: Sequence[fx.Node], depth: int) -> Ids | None:
    """Match ``ids[..., None] == arange(n)``, which is zero for other ids."""
    for ids, numbers in (args, reversed(args)):
        shape = constants.shape(numbers) if numbers in constants else ()
        example = constants.example(ids) if shape[-1:] == (depth,) == (math.prod(shape),) else None
        if example is None or example.dtype not in _INTEGERS or example.ndim < len(shape) or example.shape[-1] != 1:
            continue
        if torch.equal(constants.value(numbers).flatten().long(), torch.arange(depth)):
            return Ids(ids, True, outside="zero")
    return None
