"""Parts that all targets share: checks and metadata of a lowered program, and the description of the written file."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.names import ID_CHECK_KEY, MANIFEST_KEY, METADATA_KEY, VOCABULARY_KEY
from edge_embed.lowering.graph import LoweredProgram
from edge_embed.lowering.id_check import IdCheck, known_id_check
from edge_embed.packed.manifest import write_manifest
from edge_embed.report.results.table_record import TableRecord

OnWritten = Callable[[Path], None]


def keep_unopened(path: Path) -> None:
    """Do nothing: the default for files that are not opened before they get their names."""


@dataclass(frozen=True)
class ExportedFile:
    """Description of an export's files.

    Attributes:
        files: the model, then its weights file if there is one.
        dynamic: dynamic dimensions by input and output, such as ``{"ids": ["batch", "sequence"]}``.
        frozen: dimensions of fixed size, in the same form.
        tables: every embedding of the model.
        signatures: sizes of the dynamic dimensions, by name of the signature for these sizes.
    """

    files: tuple[Path, ...]
    dynamic: Mapping[str, list[str]]
    frozen: Mapping[str, list[str]]
    tables: tuple[TableRecord, ...]
    signatures: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def check_tables(lowered: LoweredProgram) -> None:
    """Refuse a program without a compressed table or a sparse activation.

    Raises:
        BadInputError: there is neither; the message names the embeddings.
    """
    if not lowered.tables and not lowered.num_activations:
        dense = ", ".join(report.name for report in lowered.reports) or "none"
        raise BadInputError(
            f"the model has no compressed table (embeddings found: {dense}): compress one (`edge-embed "
            "compress`), or train a DPQEmbedding in place of nn.Embedding"
        )


def metadata_of(lowered: LoweredProgram) -> dict[str, str]:
    """Return the metadata of a file: the manifest of a packed file, vocabulary, user metadata, check of ids."""
    program = lowered.program
    properties = {MANIFEST_KEY: write_manifest(lowered.tables)} if lowered.tables else {}
    if program.vocabulary is not None:
        properties[VOCABULARY_KEY] = json.dumps(list(program.vocabulary), ensure_ascii=False)
    if program.metadata:
        properties[METADATA_KEY] = json.dumps(dict(program.metadata), sort_keys=True, ensure_ascii=False)
    if lowered.id_check is not None:
        properties[ID_CHECK_KEY] = lowered.id_check
    return properties


def id_check_of(metadata: Mapping[str, str]) -> IdCheck | None:
    """Return the check of ids that the metadata of a file states, or None.

    Raises:
        BadInputError: the metadata states an unknown one. The message has no path.
    """
    return known_id_check(metadata[ID_CHECK_KEY]) if ID_CHECK_KEY in metadata else None
