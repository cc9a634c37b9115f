"""Rows selected by an id of rank 0: tracing turns ``w[id]`` into a number, and then into a row.

    number = item(id); select(w, dim, number)   ->   index(w, [None, ..., id])

Both count ids below 0 from the end. Every other use of the number is refused, and its checks are dropped.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import fx

from edge_embed.errors import BadInputError
from edge_embed.program import operators
from edge_embed.program.archive_weights import DTYPES

_INTEGERS = ("torch.int32", "torch.int64")
_COMPUTED = ("_operator.", "math.", "torch.sym_")


class RowNumbers:
    """Numbers that a graph extracts from tensors.

    Args:
        graph: graph under construction.
        description: description of the graph in the archive.
        values: nodes of the graph by name.
    """

    def __init__(self, graph: fx.Graph, description: Mapping[str, Any], values: Mapping[str, fx.Node]) -> None:
        self._graph, self._description, self._values = graph, description, values
        self._ids: dict[str, str] = {}  # tensor of each number, by name of the number
        self._made: dict[str, str] = {}  # operator that extracted a number, by name of it or of results from it

    def takes(self, node: Mapping[str, Any]) -> bool:
        """Return whether a node only extracts a number, or computes with one, and is therefore left out of the graph.

        Raises:
            BadInputError: if the number is used for something other than a row.
        """
        name, arguments = node["target"].removeprefix("torch.ops."), [item["arg"] for item in node["inputs"]]
        if name in operators.NUMBERS:
            ids = arguments[0]["as_tensor"]["name"]
            if str(DTYPES[self._meta(ids)["dtype"]]) not in _INTEGERS:
                raise BadInputError(operators.number_refusal(name))
            number = _made_number(node)
            self._ids[number], self._made[number] = ids, name
            return True
        used = [symbol for symbol in _symbols(arguments) if symbol in self._made]
        if not used or operators.is_ignored(name) or self._is_row(name, arguments, used):
            return False
        if not name.startswith(_COMPUTED):
            raise BadInputError(operators.number_refusal(self._made[used[0]]))
        self._made[_made_number(node)] = self._made[used[0]]
        return True

    def row(self, node: Mapping[str, Any]) -> fx.Node | None:
        """Return the row that a node selects by a number, or None if it does something else."""
        name, arguments = node["target"].removeprefix("torch.ops."), [item["arg"] for item in node["inputs"]]
        used = [symbol for symbol in _symbols(arguments) if symbol in self._ids]
        if not used or not self._is_row(name, arguments, used):
            return None
        source, axis, ids = arguments[0]["as_tensor"]["name"], arguments[1]["as_int"], self._ids[used[0]]
        rank = len(self._meta(source)["sizes"])
        if not -rank <= axis < rank:
            raise ValueError(f"select along axis {axis} of {rank}")
        number = self._values[ids]
        if self._meta(ids)["sizes"]:
            number = self._graph.call_function(operators.RESHAPE, (number, []))
        indices = [*[None] * (axis % rank), number]
        return self._graph.call_function(operators.INDEX, (self._values[source], indices))

    def _is_row(self, name: str, arguments: list[Any], used: list[str]) -> bool:
        if name != operators.SELECT or len(arguments) != len(("source", "axis", "number")) or len(used) > 1:
            return False
        return used[0] in self._ids and used == list(_symbols(arguments[2]))

    def _meta(self, tensor: str) -> Mapping[str, Any]:
        meta: Mapping[str, Any] = self._description["tensor_values"][tensor]
        return meta


def _made_number(node: Mapping[str, Any]) -> str:
    """Return the name of the number that a node returns."""
    ((_, value),) = node["outputs"][0].items()
    name: str = value["as_name"]
    return name


def _symbols(argument: Any) -> Iterator[str]:
    """Yield the names of the numbers in an argument or a list of them."""
    if isinstance(argument, list):
        for each in argument:
            yield from _symbols(each)
    elif isinstance(argument, dict):
        for kind, value in argument.items():
            if kind == "as_name" and isinstance(value, str):
                yield value
            elif kind.startswith("as_sym_"):
                yield from _symbols(value)
