"""Session memory that makes a session faster, by the sizes of a table and its use."""

from typing import get_args

import pytest

from edge_embed.exporters.onnx.session_memory.method import least_session_bytes, memory_uses, session_bytes
from edge_embed.packed import ANTShape, DPQShape, TTShape
from edge_embed.packed.packed_form import Use

# Uses that take memory, the least number of bytes, and the number of bytes without a limit.
SHAPES = [
    ("dpq", DPQShape(300, 24, 16, 12), ("logits", "topk"), 19 * 16 * 8, 19 * 16 * 8),
    ("dpq", DPQShape(300, 24, 256, 12), (), 0, 0),
    ("tt", TTShape(300, (6, 7, 8), (2, 3, 4), (1, 4, 4, 1)), ("rows", "bag"), 4 * 56 * 4 * 12, 0),
    ("tt", TTShape(300, (15, 20), (4, 6), (1, 4, 1)), (), 0, 0),
    ("ant", ANTShape(300, 24, 10, 600), (), 0, 0),
]


@pytest.mark.parametrize(("method", "shape", "takers", "least", "usual"), SHAPES, ids=str)
def test_session_bytes_of_use_start_at_its_least(method, shape, takers, least, usual):
    for use in get_args(Use):
        needed = least if use in takers else 0
        assert least_session_bytes(method, shape, use) == needed, use
        assert session_bytes(method, shape, use, needed) == needed, use
        assert session_bytes(method, shape, use, max(needed - 1, 0)) == 0, use
        assert session_bytes(method, shape, use, None) == (usual if use in takers else 0), use
        assert use in memory_uses(method) or not needed, use


def test_session_bytes_of_many_cores_grow_with_limit():
    shape = TTShape(600, (5, 5, 5, 5), (2, 2, 2, 2), (1, 8, 8, 8, 1))
    least = least_session_bytes("tt", shape, "rows")
    assert least == 4 * 25 * 8 * 4
    assert session_bytes("tt", shape, "rows", 1 << 30) == 4 * 125 * 8 * 8 > least
