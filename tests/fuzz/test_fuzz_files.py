"""Short runs of the fuzz targets of `fuzz_files.py`: they work, find nothing, and pass the first checks."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("fuzz_files.py")
LINE = re.compile(r"^(\S+): (\d+) files, (\d+) accepted, (\d+)% pass the container's checks, no finding", re.M)


@pytest.mark.slow
def test_readers_of_all_files_have_no_findings(tmp_path):
    count = 100
    command = [sys.executable, SCRIPT, "all", "--count", str(count), "--seed", "20", "--findings", tmp_path]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = LINE.findall(done.stdout)
    assert len(lines) == 31
    for name, files, accepted, passing in lines:
        assert int(files) == count, name
        assert 0 < int(accepted) < count, name  # some mutants are harmless
        assert int(passing) >= 50, name


def test_driver_fails_if_mutants_rarely_pass_container(tmp_path):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import argparse, driver\n"
        "make = lambda random_: random_.choice([b'good', b'bad', b'bad'])\n"
        "read, passes = (lambda path: None), (lambda data: data == b'good')\n"
        "reader = driver.Reader('file.bin', read, (ValueError,), make, b'good', passes=passes)\n"
        "parser = argparse.ArgumentParser(); driver.add_options(parser)\n"
        "sys.exit(driver.run(reader, *parser.parse_known_args(sys.argv[2:])))\n"
    )
    command = [sys.executable, "-c", code, SCRIPT.parent, "--count", "300", "--findings", tmp_path]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "expected at least 50% that pass" in done.stdout


def test_driver_keeps_and_reports_finding(tmp_path):
    """The finding is a reader that raises an undocumented exception."""
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
