"""The dense tables of an ONNX file: matrices whose rows are looked up, output layers, and obstacles.

A table is a constant, or a value that operators compute from constants alone. Nodes use the same table if they use the
same bits, in any shape. So an output layer is tied even if an optimiser stored its matrix again as a transpose.

A table with any other use must stay dense, because it would be kept beside its packed form. A table with constant ids
must stay too: a session would compute its rows at creation, and keep them.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from onnx import ModelProto, NodeProto, TensorProto

from edge_embed.compression.onnx.constant_values import Known, Leaf
from edge_embed.compression.onnx.foreign_model import ForeignModel
from edge_embed.compression.onnx.in_sight import uses_in_sight, width
from edge_embed.compression.onnx.inlining import hidden_lookups, origin, write_out
from edge_embed.compression.onnx.loop_carried import take_from_around
from edge_embed.compression.onnx.obstacles import held_bytes, obstacles
from edge_embed.compression.onnx.table_uses import Use, View
from edge_embed.errors import BadInputError
from edge_embed.fitting.found_table import FoundTable, check_some


@dataclass(frozen=True, eq=False)
class OnnxTable(FoundTable):
    """A dense table of a file.

    Attributes:
        constant: name of the largest tensor that it is computed from.
        dtype: ``float32``, ``float16`` or ``bfloat16``, if it can be replaced.
        used: the nodes that use it.
        company: names of the tables that must be replaced with it, as they are cut out of one constant.
        origins: functions and nodes that were inlined to make these nodes visible.
        file: the file of these nodes: a copy if something was inlined.
    """

    constant: str = ""
    dtype: str = ""
    used: tuple[Use, ...] = ()
    company: tuple[str, ...] = ()
    origins: frozenset[str] = frozenset()
    file: ForeignModel | None = None

    @property
    def logits_type(self) -> str:
        """Return the type of hidden states and logits of its output layer."""
        return self.dtype if self.dtype == "float16" else "float32"


def dense_tables(file: ForeignModel) -> list[OnnxTable]:
    """Return all tables of a file, in its order; their weights are read later, by `weight_of`.

    Functions and larger operators that look up rows are inlined in a copy of the model.
    """
    hidden = hidden_lookups(file.model)
    if not hidden:
        return tables_in_sight(file)
    copy = ModelProto()
    copy.CopyFrom(file.model)
    write_out(copy, hidden)
    return tables_in_sight(replace(file, model=copy))


def in_file(tables: Iterable[OnnxTable], model: ModelProto) -> dict[OnnxTable, OnnxTable]:
    """Inline the functions and nodes that hold lookups of the tables; return the tables with nodes of the model."""
    tables = list(tables)
    file = next((table.file for table in tables if table.file is not None), None)
    if file is None or file.model is model:
        return {table: table for table in tables}
    write_out(model, {name for table in tables for name in table.origins})
    by_name = {table.name: table for table in tables_in_sight(replace(file, model=model))}
    return {table: by_name[table.name] for table in tables}


def tables_in_sight(file: ForeignModel) -> list[OnnxTable]:
    """Return the tables whose lookups are nodes of the graph, or of the graphs inside it.

    The model is changed if a loop carries a constant.
    """
    take_from_around(file)
    view = View(file)
    found = uses_in_sight(view)
    names = _labels(found)
    return [
        _table(view, name, uses, obstacle.reason, [names[at] for at in obstacle.company], held_bytes(uses, found))
        for name, uses, obstacle in zip(names, found, obstacles(view, found), strict=True)
    ]


def in_company(tables: Iterable[OnnxTable], named: Collection[str]) -> list[OnnxTable]:
    """Return the tables; those that cannot be replaced alone get a reason to stay dense.

    Raises:
        BadInputError: the user named such a table, or no table is left.
    """
    result = list(tables)
    while True:
        free = {table.name for table in result if not table.reason}
        stuck = [table for table in result if not table.reason and not free.issuperset(table.company)]
        if not stuck:
            check_some(result)
            return result
        for table in stuck:
            others = ", ".join(table.company)
            options = " ".join(f"--module {name}" for name in (table.name, *table.company))
            shared = f"shares the constant {table.constant!r:.200} with {others}"
            reason = f"{shared}: name all of them ({options})"
            if table.name in named:
                raise BadInputError(f"{table.name}: {reason}")
            result[result.index(table)] = replace(table, reason=reason)


def weight_of(table: OnnxTable) -> torch.Tensor:
    """Return the numbers of a table [n, d]."""
    use = table.used[0]
    matrix = use.known.matrix(use.axis)
    if use.known.kind == TensorProto.BFLOAT16:
        matrix = matrix.astype(np.float32)
    if not matrix.dtype.isnative:
        matrix = matrix.astype(matrix.dtype.newbyteorder("="))
    return torch.from_numpy(matrix if matrix.flags.writeable and matrix.flags.c_contiguous else matrix.copy())


def _table(view: View, label: str, uses: Sequence[Use], reason: str, company: Sequence[str], held: int) -> OnnxTable:
    use, known = uses[0], uses[0].known
    unread = torch.zeros(1).expand(known.shape[use.axis], width(use))  # takes no memory
    origins = frozenset(filter(None, (origin(node) for node in _nodes_of(view, uses))))
    constant = _plain_name(_largest(known))
    count = sum(each.kind != "shape" for each in uses)
    looks_up = any(each.kind == "rows" for each in uses)
    return OnnxTable(
        label, unread, None, count, looks_up, reason, "beside", constant, known.dtype, tuple(uses), tuple(company),
        origins, view.file, held_bytes=held, is_output=not looks_up,
    )  # fmt: skip


def _largest(known: Known) -> Leaf:
    return max(known.leaves, key=lambda leaf: leaf.nbytes)


def _plain_name(leaf: Leaf) -> str:
    """Return the name of a tensor in the file, without the number that inlining appends."""
    made = leaf.scope.makers.get(leaf.name)
    return re.sub(r"__\d+$", "", leaf.name) if made is not None and origin(made[1]) else leaf.name


def _labels(found: Iterable[Sequence[Use]]) -> list[str]:
    """Return the names of tables: that of the layer with this ``weight``, unless another table has the name."""
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
    """Yield the nodes of uses, and the nodes that compute values for them alone."""
    by_place = {(id(scope), name): node for scope in view.scopes for name, (_, node) in scope.makers.items()}
    for use in uses:
        yield use.node
        yield from (by_place[name] for name in use.names if name in by_place)
