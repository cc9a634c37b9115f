"""The sizes are those of the files and of a real process."""

import zlib

import pytest

from edge_embed.validation import resident
from edge_embed.validation.size import deflated_bytes

from .conftest import DIM, FROZEN_ROWS, ROWS


def test_sizes_of_a_sound_file(exported):
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


@pytest.mark.skipif(not resident.STATUS.exists(), reason="resident memory is read from /proc")
def test_resident_memory_is_that_of_a_session(inline):
    sizes = inline.validate().sizes
    assert sizes.resident_reason == ""
    assert 100_000 < sizes.resident < 100_000_000  # a session of onnxruntime takes some megabytes
    assert resident.resident_bytes() > 10_000_000


def test_deflate_streams_any_size(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"")
    assert deflated_bytes(path) == len(zlib.compress(b""))
    path.write_bytes(bytes(3 << 20))
    assert deflated_bytes(path) == len(zlib.compress(bytes(3 << 20)))
