"""The npm package edge-embed-web: the kernels as WebAssembly with and without SIMD, and the modules that call them.

The folder is what ``npm install`` takes, and so is the archive, whose bytes depend on its contents only.
"""

import gzip
import io
import json
import re
import shutil
import tarfile
import tempfile
from pathlib import Path

import edge_embed
from edge_embed.errors import EdgeEmbedError
from edge_embed.packages.platforms import Build
from edge_embed.packages.wasm import read_module
from edge_embed.packages.work import Details, Work
from edge_embed.report.results.targets import Evidence
from edge_embed.targets.process import finish_program
from edge_embed.targets.target import NotRunError

NAME = "edge-embed-web"
MOST_BYTES = 80_000  # of each module
_SOURCES = Path(__file__).parent / "npm"
_CHECK = Path(__file__).parent / "npm_check.mjs"
_MODULE = "lib/edge_embed_kernels.wasm"
_FILES = {"web": "kernels-simd.wasm", "web-scalar": "kernels-scalar.wasm"}
_WORDS = {"web": "WebAssembly with SIMD", "web-scalar": "WebAssembly without SIMD"}
_EXPORTS = {"ee_version", "ee_status_message", "ee_scratch_bytes", "ee_gather", "ee_bag", "ee_logits", "ee_topk"}
_EXPORTS |= {"memory", "__heap_base"}
_TIME = 499162500  # of the files in every archive that npm makes


def lay_out_web(work: Work, folder: Path) -> Details:
    """Fill the folder of a package, and inspect its modules."""
    place, details = folder / NAME, Details()
    copy_sources(place)
    for build, tree in work.trees.items():
        path = place / _FILES[build.preset]
        shutil.copyfile(tree / _MODULE, path)
        details[path] = (check_module(path, build), (build,))
    (folder / f"{NAME}-{npm_version(edge_embed.__version__)}.tgz").write_bytes(_archive(place))
    return details


def copy_sources(folder: Path) -> None:
    """Copy all files of the package but the modules, with the version of this Python package."""
    shutil.copytree(_SOURCES, folder)
    path = folder / "package.json"
    content = json.loads(path.read_text(encoding="utf-8")) | {"version": npm_version(edge_embed.__version__)}
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def npm_version(version: str) -> str:
    """Return a version as npm writes it: ``1.2.0rc1`` is ``1.2.0-rc1``."""
    match = re.fullmatch(r"(\d+\.\d+\.\d+)\.?(.*)", version)
    return version if match is None or not match[2] else f"{match[1]}-{match[2]}"


def check_module(path: Path, build: Build) -> str:
    """Return a line about a module that meets all requirements.

    Raises:
        EdgeEmbedError: if it does not meet one.
    """
    data = path.read_bytes()
    module = read_module(data)
    faults = []
    if module.imports:
        faults.append(f"imports {module.imports} names, expected none")
    if module.exports != _EXPORTS:
        faults.append(f"exports {', '.join(sorted(module.exports))}, expected {', '.join(sorted(_EXPORTS))}")
    if len(data) > MOST_BYTES:
        faults.append(f"got {len(data)} bytes, expected at most {MOST_BYTES}")
    if faults:
        raise EdgeEmbedError(f"{path.name}: {'; '.join(faults)}: report this as a bug, with the name of the compiler")
    return _WORDS[build.preset]


def run_module(build: Build, tree: Path, time_limit: float) -> tuple[Evidence, str]:
    """Call every use of a small table under Node.js, with ids that are no rows.

    Returns:
        The kind of evidence, and what ran.

    Raises:
        NotRunError: if Node.js is missing.
        EdgeEmbedError: if it gives a wrong result.
    """
    node = shutil.which("node")
    if node is None:
        raise NotRunError("Node.js is missing: apt-get install nodejs")
    with tempfile.TemporaryDirectory() as temporary:
        copy_sources(Path(temporary, NAME))
        command = [node, str(_CHECK), str(Path(temporary, NAME, "index.js")), str(tree / _MODULE)]
        done = finish_program(command, time_limit, what="node")
    expected = edge_embed.__version__
    if done.status != 0 or done.printed.strip() != expected:
        ending = done.ending if done.status != 0 else f"got {done.printed.strip()!r:.200}, expected {expected!r}"
        raise EdgeEmbedError(f"{build.preset}: the packaged module failed: {ending}")
    return "executed-native", _WORDS[build.preset]


def _archive(folder: Path) -> bytes:
    """Return the archive of a folder as ``npm pack`` names its files, without times and owners."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(folder.iterdir()):
            entry = tarfile.TarInfo(f"package/{path.name}")
            data = path.read_bytes()
            entry.size, entry.mode, entry.mtime = len(data), 0o644, _TIME
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(content.getvalue(), mtime=0)
