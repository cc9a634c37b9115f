"""Files for 64-bit ARM Linux: runner and operator library, cross-compiled here, and ONNX Runtime from its wheel."""

import importlib.util
import shutil
import tempfile
import zipfile
from pathlib import Path

import onnxruntime as ort

from edge_embed.report.results.targets import Problem
from edge_embed.targets.build import LIBRARY, RUNNER, build_lacks, build_runner
from edge_embed.targets.cache import cached_folder, fetch_once
from edge_embed.targets.pinned import PIP, Pinned, pip_options
from edge_embed.targets.process import run_tool
from edge_embed.targets.runner import RunnerFiles
from edge_embed.targets.target import NotRunError

C_LIBRARY = Path("/usr/aarch64-linux-gnu/lib")
_COMPILER = "aarch64-linux-gnu-g++"
_SETTINGS = ("-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_CXX_COMPILER={_COMPILER}")
_RUNTIME = "libonnxruntime.so"
_WHEELS = "manylinux_2_28_aarch64"
_PYTHON = "3.11"  # the wheels of all versions hold the same library; the hash of this one is known
_SHA256 = {"1.31.1": "da05378364c44d4407e463982d2bf8d5e4cfea873283757e48beeb41df97b7f3"}


def arm64_lacks() -> list[Problem]:
    """List what this machine lacks to make the files."""
    found = build_lacks()
    if shutil.which(_COMPILER) is None or not (C_LIBRARY / "ld-linux-aarch64.so.1").exists():
        found.append(Problem(f"{_COMPILER} is missing", "apt-get install g++-aarch64-linux-gnu"))
    if importlib.util.find_spec("pip") is None and not (cached_folder(_runtime_name()) / _RUNTIME).is_file():
        found.append(Problem("pip is missing, which downloads ONNX Runtime for arm64", "python -m ensurepip"))
    return found


def arm64_files(time_limit: float) -> RunnerFiles:
    """Return the files; files in the cache need no network connection.

    Args:
        time_limit: seconds for each step.

    Raises:
        NotRunError: if they cannot be built, downloaded or stored.
    """
    built = build_runner("linux-arm64", _SETTINGS, time_limit)
    runtime = fetch_once(_runtime_name(), lambda folder: _download_runtime(folder, time_limit))
    return RunnerFiles(built / RUNNER, runtime / _RUNTIME, [built / LIBRARY])


def _runtime_name() -> str:
    return f"onnxruntime-{ort.__version__}-linux-arm64"


def _download_runtime(folder: Path, time_limit: float) -> None:
    """Extract the shared library from the arm64 wheel of the installed version of ONNX Runtime."""
    if ort.__version__ not in _SHA256:
        raise NotRunError(
            f"onnxruntime {ort.__version__} has no known hash for its wheel for {_WHEELS}: install "
            f"onnxruntime=={max(_SHA256)}"
        )
    wanted = Pinned("onnxruntime", ort.__version__, (_SHA256[ort.__version__],))
    with tempfile.TemporaryDirectory() as temporary, pip_options([wanted]) as chosen:
        where = ["--platform", _WHEELS, "--python-version", _PYTHON, "--dest", temporary]
        try:
            run_tool([*PIP, "download", *chosen, *where], time_limit, what="pip")
        except NotRunError as error:
            raise NotRunError(
                f"{wanted.requirement} for {_WHEELS} cannot be downloaded; check the connection: {error}"
            ) from error
        (wheel,) = Path(temporary).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if Path(name).name.startswith(f"{_RUNTIME}."))
            with archive.open(name) as source, (folder / _RUNTIME).open("wb") as target:
                shutil.copyfileobj(source, target)
