"""Nodes of DPQ tables with row scales, without a body, so that a session requires the kernel."""

import numpy as np
import pytest
from ort_nodes import open_session

from edge_embed.exporters.onnx.nodes.dpq import SCALED_DPQ
from edge_embed.packed.dpq import PackedDPQ

from ..exporters.onnx.bodies import dpq, scaled
from .ort_packed import Packed, assert_row_is_refused, assert_uses_match


def integers(bits: int, columns: int = 20) -> PackedDPQ:
    """Return rows of integers, as ``compress --method rows`` makes them."""
    half = 1 << bits - 1
    values = np.arange(-half, half, dtype=np.float32).reshape(1, -1, 1)
    codes = np.random.default_rng(bits).integers(0, 2 * half, (50, columns))
    return scaled(PackedDPQ.from_codes(codes, values, padding_idx=3), unused=0)


CASES = {
    **{f"{bits} bits": integers(bits) for bits in (2, 3, 4, 8)},
    "groups": scaled(dpq(n=50, padding_idx=3), unused=2),
    "float16": scaled(dpq(n=50, dtype="float16"), unused=1),
    "float16 without scales": scaled(dpq(n=50, dtype="float16"), unused=1, count=0),
    "int8": scaled(dpq(n=50, dtype="int8"), unused=1),
    "int8 without scales": scaled(dpq(n=50, dtype="int8"), unused=1, count=0),
    "256 scales": scaled(dpq(n=50), unused=0, count=256),
}
OFFSETS = np.array([0, 3, 3, 40, 49, 50])


@pytest.mark.parametrize("case", CASES)
def test_scaled_uses_match_packed_form(case):
    assert_uses_match(Packed(SCALED_DPQ.prefix, CASES[case]), OFFSETS)


@pytest.mark.parametrize("case", ["4 bits", "2 bits", "groups"])
def test_scaled_row_with_damaged_scale_code_is_refused(case):
    packed = CASES[case]
    codes = packed.row_scale_codes.copy()
    codes[17] = len(packed.row_scales)
    table = Packed(SCALED_DPQ.prefix, packed, row_scale_codes=codes)
    assert_row_is_refused(table, 17, "the row_scale_code of a row is not below num_row_scales")


@pytest.mark.parametrize(
    ("changed", "attributes", "message"),
    [
        ({"row_scale_codes": np.zeros(49, np.uint8)}, {}, r"got row_scale_codes of shape \[49\].*expected \[50\]"),
        ({"row_scale_codes": np.zeros((50, 1), np.uint8)}, {}, r"got row_scale_codes of shape \[50, 1\]"),
        ({"row_scales": np.zeros(257, np.float32)}, {}, r"row_scales of shape \[257\], .* and \[1 to 256\]"),
        ({"row_scales": np.zeros(0, np.float32)}, {}, r"row_scales of shape \[0\]"),
        ({"row_scales": np.zeros(3, np.float16)}, {}, "got row_scales of type float16, expected float32"),
        ({"row_scale_codes": np.zeros(50, np.int32)}, {}, "got row_scale_codes of type int32, expected uint8"),
        ({}, {"unused_columns": -1}, "got unused_columns=-1, expected 0 to 3"),
        ({}, {"unused_columns": 4}, "got unused_columns=4, expected 0 to 3"),
        ({}, {"unused_columns": None}, "got no integer attribute unused_columns"),
        ({"codes": np.zeros((50, 9), np.uint8)}, {}, "got codes of shape"),
    ],
)
def test_scaled_table_that_disagrees_is_refused_at_load(changed, attributes, message):
    table = Packed(SCALED_DPQ.prefix, scaled(dpq(n=50, width=4)), **changed)
    with pytest.raises(Exception, match=f"DPQScaledEmbedding: .*{message}"):
        open_session(table.model(**attributes))
