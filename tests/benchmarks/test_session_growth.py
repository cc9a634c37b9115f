"""Memory that sessions of mapped tables add to a process, as multiples of the packed bytes."""

import pytest

from edge_embed.validation import resident_worker

pytestmark = pytest.mark.skipif(not resident_worker.STATUS.exists(), reason="memory is read from /proc")

MOST_PRIVATE, MOST_RESIDENT, MOST_OF_BODY = 0.05, 1.15, 1.5  # times the packed bytes
OUTPUT = 1 << 20  # bytes of 256 rows


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dpq, 4 bits", "rows, 4 bits"])
def test_session_of_mapped_table_keeps_one_copy_for_lookup_and_output_layer(session_growth, method, tmp_path):
    table, path, use = session_growth.make_table(method, 32 << 20), tmp_path / "model.onnx", "rows and logits"
    session_growth.export(table, use, path)
    library, body = (session_growth.measure(path, use, table.num_embeddings, side) for side in ("library", "body"))
    assert library.opened_resident < MOST_PRIVATE * table.nbytes
    assert library.private <= MOST_PRIVATE * table.nbytes
    assert 0.9 * table.nbytes < library.resident <= MOST_RESIDENT * table.nbytes
    assert body.resident <= MOST_OF_BODY * table.nbytes


@pytest.mark.slow
def test_lookup_of_256_rows_of_256_megabytes_maps_few_pages(session_growth, tmp_path):
    """Linux maps 16 pages around each row, both in a file that was just written and in one that is read from a disk."""
    table, path = session_growth.make_table("dpq, 4 bits", 256 << 20), tmp_path / "model.onnx"
    session_growth.export(table, "rows", path)
    for cold in (False, True):
        library = session_growth.measure(path, "rows", table.num_embeddings, "library", cold)
        assert library.private <= OUTPUT + (1 << 20)
        assert library.resident - library.private <= 256 * (64 << 10)
