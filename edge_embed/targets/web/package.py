"""Package onnxruntime-web from npm: one version, pinned with its dependencies (``package-lock.json``), in the cache."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from edge_embed.report.results.targets import Problem
from edge_embed.targets.cache import cached_folder, fetch_once
from edge_embed.targets.process import run_program
from edge_embed.targets.target import NotRunError, RunFailedError

SCRIPTS = Path(__file__).parent
NODE_ENTRY = "ort.node.min.mjs"


@dataclass(frozen=True)
class Build:
    """One build of the runtime: what is kept in the cache of 135 MB of files.

    Attributes:
        browser_entry: module that a page imports.
        engine: WebAssembly file that the module loads.
        others: other files that are kept.
        suffix: end of the name of the folder in the cache.
    """

    browser_entry: str
    engine: str
    others: tuple[str, ...] = ()
    suffix: str = ""


WASM = Build("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm", (NODE_ENTRY, "ort-wasm-simd-threaded.mjs"))
WEBGPU = Build("ort.webgpu.bundle.min.mjs", "ort-wasm-simd-threaded.asyncify.wasm", suffix="-webgpu")

_NPM = "ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error".split()
_NPM += "--fetch-retries=1 --fetch-retry-mintimeout=1000".split()


def runtime_lacks(build: Build = WASM) -> list[Problem]:
    """List the missing programs; the download itself waits until it is needed."""
    return [] if cached_folder(_folder_name(build)).is_dir() else lacks_program("npm", "npm")


def lacks_program(name: str, debian_package: str) -> list[Problem]:
    """Return a problem if a program is not on the path."""
    return [] if shutil.which(name) else [Problem(f"{name} is not found", f"apt-get install {debian_package}")]


def fetch_runtime(time_limit: float, build: Build = WASM) -> Path:
    """Return the folder ``dist`` of the package, downloaded if it is not in the cache.

    Raises:
        NotRunError: if it can be neither found nor downloaded.
    """
    folder = fetch_once(_folder_name(build), lambda folder: _install(folder, time_limit, build))
    return folder / "node_modules/onnxruntime-web/dist"


def _folder_name(build: Build) -> str:
    wanted = json.loads((SCRIPTS / "package.json").read_text(encoding="utf-8"))
    return f"onnxruntime-web-{wanted['dependencies']['onnxruntime-web']}{build.suffix}"


def _install(folder: Path, time_limit: float, build: Build) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(SCRIPTS / name, folder / name)
    npm = shutil.which("npm") or "npm"
    try:
        run_program([npm, *_NPM, "--prefix", folder], time_limit, what="npm")
    except RunFailedError as error:
        raise NotRunError(f"{_folder_name(WASM)} cannot be downloaded; check the connection: {error}") from error
    for file in (folder / "node_modules/onnxruntime-web/dist").iterdir():
        if file.name not in (build.browser_entry, build.engine, *build.others):
            file.unlink()
