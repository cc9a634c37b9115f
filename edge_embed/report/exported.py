"""The result of `edge-embed export`, for people and for programs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from edge_embed.methods import words_of
from edge_embed.report.model_source import NO_FACTS, SourceFacts
from edge_embed.report.shown import FoldedTable, Shown
from edge_embed.report.widened_bfloat16 import Widened
from edge_embed.report.words import method_words

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class ExportedTable:
    """One embedding of the exported model.

    Attributes:
        name: where it sits in the user's model.
        method: ``dpq``, ..., or ``dense``.
        num_embeddings: rows n.
        embedding_dim: columns d.
        lowered: whether it is packed in the file.
        reason: why it was left, empty if it was not.
        uses: how many times the model uses it: looks ids up, reduces bags, multiplies with every row.
        packed_bytes: bytes of the packed tensors, None if it was left.
        compression_ratio: by the formula of the method's paper, None if it was left.
        session_bytes: that a session takes at most beside the file to be faster, in all its uses.
        needed_bytes: the least that each of them would have to be allowed, where they are allowed less and take none;
            else 0.
        layout: how it lies in the file, where the target has several ways; else empty.
        added_bytes: that this adds to the packed tensors.
        is_zero: whether all of its rows are zero.
        settings: what else it is made with: ``num_codes``, ``ranks``, ``value_type``, ...; empty if it was left.
    """

    name: str
    method: str
    num_embeddings: int
    embedding_dim: int
    lowered: bool
    reason: str
    uses: int
    packed_bytes: int | None
    compression_ratio: float | None
    session_bytes: int
    needed_bytes: int
    layout: str = ""
    added_bytes: int = 0
    is_zero: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    def cells(self) -> list[str]:
        """A row for the terminal."""
        return [
            self.name,
            method_words(self.method, self.embedding_dim, self.settings),
            f"{self.num_embeddings} x {self.embedding_dim}",
            f"{4 * self.num_embeddings * self.embedding_dim:,}",
            "" if self.packed_bytes is None else f"{self.packed_bytes:,}",
            "" if self.compression_ratio is None else f"{self.compression_ratio:.1f}x",
            self._remark(),
        ]

    def hint(self) -> str:
        """What memory would make it faster, empty where it has that or was allowed none."""
        if not self.needed_bytes:
            return ""
        megabytes = -(-self.needed_bytes >> 20)
        serves = f"--memory-megabytes {megabytes} would serve ({self.needed_bytes:,} bytes for each use)"
        return f"{self.name}: no faster with so little memory, {serves}"

    def _remark(self) -> str:
        if self.packed_bytes is None:
            return f"left: {self.reason}"
        shared = f", used {self.uses} times" if self.uses > 1 else ""
        session = f", up to {self.session_bytes:,} bytes more in a session" if self.session_bytes else ""
        layout = f" as {self.layout}" if self.layout else ""
        added = f" ({self.added_bytes:,} bytes more)" if self.added_bytes > 0 else ""
        grew = self.packed_bytes >= 4 * self.num_embeddings * self.embedding_dim
        zero = ", all rows are zero" if self.is_zero else ""
        return f"lowered{layout}{added}{zero}{shared}{session}" + (
            f", but no smaller than dense: {words_of(self.method).smaller}" if grew else ""
        )


@dataclass(frozen=True)
class ExportedTokenizer:
    """The tokenizer in front of the exported model.

    Attributes:
        kind: ``BPE``, ``WordPiece`` or ``WordLevel``.
        sha256: of its file.
        num_ids: how many ids it has.
        input: the model's input for ids.
        pad_id: what fills shorter texts.
        max_length: ids of a text at most, None for no limit.
        texts: for how many it gave the same ids as the library `tokenizers`.
    """

    kind: str
    sha256: str
    num_ids: int
    input: str
    pad_id: int
    max_length: int | None
    texts: int

    def render(self) -> str:
        """A line for the terminal."""
        limit = "any length" if self.max_length is None else f"at most {self.max_length} ids a text"
        return (
            f"tokenizer: {self.kind}, {self.num_ids:,} ids, padding {self.pad_id}, {limit}; the same ids as the "
            f"library tokenizers for all of {self.texts} texts"
        )


@dataclass(frozen=True)
class Opened:
    """Where a file was opened.

    Attributes:
        runtime: its name and version.
        ways: such as ``operator library`` and ``portable body``.
        reason: why it was not opened, empty if it was.
    """

    runtime: str = ""
    ways: tuple[str, ...] = ()
    reason: str = ""

    def render(self) -> str:
        """A line for the terminal, empty where nobody wanted to open it."""
        if self.reason:
            return f"not opened: {self.reason}"
        return f"opened in {self.runtime}: {', '.join(self.ways)}" if self.ways else ""


@dataclass(frozen=True, repr=False)
class ExportReport(Shown):
    """What an export wrote.

    Attributes:
        files: bytes by path.
        tables: every embedding of the model.
        dynamic: dynamic dimensions of inputs and outputs.
        frozen: dimensions with one size.
        tokenizer: in front of the model, if there is one.
        signatures: sizes of the dynamic dimensions, by name of the signature that is for them alone.
        opened: where the file was opened before it got its name.
        widened: what the model has in bfloat16 and the file in float32.
        source: what was decided about the file of the model, and what of it is not in the model.
    """

    files: Mapping[Path, int]
    tables: tuple[ExportedTable, ...]
    dynamic: Mapping[str, list[str]]
    frozen: Mapping[str, list[str]]
    tokenizer: ExportedTokenizer | None = None
    signatures: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    opened: Opened = field(default_factory=Opened)
    widened: Widened = field(default_factory=Widened)
    source: SourceFacts = NO_FACTS

    def to_json(self) -> dict[str, Any]:
        """Plain data with stable keys."""
        return {
            "schema_version": SCHEMA_VERSION,
            "files": [{"path": str(path), "bytes": size} for path, size in self.files.items()],
            "tables": [asdict(table) for table in self.tables],
            "dynamic": dict(self.dynamic),
            "frozen": dict(self.frozen),
            "tokenizer": None if self.tokenizer is None else asdict(self.tokenizer),
            "signatures": {name: dict(sizes) for name, sizes in self.signatures.items()},
            "opened": asdict(self.opened),
            "widened": asdict(self.widened),
            "source": asdict(self.source),
        }

    def render(self) -> RenderableType:
        """Tables for the terminal."""
        tables = FoldedTable("table", "method", "shape", "dense bytes", "packed bytes", "ratio", "", title="Embeddings")
        for table in self.tables:
            tables.add_row(*table.cells())
        shapes = FoldedTable("tensor", "dynamic", "fixed", title="Dimensions")
        for name, dynamic in self.dynamic.items():
            shapes.add_row(name, ", ".join(dynamic), ", ".join(self.frozen[name]))
        written = [f"wrote {path} ({size:,} bytes)" for path, size in self.files.items()]
        hints = [hint for table in self.tables if (hint := table.hint())]
        tokenizer = [] if self.tokenizer is None else [self.tokenizer.render()]
        signatures = [f"signature {name}: {_spelled(sizes)}" for name, sizes in self.signatures.items()]
        signatures += ["sizes are fixed: --tflite-size chooses others"] if signatures else []
        widened = [self.widened.render()] if self.widened else []
        opened = [line] if (line := self.opened.render()) else []
        source = map(Text, self.source.lines())  # with names from the file
        return Group(tables, shapes, *signatures, *hints, *tokenizer, *source, *widened, *written, *opened)


def _spelled(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())
