"""The dense tables of a saved program, and the program with packed ones in their place.

A table is a weight [n, d] of which the graph looks rows up (``embedding``) or reduces bags (``embedding_bag``), or with
all of which it multiplies (``linear`` or ``matmul``: a head). One that another operator takes as well has to stay.
"""

import operator
from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx

from edge_embed.compression.fitted import ROTATION, Stored
from edge_embed.compression.found import FoundTable, Rotates
from edge_embed.compression.padding import padding_row
from edge_embed.lowering.graph import METHODS, owner_of
from edge_embed.lowering.rotation import rotated, turned, turned_weights
from edge_embed.ops.bag import MODES
from edge_embed.packed.form import Use
from edge_embed.program.program import Program, ProgramModule, dtype_name

_ATEN = torch.ops.aten
_EMBEDDING, _BAG, _LINEAR = _ATEN.embedding.default, _ATEN.embedding_bag.padding_idx, _ATEN.linear.default
_TRANSPOSED: dict[Any, tuple[tuple[Any, ...], ...]] = {  # with their arguments after the table
    _ATEN.t.default: ((),),
    _ATEN.numpy_T.default: ((),),
    _ATEN.transpose.int: ((0, 1), (1, 0), (-1, -2), (-2, -1)),
    _ATEN.permute.default: (([1, 0],),),
}
_PRODUCTS = {_ATEN.matmul.default, _ATEN.mm.default}


@dataclass(frozen=True)
class _Call:
    """One use of a table.

    Attributes:
        use: what it computes.
        source: the node that takes the table; its arguments may have been replaced since it was found.
        node: whose result it is: of a bag, the first of its four results.
    """

    use: Use
    source: fx.Node
    node: fx.Node

    @property
    def leading(self) -> tuple[Any, ...]:
        """What the operator of a packed table takes first; of a bag with whether offsets end with the number of ids."""
        args = self.source.args
        if self.use == "bag":
            _, ids, offsets, _, mode, _, weights, has_last, _ = args
            return ids, offsets, weights, MODES[mode], has_last  # type: ignore[index]
        return (args[1] if self.use == "rows" else args[0],)

    @property
    def bias(self) -> Any:
        """What is added to the result, or None."""
        return self.source.args[2] if self.source.target == _LINEAR and len(self.source.args) > 2 else None

    @property
    def padding_idx(self) -> int | None:
        """The padding row of this use; torch writes -1 for none."""
        args, place = self.source.args, {"rows": 2, "bag": 8}.get(self.use)
        row: Any = None if place is None or len(args) <= place else args[place]
        return None if row is None or row < 0 else row


def program_tables(program: Program, wanted: Collection[str] = ()) -> list[FoundTable]:
    """All tables of a program, in its order, with the weights of its linear layers.

    Args:
        program: it stays as it is.
        wanted: names of tables that are to be compressed even if no rows are looked up: no rotation goes into those.
    """
    by_weight = _calls_by_weight(program.module.graph)
    names = _table_names(program, by_weight)
    packed = {name for name, table in names.items() if table in wanted}
    return [_found(table, program.module.weight(name), by_weight[name], packed) for name, table in names.items()]


def _table_names(program: Program, by_weight: Mapping[str, Sequence[_Call | fx.Node]]) -> dict[str, str]:
    """What the table is called that a weight is, by the name of the weight, of those that are one."""
    is_used = {name: any(isinstance(call, _Call) for call in calls) for name, calls in by_weight.items()}
    found = [name for name, is_table in is_used.items() if is_table and program.module.weight(name).ndim == 2]
    owners = Counter(map(owner_of, found))
    return {name: owner_of(name) if owners[owner_of(name)] == 1 else name for name in found}


def _found(name: str, weight: Tensor, calls: Sequence[_Call | fx.Node], packed: Set[str]) -> FoundTable:
    """A table and its uses, where weights of these names are going to be packed."""
    uses = [call for call in calls if isinstance(call, _Call)]
    others = [call for call in calls if isinstance(call, fx.Node)]
    lookups, bags, heads = ([call.padding_idx for call in uses if call.use == use] for use in ("rows", "bag", "logits"))
    padding_idx, clash = padding_row(weight, lookups, bags, bool(heads))
    reason = f"{_spelled(others[0])} takes it too" if others else clash
    return FoundTable(name, weight, padding_idx, len(uses), bool(lookups or bags), reason, _rotates(uses, packed))


def _rotates(uses: Sequence[_Call], packed: Set[str]) -> Rotates:
    """What becomes of a rotation of the rows of a table with these uses."""
    if any(call.use == "bag" and call.leading[3] == "max" for call in uses):
        return "never"
    is_alone = len(uses) == 1 and uses[0].use != "logits"
    weights = turned_weights(uses[0].node) if is_alone else []
    return "folded" if weights and packed.isdisjoint(weights) else "beside"


def with_packed(program: Program, tables: Mapping[str, Stored]) -> Program:
    """A copy of a program with packed tables in the place of dense ones.

    Args:
        program: it stays as it is.
        tables: what is stored, by the name of the table, of those that need not stay.
    """
    graph = fx.Graph()
    graph.output(graph.graph_copy(program.module.graph, {}))
    weights: dict[str, Tensor] = {}
    by_weight = _calls_by_weight(graph)
    for name, table in _table_names(program, by_weight).items():
        stored = tables.get(table)
        if stored is None:
            continue
        prefix, dtype = _free(table, stored, by_weight), program.module.weight(name).dtype
        weights |= {f"{prefix}.{key}": torch.from_numpy(array) for key, array in stored.arrays().items()}
        for call in by_weight[name]:
            assert isinstance(call, _Call)
            if stored.rotation is not None and stored.rotates == "folded":
                rotation = torch.from_numpy(stored.rotation)
                weights |= {each: turned(program.module.weight(each), rotation) for each in turned_weights(call.node)}
            with graph.inserting_before(call.node):
                result = _packed_call(graph, call, stored, prefix, dtype)
            call.node.replace_all_uses_with(result)
            graph.erase_node(call.node)
    graph.eliminate_dead_code()
    kept = {str(node.target) for node in graph.nodes if node.op == "get_attr"}
    dense = {name: program.module.weight(name) for name in sorted(kept - weights.keys())}
    return replace(program, module=ProgramModule(graph, dense | weights))


def _free(table: str, stored: Stored, taken: Container[str]) -> str:
    """What the tensors of a packed table are called by, so that no weight of the program has their names."""
    while any(f"{table}.{key}" in taken for key in stored.arrays()):
        table += "_packed"
    return table


def _packed_call(graph: fx.Graph, call: _Call, stored: Stored, prefix: str, dtype: torch.dtype) -> fx.Node:
    """The same result of the packed table, in the type that the dense one had."""
    packed = stored.plain
    (method,) = (method for method in METHODS if method.name == packed.method)
    nodes = {key: graph.get_attr(f"{prefix}.{key}") for key in stored.arrays()}
    leading, turn = call.leading, nodes.pop(ROTATION, None)
    arguments = method.arguments(packed, list(nodes.values()))
    if call.use == "bag":
        leading = _bag(graph, *leading)
    if call.use == "logits" and turn is not None:
        leading = (rotated(graph, leading[0], turn, dtype, is_head=True),)
    result = graph.call_function(method.operators(packed).uses[call.use], (*leading, *arguments))
    if call.use != "logits" and turn is not None:
        result = rotated(graph, result, turn, dtype)
    elif call.use != "logits" and dtype_name(dtype) != packed.row_type:  # logits have the type of their hidden states
        result = graph.call_function(_ATEN.to.dtype, (result, dtype))
    return result if call.bias is None else graph.call_function(_ATEN.add.Tensor, (result, call.bias))


def _bag(
    graph: fx.Graph, ids: fx.Node, offsets: fx.Node, weights: fx.Node | None, mode: str, has_last: bool
) -> tuple[Any, ...]:
    """Arguments of a bag, whose offsets end with the number of ids."""
    if not has_last:
        count = graph.call_function(_ATEN.sym_size.int, (ids, 0))
        last = graph.call_function(_ATEN.new_full.default, (offsets, [1], count))
        offsets = graph.call_function(_ATEN.cat.default, ([offsets, last],))
    return ids, offsets, weights, mode


def _calls_by_weight(graph: fx.Graph) -> dict[str, list[_Call | fx.Node]]:
    """How each weight is used, by name: uses of a table, and nodes that take it for something else."""
    calls: dict[str, list[_Call | fx.Node]] = {}
    for weight in graph.nodes:
        for user in weight.users if weight.op == "get_attr" else ():
            calls.setdefault(str(weight.target), []).extend(_uses(weight, user))
    return calls


def _uses(weight: fx.Node, user: fx.Node) -> Iterator[_Call | fx.Node]:
    """What one node does with a table: several things where it turns the table round first."""
    places = [place for place, argument in enumerate(user.args) if argument is weight]
    others = [argument for argument in user.all_input_nodes if argument is not weight]
    if user.target == _EMBEDDING and places == [0]:
        yield _Call("rows", user, user)
    elif user.target == _BAG and places == [0] and _only_first(user):
        yield from (_Call("bag", user, result) for result in user.users if result.args[1] == 0)
    elif user.target == _LINEAR and places == [1]:
        yield _Call("logits", user, user)
    elif user.target in _TRANSPOSED and user.args[1:] in _TRANSPOSED[user.target] and not others:
        for product in user.users:
            is_head = product.target in _PRODUCTS and product.args[1] is user and product.args[0] is not user
            yield _Call("logits", product, product) if is_head else product
    else:
        yield user


def _only_first(bag: fx.Node) -> bool:
    """Whether nothing asks for the counts and places that a bag gives beside its result."""
    return all(user.target == operator.getitem and (user.args[1] == 0 or not user.users) for user in bag.users)


def _spelled(node: fx.Node) -> str:
    return str(node.target) if node.op == "call_function" else "the output of the model"
