"""A file of word vectors: what it would be as a model, which is read whole for that."""

from pathlib import Path

from edge_embed.importers.find import load_foreign
from edge_embed.inspection.report import DenseInfo, FileReport, PortInfo
from edge_embed.program.program import dtype_name

_NOTE = "no compressed table: edge-embed compress makes one, in a model that can be exported"


def inspect_vectors(path: Path, verify: bool) -> FileReport | None:
    """Report a file of vectors, or None if this is none. It has no checksums: there is nothing to verify.

    Raises:
        BadInputError: It is damaged.
    """
    program = load_foreign(path)
    if program is None or program.source is None:
        return None
    ((name, table),) = program.module.named_buffers()
    size = program.source.stat().st_size
    (rows, columns), (ids,) = table.shape, program.inputs
    # As text or compressed, a table takes all of its file, whatever it takes in memory.
    dense = DenseInfo(name.rpartition(".")[0], rows, columns, dtype_name(table.dtype), min(size, table.nbytes))
    return FileReport(
        path=str(path),
        kind="vectors",
        file_bytes=size,
        total_bytes=size,
        verified=verify,
        dense=[dense],
        inputs=[PortInfo(ids.name, dtype_name(ids.dtype), list(ids.shape))],
        outputs=[PortInfo(output, "", None) for output in program.output_names],
        vocabulary_size=None if program.vocabulary is None else len(program.vocabulary),
        notes=[_NOTE],
    )
