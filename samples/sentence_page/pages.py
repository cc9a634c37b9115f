"""Writes the folder of the page: tokenizer, packed table, kernels, and the modules that use them."""

import shutil
import tempfile
from pathlib import Path

import click
from tokenizers import Tokenizer

from edge_embed.packages.web import NAME
from edge_embed.packed import PackedTable, save_tables
from edge_embed.targets.process import run_program

SOURCES = Path(__file__).parent / "page"
MOST_BYTES = 3_000_000
_LIBRARY = "node_modules/@huggingface/tokenizers"
_UNUSED = ("index.d.ts", "README.md")
_NPM = "ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error".split()


def write_page(folder: Path, tokenizer: Tokenizer, table: PackedTable, package: Path) -> None:
    """Write all files of a page.

    Args:
        folder: empty folder.
        tokenizer: tokenizer whose ids are rows of the table.
        table: packed table.
        package: folder of ``edge-embed package --platform web``.

    Raises:
        click.ClickException: if the package is not in its folder.
        NotRunError: if the tokenizer for JavaScript cannot be downloaded.
    """
    modules = package / NAME
    if not (modules / "index.js").is_file():
        expected = f"expected the folder of edge-embed package --platform web, with {NAME}/index.js"
        raise click.ClickException(f"--package: got {package}, {expected}")
    shutil.copytree(modules, folder / NAME, ignore=shutil.ignore_patterns(*_UNUSED))
    for name in ("index.html", "app.js", "encoder.js"):
        shutil.copyfile(SOURCES / name, folder / name)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    save_tables(folder / "tables.safetensors", {"tokens": table})
    _copy_library(folder)


def page_bytes(folder: Path) -> dict[str, int]:
    """Return the bytes of each part of the page, of everything that its server would hold."""
    sizes: dict[str, int] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        part = path.relative_to(folder).parts[0]
        sizes[part] = sizes.get(part, 0) + path.stat().st_size
    return sizes


def _copy_library(folder: Path) -> None:
    """Copy the tokenizer for JavaScript and its licence, of the version in package-lock.json."""
    with tempfile.TemporaryDirectory() as temporary:
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(SOURCES / name, Path(temporary, name))
        run_program([shutil.which("npm") or "npm", *_NPM, "--prefix", Path(temporary)], 120, what="npm")
        library = Path(temporary, _LIBRARY)
        shutil.copyfile(library / "dist" / "tokenizers.min.mjs", folder / "tokenizers.mjs")
        shutil.copyfile(library / "LICENSE", folder / "tokenizers.LICENSE")
