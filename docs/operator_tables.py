"""The directive ``operator-tables``: operators of the ONNX domain, from the schemas that exports and checks use."""

from collections.abc import Iterable, Iterator

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx

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


class OperatorTables(Directive):
    """Inserts both tables."""

    def run(self) -> list[nodes.Node]:
        """Return the nodes of both tables."""
        lines = table("| operator | inputs before the table | outputs | attributes of the use |", use_rows())
        lines += ["", *table("| X | inputs of the table | attributes of the table |", table_rows())]
        container = nodes.container()
        self.state.nested_parse(StringList(lines, "operator_tables"), self.content_offset, container)
        return container.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("operator-tables", OperatorTables)
    return {"parallel_read_safe": True}
