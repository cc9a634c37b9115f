"""Downloads a newer bundle, and uses it only if its hashes and golden outputs are right on this machine.

An app ships a bundle in a folder that it cannot change, and has a folder of its own for later ones. There each bundle
is named by the SHA-256 of its manifest, and the file ``current`` names the one in use. That file is replaced in one
step, so an interrupt at any time leaves a bundle that works.

Usage: python samples/python/update.py build/next_word/bundle build/next_word/downloads http://localhost:8000
"""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import click

import edge_embed
from edge_embed.bundle.manifest import MANIFEST, BundleManifest

_CURRENT = "current"
_MOST_MANIFEST = 1 << 20  # bytes
_SECONDS = 30.0  # of each answer

Fetch = Callable[[str, int], bytes]


class UpdateError(Exception):
    """The server has no usable bundle; the one in use stays."""


def bundle_in_use(shipped: Path, downloads: Path) -> Path:
    """Return the folder of the downloaded bundle in use, or of the shipped one.

    Args:
        shipped: bundle of the app.
        downloads: folder of downloaded bundles, which may not exist yet.
    """
    try:
        name = (downloads / _CURRENT).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return shipped
    folder = downloads / name
    return folder if re.fullmatch("[0-9a-f]{64}", name) and (folder / MANIFEST).is_file() else shipped


def update(shipped: Path, downloads: Path, fetch: Fetch) -> bool:
    """Use the bundle of a server, if it differs from the one in use and is right.

    Args:
        shipped: bundle of the app.
        downloads: folder of downloaded bundles.
        fetch: function that returns the content of a file of the server, of at most a number of bytes.

    Returns:
        Whether another bundle is in use now.

    Raises:
        UpdateError: the server cannot be reached, or its bundle is damaged or computes something else here.
    """
    manifest = fetch(MANIFEST, _MOST_MANIFEST)
    name = hashlib.sha256(manifest).hexdigest()
    used = bundle_in_use(shipped, downloads)
    if hashlib.sha256((used / MANIFEST).read_bytes()).hexdigest() == name:
        return False
    downloads.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="part-", dir=downloads) as temporary:
        new = Path(temporary, name)
        new.mkdir()
        (new / MANIFEST).write_bytes(manifest)
        try:
            for file, expected in BundleManifest.read(new).files.items():
                (new / file).write_bytes(fetch(file, expected.bytes))
            edge_embed.open_bundle(new)  # compares hashes, versions and golden outputs
        except edge_embed.EdgeEmbedError as error:
            raise UpdateError(str(error).replace(f"{new}", "new bundle")) from error
        shutil.rmtree(downloads / name, ignore_errors=True)  # of an update that was interrupted
        new.rename(downloads / name)
    part = downloads / f"{_CURRENT}.part"
    part.write_text(name, encoding="ascii")
    os.replace(part, downloads / _CURRENT)
    for old in downloads.iterdir():
        if old.is_dir() and old.name != name:
            shutil.rmtree(old, ignore_errors=True)
    return True


def fetch_from(address: str) -> Fetch:
    """Return a function that fetches files of a server.

    Args:
        address: address of the folder of the bundle, beginning with ``https://`` or ``http://``.

    Raises:
        UpdateError: by the function, if a file cannot be fetched or is too long.
    """
    if not address.startswith(("https://", "http://")):
        raise UpdateError(f"got {address}, expected an address that begins with https:// or http://")

    def fetch(name: str, most: int) -> bytes:
        url = f"{address.rstrip('/')}/{quote(name)}"
        try:
            with urlopen(url, timeout=_SECONDS) as answer:
                content: bytes = answer.read(most + 1)
        except (URLError, OSError) as error:
            raise UpdateError(f"{url}: cannot be fetched: {error}") from error
        if len(content) > most:
            raise UpdateError(f"{url}: got more than {most:,} bytes, expected those of the manifest")
        return content

    return fetch


@click.command()
@click.argument("shipped", type=click.Path(path_type=Path))
@click.argument("downloads", type=click.Path(path_type=Path))
@click.argument("address")
def main(shipped: Path, downloads: Path, address: str) -> None:
    """Replace the bundle SHIPPED by that of a server at ADDRESS; print the folder of the bundle to use."""
    try:
        changed = update(shipped, downloads, fetch_from(address))
        click.echo("updated" if changed else "no newer bundle", err=True)
    except UpdateError as error:
        click.echo(f"kept the bundle in use: {error}", err=True)
    click.echo(bundle_in_use(shipped, downloads))


if __name__ == "__main__":
    main()
