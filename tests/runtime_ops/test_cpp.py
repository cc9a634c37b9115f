"""The C++ tests of ``runtime_ops/tests``, as built for users and under the sanitizers."""

import subprocess
import sys
from pathlib import Path

import pytest


def run_ctest(build: Path) -> str:
    cache = (build / "CMakeCache.txt").read_text()
    ctest = next(
        line.split("=", 1)[1] for line in cache.splitlines() if line.startswith("CMAKE_CTEST_COMMAND:")
    )
    done = subprocess.run(
        [ctest, "--test-dir", build, "--output-on-failure", "--no-tests=error"],
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="guard pages and ELF")
@pytest.mark.parametrize("sanitize", ["OFF", "ON"])
def test_cpp(cmake_build, sanitize):
    output = run_ctest(cmake_build("-DEDGE_EMBED_TESTS=ON", f"-DEDGE_EMBED_SANITIZE={sanitize}"))
    assert "test_dpq_gather" in output
    assert "fuzz_dpq" in output
