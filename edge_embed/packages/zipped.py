"""Zip archives whose bytes depend on their content only."""

import zipfile
from pathlib import Path

_EARLIEST = (1980, 1, 1, 0, 0, 0)


def zip_folder(folder: Path, path: Path) -> None:
    """Write all files of a folder into an archive, in the order of their names and without their times."""
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            entry = zipfile.ZipInfo(file.relative_to(folder).as_posix(), _EARLIEST)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, file.read_bytes())
