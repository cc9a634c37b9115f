"""Names that no value or node of a model has yet."""

import re
from collections.abc import Iterable, Iterator

from onnx import GraphProto, ModelProto

_IN_MANIFESTS = re.compile(r"[^!-.0-~]")  # blanks, slashes and non-ASCII characters are invalid


class Names:
    """All names of values and nodes of a model, including inner graphs, which can read the values of outer ones."""

    def __init__(self, model: ModelProto) -> None:
        self._taken = set(_names_of(model.graph))

    def free(self, wanted: str) -> str:
        """Return a free name similar to ``wanted``, and mark it as used."""
        name, count = wanted, 0
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name

    def free_table(self, label: str, tensors: Iterable[str], tables: Iterable[str]) -> str:
        """Return a free name for a table, valid in a manifest, so that names of its tensors are free as well."""
        wanted, others, suffixes = in_manifest(label), set(tables), [f".{tensor}" for tensor in tensors]
        name, count = wanted, 0
        while name in others or self._taken & {name + suffix for suffix in suffixes}:
            count += 1
            name = f"{wanted}_{count}"
        self._taken |= {name + suffix for suffix in suffixes}
        return name


def in_manifest(label: str) -> str:
    """Return a name with characters that are valid in a manifest."""
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
