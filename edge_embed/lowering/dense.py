"""The dense tables of a saved program, and the program with packed ones in their place.

A table is a weight [n, d] of which the graph looks rows up (``embedding``) or reduces bags (``embedding_bag``), or with
all of which it multiplies (``linear`` or ``matmul``: a head). One that another operator takes as well has to stay.
"""

import operator
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx

from edge_embed.compression.found import FoundTable
from edge_embed.compression.padding import padding_row
from edge_embed.lowering.graph import METHODS, owner_of
from edge_embed.ops.bag import MODES
from edge_embed.packed.form import Packed, Use
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


def program_tables(program: Program) -> list[FoundTable]:
    """All tables of a program, in its order, with the weights of its linear layers."""
    by_weight = _calls_by_weight(program.module.graph)
    names = _table_names(program, by_weight)
    return [_found(table, program.module.weight(name), by_weight[name]) for name, table in names.items()]


def _table_names(program: Program, by_weight: Mapping[str, Sequence[_Call | fx.Node]]) -> dict[str, str]:
    """What the table is called that a weight is, by the name of the weight, of those that are one."""
    is_used = {name: any(isinstance(call, _Call) for call in calls) for name, calls in by_weight.items()}
    found = [name for name, is_table in is_used.items() if is_table and program.module.weight(name).ndim == 2]
    owners = Counter(map(owner_of, found))
    return {name: owner_of(name) if owners[owner_of(name)] == 1 else name for name in found}


def _found(name: str, weight: Tensor, calls: Sequence[_Call | fx.Node]) -> FoundTable:
    """A table and its uses."""
    uses = [call for call in calls if isinstance(call, _Call)]
    others = [call for call in calls if isinstance(call, fx.Node)]
    lookups, bags, heads = ([call.padding_idx for call in uses if call.use == use] for use in ("rows", "bag", "logits"))
    padding_idx, clash = padding_row(weight, lookups, bags, bool(heads))
    reason = f"{_spelled(others[0])} takes it too" if others else clash
    return FoundTable(name, weight, padding_idx, len(uses), bool(lookups or bags), reason)


def with_packed(program: Program, tables: Mapping[str, Packed]) -> Program:
    """A copy of a program with packed tables in the place of dense ones.

    Args:
        program: it stays as it is.
        tables: the packed forms by the name of the table, of those that need not stay.
    """
    graph = fx.Graph()
    graph.output(graph.graph_copy(program.module.graph, {}))
    weights: dict[str, Tensor] = {}
    by_weight = _calls_by_weight(graph)
    for name, table in _table_names(program, by_weight).items():
        packed = tables.get(table)
        if packed is None:
            continue
        prefix = _free(table, packed, by_weight)
        tensors = {f"{prefix}.{key}": torch.from_numpy(array) for key, array in packed.tensors().items()}
        weights |= tensors
        for call in by_weight[name]:
            assert isinstance(call, _Call)
            with graph.inserting_before(call.node):
                result = _packed_call(graph, call, packed, list(tensors), program.module.weight(name).dtype)
            call.node.replace_all_uses_with(result)
            graph.erase_node(call.node)
    graph.eliminate_dead_code()
    kept = {str(node.target) for node in graph.nodes if node.op == "get_attr"}
    dense = {name: program.module.weight(name) for name in sorted(kept - weights.keys())}
    return replace(program, module=ProgramModule(graph, dense | weights))


def _free(table: str, packed: Packed, taken: Container[str]) -> str:
    """What the tensors of a packed table are called by, so that no weight of the program has their names."""
    while any(f"{table}.{key}" in taken for key in packed.tensors()):
        table += "_packed"
    return table


def _packed_call(graph: fx.Graph, call: _Call, packed: Packed, tensors: Sequence[str], dtype: torch.dtype) -> fx.Node:
    """The same result of the packed table, in the type that the dense one had."""
    (method,) = (method for method in METHODS if method.name == packed.method)
    arguments = method.arguments(packed, [graph.get_attr(name) for name in tensors])
    leading = call.leading
    if call.use == "bag":
        leading = _bag(graph, *leading)
    result = graph.call_function(method.operators(packed).uses[call.use], (*leading, *arguments))
    if call.use != "logits" and dtype_name(dtype) != packed.row_type:  # logits have the type of their hidden states
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
