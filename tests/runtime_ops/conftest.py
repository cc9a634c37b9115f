"""CMake builds of ``runtime_ops``, and the tables for tests of its operators."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cmake_builds import CmakeBuilds
from ort_nodes import TABLES, DpqTable, Table
from tflite_runtimes import TfliteRuntime, start

from edge_embed.targets.tflite.runtimes import TARGETS


@pytest.fixture
def make_table() -> Callable[..., DpqTable]:
    return DpqTable


@pytest.fixture(params=TABLES)
def make_any(request: pytest.FixtureRequest) -> Callable[..., Table]:
    """Return the table class of each method in turn."""
    return TABLES[request.param]


@pytest.fixture(scope="module", params=TARGETS, ids=lambda target: target.name)
def tflite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TfliteRuntime]:
    """Start each installed runtime of TFLite in turn."""
    runtime = start(request.param, tmp_path_factory.mktemp("tflite"))
    yield runtime
    runtime.close()


@pytest.fixture(scope="session")
def cmake() -> str:
    """Return the path of the program."""
    beside = Path(sys.executable).parent / "cmake"
    found = str(beside) if beside.exists() else shutil.which("cmake")
    if found is None:
        pytest.skip("no cmake: install the package with its [dev] extra")
    return found


@pytest.fixture(scope="session")
def cmake_build(cmake: str) -> Callable[..., Path]:
    """Return a function that builds ``runtime_ops`` with given options and returns the build folder (`CmakeBuilds`)."""
    return CmakeBuilds(cmake).build


@pytest.fixture(scope="session")
def arm64_build(cmake_build: Callable[..., Path]) -> Path:
    """Return the build folder of the C++ tests as arm64 code, which ctest runs under an emulator.

    The variable QEMU_CPU selects the processor.
    """
    compiler, emulator = "aarch64-linux-gnu-g++", "qemu-aarch64"
    for tool, package in ((compiler, "g++-aarch64-linux-gnu"), (emulator, "qemu-user")):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is missing (Debian: apt-get install {package})")
    return cmake_build(
        "-DEDGE_EMBED_TESTS=ON",
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
        f"-DCMAKE_CXX_COMPILER={compiler}",
        f"-DCMAKE_CROSSCOMPILING_EMULATOR={emulator};-L;/usr/aarch64-linux-gnu",
        targets=("all", "count_kernels"),
    )
