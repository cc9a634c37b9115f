"""Dense tables of a program.

A table [n, d] is a weight, or is computed from weights alone. The graph looks up its rows, reduces bags of them, or
multiplies with all rows (an output layer): see `edge_embed.lowering.table_uses`. A table whose weights have another use
as well is not compressed: the weights would stay beside the packed table.
"""

from collections.abc import Collection, Iterator, Set
from dataclasses import dataclass, field
from itertools import count

import torch
from torch import Tensor, fx

from edge_embed.fitting.found_table import FoundTable, Rotates
from edge_embed.fitting.padding_row import padding_row
from edge_embed.lowering.constants import Constants
from edge_embed.lowering.folded_rotation import next_weights, rotatable_weights
from edge_embed.lowering.output_layers import output_layers
from edge_embed.lowering.table_names import owner_of, plain_name
from edge_embed.lowering.table_uses import Call, is_plain, uses_of
from edge_embed.program.program import Program, dtype_name

_ATEN = torch.ops.aten
_TURNS = {_ATEN.t.default, _ATEN.numpy_T.default, _ATEN.transpose.int, _ATEN.permute.default}
_PART = 4  # weights below this part of a table's sources may stay beside it
_MOST_NUMBERS = 2  # maximum numbers of a computed table, times those of its weights
_LARGEST = 3  # number of weights in a message
_LOOKUPS = "nn.Embedding, nn.EmbeddingBag, w[ids], index_select, gather, take_along_dim or one_hot(ids, n) @ w"


@dataclass(eq=False)
class UsedTable:
    """Table as it is in the graph.

    Attributes:
        weight: [n, d].
        sources: names of the weights that it is computed from.
        calls: its uses.
        label: name of its largest weight, made unique.
        name: name shown to the user.
    """

    weight: Tensor
    sources: frozenset[str]
    calls: list[Call] = field(default_factory=list)
    label: str = ""
    name: str = ""

    @property
    def looks_up(self) -> bool:
        """Return whether rows are looked up."""
        return any(call.use != "logits" for call in self.calls)

    @property
    def size(self) -> tuple[int, int]:
        """Rows n and columns d."""
        rows, columns = self.weight.shape
        return rows, columns


class UsedTables:
    """All tables of a program with their uses.

    Args:
        program: it is not changed.
        wanted: names of tables that will be packed even without lookups.

    Attributes:
        constants: constants of its graph.
        tables: tables in the order of the program.
    """

    def __init__(self, program: Program, wanted: Collection[str] = ()) -> None:
        self.program, self.constants, self._wanted = program, Constants(program), wanted
        self._uses: dict[fx.Node, list[Call | fx.Node]] = {}
        for node in program.module.graph.nodes:
            if node in self.constants and self.constants.sources(node):
                users = [user for user in node.users if user not in self.constants]
                self._uses[node] = [use for user in users for use in uses_of(self.constants, node, user)]
        self.tables = self._found()
        self._of_call = {call: table for table in self.tables for call in table.calls}
        self._name()

    def heavy(self, table: UsedTable) -> list[str]:
        """Return the largest source weights of a table.

        Keeping one of them beside the packed table would save little.
        """
        sizes = {name: self.program.module.weight(name).nbytes for name in table.sources}
        return [name for name, size in sizes.items() if _PART * size >= sum(sizes.values())]

    def stored_bytes(self, table: UsedTable) -> int:
        """Return the bytes of a table, or of the weights that it is computed from, whichever is smaller."""
        return min(table.weight.nbytes, sum(self.program.module.weight(name).nbytes for name in table.sources))

    def others(self, table: UsedTable) -> dict[fx.Node, str]:
        """Return nodes that use a heavy weight of a table outside lookups of tables, with the name of the weight."""
        heavy = self.heavy(table)
        return {node: name for name in heavy for node in self._takers(name, besides=table)}

    def output_layers_among(self, nodes: Collection[fx.Node]) -> list[str]:
        """Return the names of the tables that the nodes multiply with, if all of them do."""
        owners = {call.node: table.name for call, table in self._of_call.items()}
        return list(dict.fromkeys(owners[node] for node in nodes)) if all(node in owners for node in nodes) else []

    def spelled(self, name: str) -> str:
        """Return a description such as ``words.weight, float32 [2000, 32] of 256,000 bytes``."""
        weight = self.program.module.weight(name)
        return f"{name}, {dtype_name(weight.dtype)} {list(weight.shape)} of {weight.nbytes:,} bytes"

    def largest(self) -> str:
        """Return a message about the largest weights and their uses, for a model without a table."""
        weights = {str(node.target): self.program.module.weight(str(node.target)) for node in self._weights()}
        names = sorted(weights, key=lambda name: -weights[name].nbytes)[:_LARGEST]
        if not names:
            return "the model has no weights"
        shown = (
            f"{self.spelled(name)} ({', '.join(dict.fromkeys(map(spelled, self._takers(name)))) or 'unused'})"
            for name in names
        )
        return (
            f"no dense table has lookups. The largest weights and their uses: "
            f"{'; '.join(shown)}. A lookup is {_LOOKUPS}, of a weight or of a constant computed from "
            "weights. Look rows up in one of these ways, or give the name of a linear layer to compress it "
            "(--module NAME)"
        )

    def _weights(self) -> Iterator[fx.Node]:
        return iter(self.program.module.graph.find_nodes(op="get_attr"))

    def _takers(self, name: str, besides: UsedTable | None = None) -> Iterator[fx.Node]:
        """Yield the uses of a weight, transposed or not, except uses of tables if ``besides`` is given."""
        waiting = [node for node in self._weights() if node.target == name]
        while waiting:
            node = waiting.pop()
            yield from self._taken(node, besides)
            for user in node.users:
                if user in self.constants and any(self._taken(each, besides) for each in self._made_of(user)):
                    if user.target in _TURNS:
                        waiting.append(user)
                    else:
                        yield user

    def _taken(self, constant: fx.Node, besides: UsedTable | None) -> list[fx.Node]:
        """Return the direct uses of a constant, as `_takers`."""
        uses = self._uses.get(constant, [])
        calls = [use for use in uses if isinstance(use, Call)]
        found = [call.node for call in calls if besides is None or not self._is_table_call(call, besides)]
        return [use for use in uses if isinstance(use, fx.Node)] + found

    def _made_of(self, constant: fx.Node) -> Iterator[fx.Node]:
        """Yield a constant and all constants computed from it."""
        waiting, seen = [constant], {constant}
        while waiting:
            node = waiting.pop()
            yield node
            new = {user for user in node.users if user in self.constants} - seen
            seen |= new
            waiting += new

    def _is_table_call(self, call: Call, table: UsedTable) -> bool:
        owner = self._of_call.get(call)
        return owner is not None and (owner is table or owner.looks_up or owner.name in self._wanted)

    def _found(self) -> list[UsedTable]:
        calls = [use for uses in self._uses.values() for use in uses if isinstance(use, Call)]
        found: list[UsedTable] = []
        for call in sorted(calls, key=lambda call: call.use == "logits"):  # output layers come after lookups
            if not self._may_be_table(call):
                continue
            table = UsedTable(call.table(self.constants.value(call.constant)), self.constants.sources(call.constant))
            known = next((other for other in found if _is_same(table, other)), None)
            if known is None and (call.use != "logits" or self._is_weight(table)):
                found.append(table)
                known = table
            if known is not None:
                known.calls.append(call)
        order = {str(node.target): at for at, node in enumerate(self._weights())}
        return sorted(found, key=lambda table: order[self._main(table)])

    def _may_be_table(self, call: Call) -> bool:
        """Return whether a use is worth computing its table; tables of integers only count for `nn.Embedding`."""
        dtype = self.constants.dtype(call.constant)
        if call.use == "logits":
            return dtype is not None and dtype.is_floating_point and self._is_weight_or_table(call.constant)
        return dtype is not None and (dtype.is_floating_point or call.is_embedding)

    def _is_weight_or_table(self, constant: fx.Node) -> bool:
        """Return whether an output layer uses a weight, perhaps transposed, or a table that also has lookups."""
        while constant.target in _TURNS:
            constant = constant.all_input_nodes[0]
        uses = (use for other, uses in self._uses.items() if self._share(constant, other) for use in uses)
        return constant.op == "get_attr" or any(isinstance(use, Call) and use.use != "logits" for use in uses)

    def _share(self, one: fx.Node, other: fx.Node) -> bool:
        return not self.constants.sources(one).isdisjoint(self.constants.sources(other))

    def _is_weight(self, table: UsedTable) -> bool:
        return any(_is_same_memory(table.weight, self.program.module.weight(name)) for name in table.sources)

    def _main(self, table: UsedTable) -> str:
        """Return the name of its largest weight."""
        return max(sorted(table.sources), key=lambda name: self.program.module.weight(name).nbytes)

    def _name(self) -> None:
        labels: set[str] = set()
        for table in self.tables:
            label = plain_name(self._main(table))
            table.label = next(name for name in _numbered(label) if name not in labels)
            labels.add(table.label)
        owners = [owner_of(table.label, not table.looks_up) for table in self.tables]
        for table, owner in zip(self.tables, owners, strict=True):
            table.name = owner if owners.count(owner) == 1 else table.label


def program_tables(program: Program, wanted: Collection[str] = ()) -> list[FoundTable]:
    """Return all tables of a program in its order, including weights of its linear layers.

    Args:
        program: it is not changed.
        wanted: names of tables that will be compressed even without lookups; no rotation is folded into these.
    """
    used = UsedTables(program, wanted)
    packed = set[str]().union(*(table.sources for table in used.tables if table.name in wanted))
    outputs = list(output_layers(used))
    return [_described(used, table, packed, table in outputs) for table in used.tables]


def _described(used: UsedTables, table: UsedTable, packed: Set[str], is_output: bool) -> FoundTable:
    """Describe a table; ``packed`` has the names of the weights that will be packed."""
    lookups, bags, output_layers = (
        [call.padding_idx for call in table.calls if call.use == use] for use in ("rows", "bag", "logits")
    )
    reason = obstacle(used, table)
    padding_idx, clash = (None, "") if reason else padding_row(table.weight, lookups, bags, bool(output_layers))
    rows, columns = table.size
    # Rows of several axes can be whole matrices, such as those of a mixture of experts.
    is_table = columns <= rows or any(len(used.constants.shape(call.constant)) == 2 for call in table.calls)
    looks_up = table.looks_up and is_table
    rotates = _rotates(used, table, packed)
    next_weight = _next_weight(used, table)
    adds_up = all(call.use == "bag" and call.leading[3] != "max" for call in table.calls)
    found = table.name, table.weight, padding_idx, len(table.calls), looks_up, reason or clash, rotates
    return FoundTable(*found, adds_up=adds_up, is_output=is_output, next_weight=next_weight)


def obstacle(used: UsedTables, table: UsedTable) -> str:
    """Return the reason why a table cannot be compressed, or an empty string."""
    if not table.weight.is_floating_point():
        return f"its numbers are {dtype_name(table.weight.dtype)}, expected floats"
    if not table.weight.numel():
        return "it is empty"
    numbers = sum(used.program.module.weight(name).numel() for name in table.sources)
    if table.weight.numel() > _MOST_NUMBERS * numbers:
        shown = " and ".join(map(used.spelled, sorted(table.sources)))
        return (
            f"it is computed from {shown}, and has {table.weight.numel():,} numbers, while these have {numbers:,}: "
            "look up rows of these first, and compute with the rows"
        )
    if others := used.others(table):
        takers = list(dict.fromkeys(map(spelled, others)))
        kept = "; ".join(map(used.spelled, dict.fromkeys(others.values())))
        output_layers = used.output_layers_among(others)
        options = " ".join(f"--module {name}" for name in (table.name, *output_layers))
        names = f", or give all names ({options})" if output_layers else ""
        verb = "uses" if len(takers) == 1 else "use"
        return (
            f"{' and '.join(takers)} {verb} it too, so it would stay beside the packed table ({kept}): "
            f"compute this from looked-up rows, or give it a separate weight{names}"
        )
    return ""


def _rotates(used: UsedTables, table: UsedTable, packed: Set[str]) -> Rotates:
    """Return the place of a rotation of a table's rows."""
    if _takes_largest(table):
        return "never"
    weights = rotatable_weights(table.calls[0].node) if _is_alone(used, table) else []
    return "folded" if weights and packed.isdisjoint(weights) else "beside"


def _next_weight(used: UsedTables, table: UsedTable) -> Tensor | None:
    """Return the weight [m, d] of the only layer that takes the rows of a table, or sums of them, or None."""
    weights = next_weights(table.calls[0].node) if _is_alone(used, table) and not _takes_largest(table) else []
    known = [used.constants.value(weight) for weight in weights if weight in used.constants]
    return torch.cat(known) if weights and len(known) == len(weights) else None


def _is_alone(used: UsedTables, table: UsedTable) -> bool:
    """Return whether one lookup is the only use of a table."""
    return len(table.calls) == 1 and table.calls[0].use != "logits" and is_plain(table.calls[0], used.constants)


def _takes_largest(table: UsedTable) -> bool:
    """Return whether a bag takes the largest number of each column."""
    return any(call.use == "bag" and call.leading[3] == "max" for call in table.calls)


def spelled(node: fx.Node) -> str:
    """Return a description of a node that uses a weight, for a message."""
    return str(node.target) if node.op == "call_function" else "the output of the model"


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}_{number}" for number in count(2))


def _is_same(one: UsedTable, other: UsedTable) -> bool:
    """Return whether two uses share one table, computed in any way."""
    if one.sources != other.sources or one.weight.shape != other.weight.shape or one.weight.dtype != other.weight.dtype:
        return False
    return _is_same_memory(one.weight, other.weight) or torch.equal(one.weight, other.weight)


def _is_same_memory(one: Tensor, other: Tensor) -> bool:
    return one.data_ptr() == other.data_ptr() and (one.shape, one.stride()) == (other.shape, other.stride())
