"""Short runs of the fuzz targets of `fuzz_files.py`: they work, and find nothing in a few hundred files."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("fuzz_files.py")
READERS = (
    "packed",
    "onnx",
    "onnx-compress",
    "ort",
    "inputs",
    "tensors",
    "budget",
    "report",
    "tflite",
    "tflite-validate",
    "tflite-compress",
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SCRIPT, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_nothing_is_found(reader, tmp_path):
    done = run(reader, "--seconds", "10", "--seed", "20", "--findings", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no finding" in done.stdout
    count, accepted = int(done.stdout.split()[0]), int(done.stdout.split()[2])
    assert 0 < accepted < count  # some changes do no harm, most do


def test_a_finding_is_kept_and_told(tmp_path):
    """A reader that lets another exception through."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import argparse, driver\n"
        "def read(path):\n"
        "    if path.read_bytes() != b'good': raise KeyError('x')\n"
        "make = lambda random_: random_.choice([b'good', b'bad'])\n"
        "reader = driver.Reader('file.bin', read, (ValueError,), make, b'good')\n"
        "parser = argparse.ArgumentParser(); driver.add_options(parser)\n"
        "sys.exit(driver.run(reader, *parser.parse_known_args(sys.argv[2:])))\n"
    )
    command = [sys.executable, "-c", code, SCRIPT.parent, "--iterations", "100", "--findings", tmp_path]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "KeyError: 'x'" in done.stderr
    (kept,) = tmp_path.iterdir()
    assert kept.read_bytes() == b"bad"
