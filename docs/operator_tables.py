"""Directives for operators of the ONNX domain, from the schemas that exports and checks use."""

from collections.abc import Iterable, Iterator

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx

from edge_embed.exporters.onnx.nodes.entmax import ACTIVATIONS, OUTPUT
from edge_embed.exporters.onnx.nodes.schema import USES, NodeSchema
from edge_embed.methods.registry import Parts

Schemas = Parts[tuple[NodeSchema, ...]]


def use_rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield suffix, first inputs, outputs and attributes of each use of a table."""
    for use in USES.values():
        yield f"`<X>{use.suffix}`", code(use.inputs), code(use.outputs), code(use.attribute_names)


def table_rows() -> Iterator[tuple[str, str, str]]:
    """Yield prefix, table inputs and attributes of each kind of table."""
    for schemas in Schemas("nodes").values():
        for schema in schemas:
            yield f"`{schema.prefix}`", code(most_tensors(schema)), code(schema.attribute_names)


def activation_rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield name, inputs, output and attributes of each sparse activation."""
    for name, schema in ACTIVATIONS.items():
        yield f"`{name}`", code(schema.inputs), code([OUTPUT]), code(schema.attribute_names)


def most_tensors(schema: NodeSchema) -> tuple[str, ...]:
    """Return the names of a node's tensors where it has as many as its kind can have."""
    longest: tuple[str, ...] = ()
    for count in range(1, 10):
        if len(tensors := schema.tensors(count)) == count:
            longest = tensors
    return longest


def code(names: Iterable[str]) -> str:
    """Return names as code, with commas between them."""
    return ", ".join(f"`{name}`" for name in names) or "none"


def table(header: str, rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    columns = header.count("|") - 1
    return [header, "|---" * columns + "|", *(f"| {' | '.join(row)} |" for row in rows)]


class _Tables(Directive):
    """Inserts tables."""

    def lines(self) -> list[str]:
        """Return their lines in Markdown."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Return their nodes."""
        container = nodes.container()
        self.state.nested_parse(StringList(self.lines(), "operator_tables"), self.content_offset, container)
        return container.children


class ActivationTable(_Tables):
    """Inserts the table of sparse activations."""

    def lines(self) -> list[str]:
        """Return its lines."""
        return table("| operator | inputs | outputs | attributes |", activation_rows())


class OperatorTables(_Tables):
    """Inserts the tables of operators that use a table of the model."""

    def lines(self) -> list[str]:
        """Return the lines of both."""
        lines = table("| operator | inputs before the table | outputs | attributes of the use |", use_rows())
        return [*lines, "", *table("| X | inputs of the table | attributes of the table |", table_rows())]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("operator-tables", OperatorTables)
    app.add_directive("activation-table", ActivationTable)
    return {"parallel_read_safe": True}
