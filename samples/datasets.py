"""Unpacking of the archives that the samples read, and numbering of words."""

import lzma
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

PADDING, UNKNOWN = 0, 1


@contextmanager
def unpacked(data: Path, name: str) -> Iterator[Path]:
    """Yield the folder with the files of one data set, a temporary folder.

    Args:
        data: folder with the archives; nothing is written there.
        name: name of the set: the archive is ``<name>.tar.xz`` and holds a folder of that name.

    Raises:
        click.ClickException: if there is no such archive, or it cannot be unpacked.
    """
    archive = data / f"{name}.tar.xz"
    if not archive.is_file():
        raise click.ClickException(_missing(data, name))
    with tempfile.TemporaryDirectory() as folder:
        try:
            with tarfile.open(archive) as files:
                files.extractall(folder, filter="data")  # refuses links and paths outside the folder
        except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
            raise click.ClickException(f"{archive} cannot be unpacked: {error}") from error
        if not (Path(folder) / name).is_dir():
            raise click.ClickException(f"{archive} contains no folder {name}")
        try:
            yield Path(folder) / name
        except FileNotFoundError as error:
            if not str(error.filename).startswith(folder):
                raise
            raise click.ClickException(f"{archive} contains no {Path(error.filename).relative_to(folder)}") from error


@contextmanager
def folder_of(data: Path, name: str, *public: str) -> Iterator[Path]:
    """Yield the unpacked archive of the sample's set, or without it ``data``, if it holds a set in its public layout.

    Args:
        data: folder of ``--data``.
        name: name of the archive, as for `unpacked`.
        public: patterns of files or folders of public layouts, as in `Path.glob`; one match is enough.

    Raises:
        click.ClickException: there is neither, a file of the layout is missing, or as `unpacked`.
    """
    has_archive = (data / f"{name}.tar.xz").is_file()
    if not has_archive and not any(next(data.glob(pattern), None) for pattern in public):
        raise click.ClickException(f"{_missing(data, name)}, or a set with {' or '.join(public)}")
    if has_archive:
        with unpacked(data, name) as folder:
            yield folder
        return
    try:
        yield data
    except FileNotFoundError as error:
        raise click.ClickException(f"{error.filename} is missing: it belongs to the other files of {data}") from error


def _missing(data: Path, name: str) -> str:
    archive = f"{name}.tar.xz"
    return f"{data / archive} is missing: --data expects the folder that contains {archive}"


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8, without a byte order mark, and with the line ends of the file.

    Raises:
        click.ClickException: it is in another encoding.
        FileNotFoundError: there is no such file.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{path}: got {error}, expected a text in UTF-8") from error


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file, which a line feed ends, with a carriage return before it or without."""
    return [line.removesuffix("\r") for line in read_text(path).removesuffix("\n").split("\n")]


def number_words(words: Iterable[str], least: int) -> dict[str, int]:
    """Return ids of all words that occur ``least`` times or more: padding, unknown, then by descending frequency.

    Tables in the tensor-train form need this order: neighbouring rows share parts.
    """
    counts = Counter(words)
    kept = sorted((word for word in counts if counts[word] >= least), key=lambda word: (-counts[word], word))
    return {word: at for at, word in enumerate(["<pad>", "<unk>", *kept])}
