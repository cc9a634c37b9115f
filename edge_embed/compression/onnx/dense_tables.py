"""The dense tables of an ONNX file: matrices of which rows are looked up, and what else is done with them.

A table is a constant, or what operators compute from constants alone. Nodes use the same one where they use the same
bits, in whatever shape; so an output layer is tied whose matrix an optimiser turned round and stored again.

A table with any other use has to stay: it would be kept beside its packed form. So has one whose ids are known before:
a session would compute its rows when it is made, and keep them.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto

from edge_embed.compression.onnx.constant_values import Known, Leaf
from edge_embed.compression.onnx.foreign_model import ForeignModel
from edge_embed.compression.onnx.heads import heads
from edge_embed.compression.onnx.inlining import hidden_look_ups, origin, write_out
from edge_embed.compression.onnx.lookups import gathers
from edge_embed.compression.onnx.obstacles import held_bytes, obstacles, shape_uses
from edge_embed.compression.onnx.one_hot import products
from edge_embed.compression.onnx.scopes import Scope
from edge_embed.compression.onnx.table_uses import Use, View
from edge_embed.errors import BadInputError
from edge_embed.fitting.found_table import FoundTable

_LOOK_UPS: tuple[Callable[[View, Scope, int, NodeProto], Iterator[Use]], ...] = (gathers, products)
_BLOCK_NUMBERS = 1 << 22


@dataclass(frozen=True, eq=False)
class OnnxTable(FoundTable):
    """One dense table of a file.

    Attributes:
        constant: name of the largest tensor that it is made of.
        dtype: ``float32``, ``float16`` or ``bfloat16``, if it need not stay.
        used: the nodes that use it.
        company: names of the tables that have to go with it, as they are cut out of one constant.
        origins: what had to be written out for these nodes to be seen.
        file: whose nodes these are: a copy, where something was written out.
    """

    constant: str = ""
    dtype: str = ""
    used: tuple[Use, ...] = ()
    company: tuple[str, ...] = ()
    origins: frozenset[str] = frozenset()
    file: ForeignModel | None = None

    @property
    def logits_type(self) -> str:
        """The type of hidden states and logits of its output layer."""
        return self.dtype if self.dtype == "float16" else "float32"


def dense_tables(file: ForeignModel) -> list[OnnxTable]:
    """All tables of a file, in its order, their weights not read yet: `weight_of` does.

    The model stays as it is: functions and larger operators that look rows up are written out in a copy.
    """
    hidden = hidden_look_ups(file.model)
    if not hidden:
        return tables_in_sight(file)
    copy = ModelProto()
    copy.CopyFrom(file.model)
    write_out(copy, hidden)
    return tables_in_sight(replace(file, model=copy))


def in_file(tables: Iterable[OnnxTable], model: ModelProto) -> dict[OnnxTable, OnnxTable]:
    """The same tables with the nodes of the model itself, where what holds their look-ups alone is written out."""
    tables = list(tables)
    file = next((table.file for table in tables if table.file is not None), None)
    if file is None or file.model is model:
        return {table: table for table in tables}
    write_out(model, {name for table in tables for name in table.origins})
    by_name = {table.name: table for table in tables_in_sight(replace(file, model=model))}
    return {table: by_name[table.name] for table in tables}


def tables_in_sight(file: ForeignModel) -> list[OnnxTable]:
    """The tables whose look-ups are nodes of the graph, or of the graphs inside it."""
    view = View(file)
    nodes = [
        (scope, place, node)
        for scope in view.scopes
        for place, node in enumerate(scope.nodes)
        if view.is_needed(scope, place)
    ]
    look_ups = [use for at in nodes for rule in _LOOK_UPS for use in rule(view, *at) if use.ids]
    parts = {place for use in look_ups for place in use.passed}  # scales, whose rows belong to those of codes
    found: list[list[Use]] = []
    for use in look_ups:
        if (id(use.scope), use.node.output[0]) not in parts:
            _place(found, use)
    taken = {(id(use.scope), use.place) for use in look_ups}
    for at in nodes:
        if (id(at[0]), at[1]) not in taken:
            for use in heads(view, *at):
                _place(found, use, alone=False)
    for at in nodes:
        for uses in found:
            uses.extend(shape_uses(view, *at[:2], uses))
    names = _labels(found)
    return [
        _table(view, name, uses, obstacle.reason, [names[at] for at in obstacle.company], held_bytes(uses, found))
        for name, uses, obstacle in zip(names, found, obstacles(view, found), strict=True)
    ]


def in_company(tables: Iterable[OnnxTable], named: Collection[str]) -> list[OnnxTable]:
    """The same tables, those that cannot go alone with the reason to stay.

    Raises:
        BadInputError: for one that has a name that was given.
    """
    result = list(tables)
    while True:
        free = {table.name for table in result if not table.reason}
        stuck = [table for table in result if not table.reason and not free.issuperset(table.company)]
        if not stuck:
            return result
        for table in stuck:
            others = ", ".join(table.company)
            reason = f"is cut out of the constant {table.constant!r:.200} as {others}: give the names of all of them"
            if table.name in named:
                raise BadInputError(f"{table.name}: {reason}")
            result[result.index(table)] = replace(table, reason=reason)


def weight_of(table: OnnxTable) -> torch.Tensor:
    """The numbers of a table [n, d]."""
    use = table.used[0]
    matrix = use.known.matrix(use.axis)
    if use.known.kind == TensorProto.BFLOAT16:
        matrix = matrix.astype(np.float32)
    if not matrix.dtype.isnative:
        matrix = matrix.astype(matrix.dtype.newbyteorder("="))
    return torch.from_numpy(matrix if matrix.flags.writeable and matrix.flags.c_contiguous else matrix.copy())


def _place(found: list[list[Use]], use: Use, alone: bool = True) -> None:
    """Put a use to those of the same table, or, if it may be alone, on its own."""
    for uses in found:
        for mine, other in _pairs(uses[0], use):
            if _is_same(mine, other):
                if mine is not uses[0]:
                    uses[:] = [_uncast(one) or one for one in uses]
                uses.append(other)
                return
    if alone and use.known.leaves:  # others are made of nothing that the file holds
        found.append([use])


def _pairs(one: Use, other: Use) -> Iterator[tuple[Use, Use]]:
    """Two uses, and the same where one is of a table as it was before it became another type."""
    yield one, other
    if (wide := _uncast(other)) is not None:
        yield one, wide
    if (wide := _uncast(one)) is not None:
        yield wide, other


def _uncast(use: Use) -> Use | None:
    before = use.known.before_cast
    if before is None or use.reason:
        return None
    return replace(use, known=before, kind_of_result=use.known.kind, passed=use.passed | use.known.names)


def _is_same(one: Use, other: Use) -> bool:
    sizes = [(use.known.kind, use.known.shape[use.axis], _width(use)) for use in (one, other)]
    if sizes[0] != sizes[1] or one.reason or other.reason:
        return sizes[0] == sizes[1] and one.known is other.known and one.axis == other.axis
    if one.known is other.known and one.axis == other.axis:
        return True
    mine, others = (use.known.matrix(use.axis) for use in (one, other))
    rows = max(1, _BLOCK_NUMBERS // max(1, mine.shape[1]))
    return all(
        np.array_equal(_bits(mine[at : at + rows]), _bits(others[at : at + rows])) for at in range(0, len(mine), rows)
    )


def _bits(block: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(block).view(np.uint8)


def _width(use: Use) -> int:
    return int(np.prod([*use.lead, *use.trail], dtype=np.int64))


def _table(view: View, label: str, uses: Sequence[Use], reason: str, company: Sequence[str], held: int) -> OnnxTable:
    use, known = uses[0], uses[0].known
    unread = torch.zeros(1).expand(known.shape[use.axis], _width(use))  # takes no memory
    origins = frozenset(filter(None, (origin(node) for node in _nodes_of(view, uses))))
    constant = _plain_name(_largest(known))
    count = sum(each.kind != "shape" for each in uses)
    return OnnxTable(
        label, unread, None, count, True, reason, "beside", constant, known.dtype, tuple(uses), tuple(company), origins,
        view.file, held_bytes=held,
    )  # fmt: skip


def _largest(known: Known) -> Leaf:
    return max(known.leaves, key=lambda leaf: leaf.nbytes)


def _plain_name(leaf: Leaf) -> str:
    """The name of a tensor in the file: what is written out of a function has numbers behind its names."""
    made = leaf.scope.makers.get(leaf.name)
    return re.sub(r"__\d+$", "", leaf.name) if made is not None and origin(made[1]) else leaf.name


def _labels(found: Iterable[Sequence[Use]]) -> list[str]:
    """What tables are called: as the layer whose ``weight`` they are, where no other one is called so."""
    leaves = [_largest(uses[0].known) for uses in found]
    names = [_plain_name(leaf) for leaf in leaves]
    short = [name.removesuffix(".weight") or name for name in names]
    labels: list[str] = []
    for name, label in zip(names, short, strict=True):
        wanted, count = (name if label in names or short.count(label) > 1 else label), 0
        while (chosen := wanted if not count else f"{wanted}_{count}") in labels:
            count += 1
        labels.append(chosen)
    return labels


def _nodes_of(view: View, uses: Iterable[Use]) -> Iterator[NodeProto]:
    """The nodes of uses, and those that compute what they take alone."""
    by_place = {(id(scope), name): node for scope in view.scopes for name, (_, node) in scope.makers.items()}
    for use in uses:
        yield use.node
        yield from (by_place[name] for name in use.names if name in by_place)
