"""Forked workers read the files that the test names."""

import sys
from pathlib import Path

import pytest

from .forked_worker import ForkedWorkers

WORKER = """
from pathlib import Path

def find_runtime():
    pass

def main(model, folder, iterations, threads):
    (folder / "read").write_text(Path(model).read_text())
"""


@pytest.fixture
def worker(tmp_path: Path) -> str:
    (tmp_path / "worker.py").write_text(WORKER)
    return str(tmp_path / "worker.py")


def test_relative_path_is_in_folder_of_each_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worker: str) -> None:
    with ForkedWorkers([sys.executable], {}, worker) as workers:
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "model").write_text(name)
            monkeypatch.chdir(tmp_path / name)
            assert workers.is_done(["model", str(tmp_path), "0", "1"])
            assert (tmp_path / "read").read_text() == name


def test_failed_worker_is_not_done(tmp_path: Path, worker: str) -> None:
    with ForkedWorkers([sys.executable], {}, worker) as workers:
        assert not workers.is_done([str(tmp_path / "missing"), str(tmp_path), "0", "1"])
