"""Inspection of a packed ``.safetensors`` file: the header has all facts; tensors are read only to verify them."""

from pathlib import Path

from edge_embed.inspection.hashing import HashCheck
from edge_embed.inspection.report import FileReport, table_info
from edge_embed.packed.file import read_manifest, tensor_hashes


def inspect_packed(path: Path, verify: bool) -> FileReport:
    """Report the tables of a packed file.

    Raises:
        BadInputError: The header is damaged, or does not account for every byte.
    """
    manifest = read_manifest(path)
    checks = {name: HashCheck(name, entry.sha256) for name, entry in manifest.tables.items()}
    if verify:
        for name, tensor, digest in tensor_hashes(path):
            checks[name].compare(tensor, digest)
    tables = [
        table_info(name, entry.method, "packed", entry.shape, entry.padding_idx, None, checks[name].status)
        for name, entry in manifest.tables.items()
    ]
    return FileReport(
        path=str(path),
        kind="packed",
        file_bytes=manifest.file_bytes,
        total_bytes=manifest.file_bytes,
        verified=verify,
        tables=tables,
        differences=[text for check in checks.values() for text in check.differences],
    )
