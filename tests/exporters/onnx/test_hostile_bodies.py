"""Portable bodies refuse ids out of range and read only inside a damaged table."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edge_embed.targets.reference import open_reference

from .bodies import TABLES, ant, bag_feeds, bag_model, dpq, ids_of, model_of, node_of, results, rows_model, session


@pytest.mark.parametrize("use", ["rows", "bag"])
@pytest.mark.parametrize("method", TABLES)
@pytest.mark.parametrize("count", [4, 600])
def test_ids_out_of_range_raise(method, use, count):
    """Ids 20 to 23, for which the tensor-train has slices, raise too."""
    packed = TABLES[method](n=20)
    ids = np.full(count, 3)
    feeds = {"ids": ids} if use == "rows" else bag_feeds(packed, ids, [0, 2, count])
    model = rows_model(packed, ids) if use == "rows" else bag_model(packed, feeds, "sum")
    for runner in (session(model), session(model, "DISABLE_ALL"), open_reference(model)):
        for bad in (-1, 20, 23, 24, 25, -20, -(2**63), 2**63 - 1):
            ids[2] = bad
            with pytest.raises(Exception, match=r"(?i)ind(ex|ices).*bound"):
                runner.run(None, feeds)


@pytest.mark.parametrize("bad", [-1, 20, -(2**31), 2**31 - 1])
@pytest.mark.parametrize("method", TABLES)
def test_narrow_ids_out_of_range_raise(method, bad):
    packed = TABLES[method](n=20)
    ids = np.array([3, bad, 4], np.int32)
    with pytest.raises(Exception, match=r"(?i)ind(ex|ices).*bound"):
        session(rows_model(packed, ids)).run(None, {"ids": ids})


def damaged(packed: Any, ids: Any, **arrays: Any) -> onnx.ModelProto:
    model = rows_model(packed, ids)
    for tensor in model.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))
    return model


@pytest.mark.parametrize("count", [20, 600])
@pytest.mark.parametrize("codes", [3, 5, 11, 200, 300])
def test_codes_out_of_range_read_last_code_of_group(codes, count):
    packed = dpq(codes=codes, groups=8)
    ids = ids_of(packed, (count,))
    model = damaged(packed, ids, codes=np.full_like(packed.codes, 255))
    expected = np.tile(packed.values[:, -1].reshape(-1), (count, 1))
    for way, got in results(model, {"ids": ids}).items():
        assert got.tobytes() == expected.tobytes(), way


def test_anchor_ids_out_of_range_read_last_anchor():
    packed = ant(padding_idx=0)
    ids = np.arange(20)
    model = damaged(packed, ids, anchor_ids=np.full_like(packed.anchor_ids, 255))
    weights = np.add.reduceat(np.append(packed.weights.astype(np.float64), 0), packed.row_offsets[:-1])
    weights[np.diff(packed.row_offsets) == 0] = 0
    roundings = np.diff(packed.row_offsets).max() + 1  # rounding of a float32 sum of so many terms of one sign
    for way, got in results(model, {"ids": ids}).items():
        expected = weights[:, None] * packed.anchors[-1]
        np.testing.assert_allclose(got, expected, rtol=roundings * 2.0**-24, err_msg=way)


@pytest.mark.parametrize("value", [-1, -(2**31), 10_000, 2**31 - 1])
@pytest.mark.parametrize("at", [0, 5, 20])
def test_row_offsets_out_of_range_are_refused_or_bounded(value, at):
    """The body raises or gives finite rows, without a read outside the tensor and without a huge allocation."""
    packed = ant()
    offsets = packed.row_offsets.copy()
    offsets[at] = value
    ids = np.arange(20)
    try:
        rows = session(damaged(packed, ids, row_offsets=offsets)).run(None, {"ids": ids})[0]
    except Exception as error:
        assert "bounds" in str(error)  # noqa: PT017
    else:
        assert np.isfinite(rows).all()


def test_padding_row_is_zero_over_damaged_entries():
    """The padding row of ANT is empty; a file with entries in it gives zero too."""
    packed = ant(padding_idx=None, density=1.0)
    node, stored, uses = node_of(packed, "rows", ["ids"], "rows")
    (attribute,) = [item for item in node.attribute if item.name == "padding_idx"]
    attribute.i = 4
    ids = np.array([4, 5])
    model = model_of([(node, stored, uses)], {"ids": ids}, {"rows": (np.float32, 2)})
    for way, got in results(model, {"ids": ids}).items():
        assert not got[0].any(), way
        assert got[1].any(), way
