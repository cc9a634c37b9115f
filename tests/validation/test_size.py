"""Reported sizes are those of the files and of a real process."""

import io
import zlib
from dataclasses import asdict
from itertools import product

import pytest
import torch
from rich.console import Console

from edge_embed.exporters.onnx.export import export_onnx
from edge_embed.layers.tt import TTEmbedding
from edge_embed.lowering.graph import lower_program
from edge_embed.report.views.markdown.validation import validation_markdown
from edge_embed.validation import resident_worker
from edge_embed.validation.sizes import deflated_bytes

from .conftest import DIM, FROZEN_ROWS, ROWS, Exported, make_program


@pytest.fixture(autouse=True)
def _memory_of_a_session():
    """Keep the real measurement, which the fixture of conftest.py replaces."""


def test_sizes_match_files_and_loaded_sessions(exported):
    report = exported.validate()
    sizes, files = report.sizes, sorted(exported.path.parent.iterdir())
    assert sizes.files == {file.name: file.stat().st_size for file in files}
    assert sizes.on_disk == sum(file.stat().st_size for file in files)
    assert sizes.packed_bytes == sum(table.packed_bytes for table in report.tables)
    dense = 4 * DIM * (ROWS + FROZEN_ROWS)
    assert sizes.dense_equivalent == sizes.on_disk - sizes.packed_bytes + dense
    assert 0 < sizes.zipped < sizes.on_disk
    assert sizes.zipped == sum(len(zlib.compress(file.read_bytes())) for file in files)
    assert len(sizes.loaded) == 2 * len({loaded.level for loaded in sizes.loaded})


@pytest.mark.parametrize(("megabytes", "faster"), [(1, True), (0, False), (None, False)])
def test_session_memory_is_reported_separately(megabytes, faster, tmp_path):
    program = make_program(TTEmbedding(300, 24, rank=4), (torch.tensor([[1, 2]]),), tmp_path)
    lowered, path = lower_program(program), tmp_path / "model.onnx"
    file = export_onnx(lowered, path, memory_megabytes=megabytes)
    report = Exported(program, lowered, path).validate()
    assert report.passed
    assert [report.sizes.session_bytes] == [table.session_bytes for table in file.tables]
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(report.render())
    rows = [line for line in console.export_text().splitlines() if "session memory" in line]
    assert [f" {report.sizes.session_bytes:,} " in row for row in rows] == [True] * faster


@pytest.mark.skipif(not resident_worker.STATUS.exists(), reason="resident memory is read from /proc")
def test_resident_memory_is_that_of_a_session(inline):
    sizes = inline.validate().sizes
    assert sizes.resident_reason == ""
    assert 100_000 < sizes.resident < 100_000_000  # a session of onnxruntime takes some megabytes
    assert resident_worker.resident_bytes() > 10_000_000


@pytest.mark.skipif(not resident_worker.STATUS.exists(), reason="memory is read from /proc")
def test_memory_of_sessions_is_reported_for_library_and_body(inline):
    report = inline.validate()
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(report.render())
    views = console.export_text(), validation_markdown(report)
    assert [(growth.path, growth.reason) for growth in report.sizes.memory] == [
        ("custom op", ""),
        ("portable body", ""),
    ]
    assert report.sizes.memory[0].resident == report.sizes.resident
    assert list(report.to_json()["sizes"]["memory"]) == [asdict(growth) for growth in report.sizes.memory]
    for growth in report.sizes.memory:
        assert 0 < growth.opened_private <= growth.opened_resident
        assert growth.private < growth.resident  # code of the runtime is in files
        assert growth.opened_resident <= growth.resident
        for view, number in product(views, growth.figures()):
            assert number in view


def test_deflated_bytes_streams_files_of_any_size(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"")
    assert deflated_bytes(path) == len(zlib.compress(b""))
    path.write_bytes(bytes(3 << 20))
    assert deflated_bytes(path) == len(zlib.compress(bytes(3 << 20)))
