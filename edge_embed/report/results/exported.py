"""Result of `edge-embed export`, for people and for programs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edge_embed.report.results.bundled import Ran
from edge_embed.report.results.model_source import NO_FACTS, SourceFacts
from edge_embed.report.results.shown import Shown
from edge_embed.report.results.table_record import TableRecord
from edge_embed.report.results.widened_bfloat16 import Widened

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class ExportedTokenizer:
    """Tokenizer in front of the exported model.

    Attributes:
        kind: ``BPE``, ``WordPiece`` or ``WordLevel``.
        sha256: SHA-256 of its file.
        num_ids: number of ids.
        input: the model's input for ids.
        pad_id: id that pads shorter texts.
        max_length: most ids of a text, None for no limit.
        texts: number of texts for which its ids equal those of the library `tokenizers`.
    """

    kind: str
    sha256: str
    num_ids: int
    input: str
    pad_id: int
    max_length: int | None
    texts: int


@dataclass(frozen=True)
class Opened:
    """Runtime in which a file was opened.

    Attributes:
        runtime: name and version of the runtime.
        ways: such as ``operator library`` and ``portable body``.
        reason: why it was not opened, empty if it was.
    """

    runtime: str = ""
    ways: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, repr=False)
class ExportReport(Shown):
    """Report of an export.

    Attributes:
        files: bytes by path.
        tables: every embedding of the model.
        dynamic: dynamic dimensions of inputs and outputs.
        frozen: dimensions with a fixed size.
        tokenizer: tokenizer in front of the model, if there is one.
        signatures: sizes of the dynamic dimensions, by name of the signature with these sizes.
        opened: runtime that opened the file before it got its name.
        widened: bfloat16 parts of the model that are float32 in the file.
        source: decisions about the file of the model, and its parts that are not in the model.
        id_check: check of ids in the file: ``error``, ``nan`` or None.
        golden: runs of the golden pair of a bundle; empty for a single file.
    """

    files: Mapping[Path, int]
    tables: tuple[TableRecord, ...]
    dynamic: Mapping[str, list[str]]
    frozen: Mapping[str, list[str]]
    tokenizer: ExportedTokenizer | None = None
    signatures: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    opened: Opened = field(default_factory=Opened)
    widened: Widened = field(default_factory=Widened)
    source: SourceFacts = NO_FACTS
    id_check: str | None = None
    golden: tuple[Ran, ...] = ()
    view = "edge_embed.report.views.exported:render"

    def to_json(self) -> dict[str, Any]:
        """Return plain data with stable keys."""
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
            "id_check": self.id_check,
            "golden": [asdict(run) for run in self.golden],
        }
