"""The C++ tests of ``runtime_ops/tests``, compiled as users get the library and with sanitizers."""

import subprocess
import sys
from pathlib import Path

import pytest
from cmake_builds import AS_INSTALLED


def run_ctest(build: Path) -> str:
    cache = (build / "CMakeCache.txt").read_text()
    ctest = next(line.split("=", 1)[1] for line in cache.splitlines() if line.startswith("CMAKE_CTEST_COMMAND:"))
    done = subprocess.run(
        [ctest, "--test-dir", build, "--output-on-failure", "--no-tests=error"],
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow  # compilation takes long; developers run `make test-cpp`
@pytest.mark.skipif(sys.platform != "linux", reason="guard pages and ELF")
def test_cpp_tests_pass_as_installed(cmake_build):
    output = run_ctest(cmake_build(*AS_INSTALLED))
    for name in [
        "test_dpq_gather",
        "test_ant_gather",
        "test_tt",
        "fuzz_dpq",
        "fuzz_ant",
        "fuzz_tt",
        "fuzz_entmax",
        "fuzz_attention",
        "fuzz_tflite",
        "test_training",
        "test_training_portable",
        "register_of_edge_embed_ops",
        "symbols_of_edge_embed_ops_freestanding",
        "symbols_of_edge_embed_tflite",
        "symbols_of_edge_embed_training",
        "isa_objects",
    ]:
        assert name in output


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="guard pages and ELF")
def test_cpp_tests_pass_with_sanitizers(cmake_build):
    """AddressSanitizer and UndefinedBehaviorSanitizer find only the planted faults."""
    output = run_ctest(cmake_build("-DEDGE_EMBED_TESTS=ON", "-DEDGE_EMBED_SANITIZE=ON"))
    for name in [
        "test_dpq_gather",
        "test_ant_gather",
        "test_tt",
        "test_training",
        "test_training_portable",
        "fuzz_dpq_portable",
        "fuzz_ant_reference",
        "fuzz_tt",
        "fuzz_entmax",
        "fuzz_attention_portable",
        "fuzz_tflite",
        "register_of_edge_embed_ops",
        "planted_after_portable",
        "planted_before_reference",
        "planted_overflow",
    ]:
        assert name in output


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="guard pages and ELF")
@pytest.mark.parametrize("processor", ["cortex-a53", "max"])
def test_cpp_tests_pass_for_arm64(arm64_build, monkeypatch, processor):
    """The tests run as emulated arm64 code: on the 64-bit baseline and on the emulator's newest processor."""
    monkeypatch.setenv("QEMU_CPU", processor)
    assert "fuzz_tt_portable" in run_ctest(arm64_build)
