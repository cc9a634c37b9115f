"""Package onnxruntime-web from npm: one version, pinned with its dependencies (``package-lock.json``), in the cache."""

import json
import shutil
from pathlib import Path

from edge_embed.report.results.targets import Problem
from edge_embed.targets.cache import cached_folder, fetch_once
from edge_embed.targets.process import run_program
from edge_embed.targets.target import NotRunError, RunFailedError

SCRIPTS = Path(__file__).parent
NODE_ENTRY, BROWSER_ENTRY, ENGINE = "ort.node.min.mjs", "ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"
_KEPT = (NODE_ENTRY, BROWSER_ENTRY, ENGINE, "ort-wasm-simd-threaded.mjs")  # the other files (of 135 MB) are for WebGPU
_NPM = "ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error".split()
_NPM += "--fetch-retries=1 --fetch-retry-mintimeout=1000".split()


def runtime_lacks() -> list[Problem]:
    """List the missing programs; the download itself waits until it is needed."""
    return [] if cached_folder(_folder_name()).is_dir() else lacks_program("npm", "npm")


def lacks_program(name: str, debian_package: str) -> list[Problem]:
    """Return a problem if a program is not on the path."""
    return [] if shutil.which(name) else [Problem(f"{name} is not found", f"apt-get install {debian_package}")]


def fetch_runtime(time_limit: float) -> Path:
    """Return the folder ``dist`` of the package, downloaded if it is not in the cache.

    Raises:
        NotRunError: if it can be neither found nor downloaded.
    """
    return fetch_once(_folder_name(), lambda folder: _install(folder, time_limit)) / "node_modules/onnxruntime-web/dist"


def _folder_name() -> str:
    wanted = json.loads((SCRIPTS / "package.json").read_text(encoding="utf-8"))
    return f"onnxruntime-web-{wanted['dependencies']['onnxruntime-web']}"


def _install(folder: Path, time_limit: float) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(SCRIPTS / name, folder / name)
    npm = shutil.which("npm") or "npm"
    try:
        run_program([npm, *_NPM, "--prefix", folder], time_limit, what="npm")
    except RunFailedError as error:
        raise NotRunError(f"{_folder_name()} cannot be downloaded; check the connection: {error}") from error
    for file in (folder / "node_modules/onnxruntime-web/dist").iterdir():
        if file.name not in _KEPT:
            file.unlink()
