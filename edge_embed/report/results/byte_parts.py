"""What the bytes of an exported file are: tensors of tables, dense weights, graph, ...; together all of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Of a file as a whole; the parts of a table are named as its tensors (codes, values, row_offsets, core_0, ...).
FILE_PARTS: Mapping[str, str] = {
    "dense": "initializers and constants outside of compressed tables",
    "graph": "nodes, names and types",
    "bodies": "portable bodies",
    "manifest": "sizes and hashes of the tables",
    "vocabulary": "the token of every id",
    "metadata": "strings that travel with the model",
    "padding": "between tensors in a file beside the model",
}
# Not in the file: the device needs it once for all models.
LIBRARY = "library"


@dataclass(frozen=True)
class SizePart:
    """Bytes of one part of the files.

    Attributes:
        table: the table that it belongs to, None for a part of the file as a whole.
        name: of a tensor of the table, or a key of `FILE_PARTS`.
        bytes: in the files, exact.
    """

    table: str | None
    name: str
    bytes: int

    @property
    def title(self) -> str:
        """``words codes``, or ``graph``."""
        return self.name if self.table is None else f"{self.table} {self.name}"


def by_table(parts: Iterable[SizePart]) -> dict[str, int]:
    """Bytes of every table."""
    found: dict[str, int] = {}
    for part in parts:
        if part.table is not None:
            found[part.table] = found.get(part.table, 0) + part.bytes
    return found


def by_name(parts: Iterable[SizePart]) -> dict[str, int]:
    """Bytes of the parts of a name, in all tables together."""
    found = dict.fromkeys(FILE_PARTS, 0)
    for part in parts:
        found[part.name] = found.get(part.name, 0) + part.bytes
    return found
