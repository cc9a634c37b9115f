"""Names that nothing in a model has yet."""

import re
from collections.abc import Iterable, Iterator

from onnx import GraphProto, ModelProto

_IN_MANIFESTS = re.compile(r"[^!-.0-~]")  # blanks, slashes and what is not ASCII are not


class Names:
    """All names of values and nodes of a model, those in graphs inside its graph too, which see what is around them."""

    def __init__(self, model: ModelProto) -> None:
        self._taken = set(_names_of(model.graph))

    def free(self, wanted: str) -> str:
        """A name like this one; it is taken from now on."""
        name, count = wanted, 0
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name

    def free_table(self, label: str, tensors: Iterable[str], tables: Iterable[str]) -> str:
        """The name of a table, before that of each of its tensors, that a manifest can hold and has not."""
        wanted, others, suffixes = in_manifest(label), set(tables), [f".{tensor}" for tensor in tensors]
        name, count = wanted, 0
        while name in others or self._taken & {name + suffix for suffix in suffixes}:
            count += 1
            name = f"{wanted}_{count}"
        self._taken |= {name + suffix for suffix in suffixes}
        return name


def in_manifest(label: str) -> str:
    """A name as a manifest can hold it."""
    return _IN_MANIFESTS.sub(".", label)


def _names_of(graph: GraphProto) -> Iterator[str]:
    for values in (graph.input, graph.output, graph.value_info, graph.initializer):
        yield from (value.name for value in values)
    yield from (tensor.values.name for tensor in graph.sparse_initializer)
    for node in graph.node:
        yield from (node.name, *node.input, *node.output)
        for item in node.attribute:
            for inner in (item.g, *item.graphs):
                yield from _names_of(inner)
