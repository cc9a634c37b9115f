"""Seconds from an empty environment to the first vector, by the commands of a page alone.

The environment is a new folder of the user, with a new virtual environment. A wheel of this checkout stands for the
release, and ``.ci/constraints.txt`` chooses the versions. For C++, the folder ``onnxruntime`` is there: it has the
headers that this checkout was built with, and the library of the wheel of ONNX Runtime.

Usage: python -m tests.docs.first_vector web
"""

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from ..onnxruntime_archive import lay_out_archive
from .pages import DOCS, ROOT, Page

FILES = {"cpp": "main.cc", "html page": "page/index.html", "js": "main.mjs"}  # names that the pages give
COMMANDS = {"web": "sh npm", "cpp": "sh cpp"}
PRINTED = "36 scores"
SECONDS = 300


def main() -> None:
    """Print the seconds of the commands of one page; fail if they take more than five minutes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", choices=COMMANDS)
    name: str = parser.parse_args().page
    page = Page(DOCS / "deployment" / f"{name}.md")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "work")
        folder.mkdir()
        environment = _empty_environment(Path(temporary))
        if name == "cpp":
            lay_out_archive(folder / "onnxruntime")
        begin = time.monotonic()
        _shell(page.only("sh install"), folder, environment)
        _tutorial(page, folder, environment)
        printed = _page(page, COMMANDS[name], folder, environment)
        if name == "web":
            printed = shown_page(folder, environment)
        seconds = time.monotonic() - begin
    if PRINTED not in printed:
        sys.exit(f"got {printed!r}, expected {PRINTED}")
    print(f"{name}: {seconds:.0f} s to the first vector")
    if seconds > SECONDS:
        sys.exit(f"expected at most {SECONDS} s")


def _empty_environment(place: Path) -> dict[str, str]:
    wheels, venv = place / "wheels", place / "venv"
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", wheels, ROOT], check=True)
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    kept = {key: os.environ[key] for key in ("LANG", "PIP_INDEX_URL", "PIP_CONFIG_FILE") if key in os.environ}
    return {
        **kept,
        "HOME": str(place),
        "PATH": f"{venv / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_CONSTRAINT": str(ROOT / ".ci" / "constraints.txt"),
    }


def _shell(text: str, folder: Path, environment: dict[str, str]) -> str:
    command = ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout, end="", file=sys.stderr)
    return done.stdout


def _tutorial(page: Page, folder: Path, environment: dict[str, str]) -> None:
    assert page.after
    for block in page.after.blocks:
        if block.language == "python":
            subprocess.run(["python", "-c", block.text], cwd=folder, env=environment, check=True)
        elif block.is_script:
            _shell(block.text, folder, environment)


def _page(page: Page, language: str, folder: Path, environment: dict[str, str]) -> str:
    """Save the programs of a page where it says, then run its commands."""
    commands = [block for block in page.blocks if block.language == language]
    (folder / "page").mkdir()
    for block in page.blocks:
        if block.language in FILES:
            (folder / FILES[block.language]).write_text(block.text, encoding="utf-8")
    return "".join(_shell(block.text, folder, environment) for block in commands)


def shown_page(folder: Path, environment: Mapping[str, str]) -> str:
    """Return what the page shows in headless Chromium, as HTML."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    options = ["--headless=new", "--no-sandbox", "--virtual-time-budget=60000", "--dump-dom"]
    browse = [shutil.which("chromium") or "chromium", *options, f"http://localhost:{port}"]
    serve = ["python", "-m", "http.server", port, "--directory", "page"]
    server = subprocess.Popen(serve, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(1)
        done = subprocess.run(browse, env=environment, capture_output=True, text=True, check=True)
        return done.stdout
    finally:
        server.terminate()
        server.communicate()


if __name__ == "__main__":
    main()
