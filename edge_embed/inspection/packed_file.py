"""A packed ``.safetensors`` file: everything is in its header; the tensors are read only to verify them."""

from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.inspection.hashing import HashCheck, sha256_of_range
from edge_embed.inspection.report import FileReport, table_info
from edge_embed.packed.container import read_header
from edge_embed.packed.file import read_manifest


def inspect_packed(path: Path, verify: bool) -> FileReport:
    """Report the tables of a packed file.

    Raises:
        BadInputError: The header is damaged, or does not account for every byte.
    """
    manifest = read_manifest(path)
    checks = {name: HashCheck(name, entry.sha256) for name, entry in manifest.tables.items()}
    if verify:
        _verify(path, checks)
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


def _verify(path: Path, checks: dict[str, HashCheck]) -> None:
    try:
        with path.open("rb") as file:
            header = read_header(file, path.stat().st_size)
            for name, check in checks.items():
                for tensor in check.expected:
                    stored = header.tensors[f"{name}/{tensor}"]
                    begin = header.data_start + stored.start
                    check.compare(tensor, sha256_of_range(file, begin, stored.end - stored.start))
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from error
