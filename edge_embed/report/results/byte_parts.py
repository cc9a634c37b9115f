"""Parts of the bytes of an exported file: tensors of tables, dense weights, graph, ...; they add up to the file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Parts of a file as a whole. A part of a table has the name of its tensor (codes, values, row_offsets, core_0, ...).
FILE_PARTS: Mapping[str, str] = {
    "dense": "initializers and constants outside of compressed tables",
    "graph": "nodes, names and types",
    "bodies": "portable bodies",
    "manifest": "sizes and hashes of the tables",
    "vocabulary": "tokens in the order of ids",
    "metadata": "metadata strings of the model",
    "padding": "gaps between tensors in an external data file",
}
# Outside of the file: the device stores the library once for all models.
LIBRARY = "library"


@dataclass(frozen=True)
class SizePart:
    """Bytes of one part of the files.

    Attributes:
        table: table that the part belongs to; None for a part of the file as a whole.
        name: name of a tensor of the table, or a key of `FILE_PARTS`.
        bytes: exact number of bytes in the files.
    """

    table: str | None
    name: str
    bytes: int

    @property
    def title(self) -> str:
        """Return a title such as ``words codes`` or ``graph``."""
        return self.name if self.table is None else f"{self.table} {self.name}"


def by_table(parts: Iterable[SizePart]) -> dict[str, int]:
    """Return the bytes of every table."""
    found: dict[str, int] = {}
    for part in parts:
        if part.table is not None:
            found[part.table] = found.get(part.table, 0) + part.bytes
    return found


def by_name(parts: Iterable[SizePart]) -> dict[str, int]:
    """Return the bytes of the parts by name, summed over all tables."""
    found = dict.fromkeys(FILE_PARTS, 0)
    for part in parts:
        found[part.name] = found.get(part.name, 0) + part.bytes
    return found
