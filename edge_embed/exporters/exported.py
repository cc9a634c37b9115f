"""What all targets share: what they take from a lowered program, and what they tell of the file they wrote."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.names import MANIFEST_KEY, METADATA_KEY, VOCABULARY_KEY
from edge_embed.lowering.graph import LoweredProgram
from edge_embed.packed.manifest import write_manifest
from edge_embed.report.results.table_record import TableRecord

OnWritten = Callable[[Path], None]


def keep_unopened(path: Path) -> None:
    """What an exporter does with a file that nobody wants to open first."""


@dataclass(frozen=True)
class ExportedFile:
    """What was written.

    Attributes:
        files: the model, then its weights file if there is one.
        dynamic: dynamic dimensions by input and output, such as ``{"ids": ["batch", "sequence"]}``.
        frozen: dimensions that have one size, in the same form.
        tables: every embedding of the model.
        signatures: sizes of the dynamic dimensions, by name of the signature that is for them alone.
    """

    files: tuple[Path, ...]
    dynamic: Mapping[str, list[str]]
    frozen: Mapping[str, list[str]]
    tables: tuple[TableRecord, ...]
    signatures: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def check_tables(lowered: LoweredProgram) -> None:
    """Refuse a program without a compressed table.

    Raises:
        BadInputError: names the embeddings that there are.
    """
    if not lowered.tables:
        dense = ", ".join(report.name for report in lowered.reports) or "none at all"
        raise BadInputError(
            f"the model has no compressed table (embeddings found: {dense}): compress one (`edge-embed compress`), or "
            "train it as DPQEmbedding in place of nn.Embedding"
        )


def metadata_of(lowered: LoweredProgram) -> dict[str, str]:
    """Hashes and sizes of the tables as in a packed file, and what travels with the model."""
    program = lowered.program
    properties = {MANIFEST_KEY: write_manifest(lowered.tables)}
    if program.vocabulary is not None:
        properties[VOCABULARY_KEY] = json.dumps(list(program.vocabulary), ensure_ascii=False)
    if program.metadata:
        properties[METADATA_KEY] = json.dumps(dict(program.metadata), sort_keys=True, ensure_ascii=False)
    return properties
