"""Bags and logits of the portable bodies match the packed form, at every optimisation level of a session."""

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_embed.packed.bag import bag
from edge_embed.packed.logits import logits
from edge_embed.targets.reference import open_reference

from .bodies import (
    LEVELS,
    TABLES,
    ant,
    assert_close,
    bag_feeds,
    bag_model,
    dpq,
    id_types,
    ids_of,
    logits_model,
    results,
    rows_model,
    session,
    types_of,
    value_types,
)


@pytest.mark.parametrize("method", TABLES)
@settings(max_examples=20)
@given(st.data())
def test_bag_bodies_match_packed_form(method, data):
    packed = TABLES[method](
        dtype=data.draw(types_of(method), "type"), padding_idx=data.draw(st.sampled_from([None, 3]))
    )
    sizes = data.draw(st.lists(st.sampled_from([0, 1, 2, 5, 30]), max_size=6), "sizes")
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    ids = ids_of(packed, (int(offsets[-1]),), data.draw(id_types, "ids"), data.draw(st.integers(0, 99), "seed"))
    mode, weights = data.draw(st.sampled_from(["sum", "mean", "max"]), "mode"), None
    if mode == "sum" and data.draw(st.booleans(), "weighted"):
        weights = np.random.default_rng(0).standard_normal(len(ids)).astype(packed.row_type)
    feeds = bag_feeds(packed, ids, offsets, weights)
    expected = bag(packed, ids, offsets, mode, weights)
    for way, got in results(bag_model(packed, feeds, mode, weights), feeds).items():
        assert_close(got, *expected, way)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bag_bodies_of_many_rows_are_rounded_once(mode):
    packed = dpq()
    offsets = [0, 3000, 3005]
    ids = ids_of(packed, (3005,))
    feeds = bag_feeds(packed, ids, offsets)
    expected, _ = bag(packed, ids, np.array(offsets), mode)
    for way, got in results(bag_model(packed, feeds, mode), feeds).items():
        assert np.all(np.abs(got - expected) <= 0.51 * np.spacing(np.abs(got))), way


def test_bag_bodies_of_distant_magnitudes_keep_precision():
    packed = dpq()
    ids, offsets = ids_of(packed, (600,)), np.array([0, 300, 600])
    weights = np.repeat(np.float32([1e-20, 1e20]), 300)
    feeds = bag_feeds(packed, ids, offsets, weights)
    expected, _ = bag(packed, ids, offsets, "sum", weights)
    for way, got in results(bag_model(packed, feeds, "sum", weights), feeds).items():
        np.testing.assert_allclose(got, expected, 1e-5, err_msg=way)  # products are rounded to float32 before the sum


@pytest.mark.parametrize("weight", [np.inf, -np.inf, np.nan, 3e38], ids=str)
def test_bag_bodies_with_infinite_sums_return_them(weight):
    packed = dpq(padding_idx=None)
    ids, offsets = np.array([1, 1, 1, 4, 5]), np.array([0, 3, 5])
    weights = np.float32([weight] * 3 + [1, 1])
    feeds = bag_feeds(packed, ids, offsets, weights)
    rows = packed.rows_float64(ids)
    with np.errstate(over="ignore"):
        expected = [(3 * float(weight) * rows[0]).astype(np.float32), (rows[3] + rows[4]).astype(np.float32)]
    large = np.abs(rows[0]) > 0.5  # the others may stay finite
    for way, got in results(bag_model(packed, feeds, "sum", weights), feeds).items():
        np.testing.assert_array_equal(got[0][large], expected[0][large], way)
        np.testing.assert_allclose(got[1], expected[1], 1e-6, err_msg=way)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("method", TABLES)
def test_bag_bodies_of_padding_only_give_zero(method, mode):
    packed = TABLES[method](padding_idx=3)
    feeds = bag_feeds(packed, np.array([3, 3, 4, 3]), [0, 2, 2, 4])
    for way, got in results(bag_model(packed, feeds, mode), feeds).items():
        assert not got[:2].view(np.uint8).any(), way  # all padding; empty
        assert_close(got[2], packed.rows_float64(4), packed.magnitudes(4), way)  # padding is not counted


@pytest.mark.parametrize(
    "offsets",
    [[0, 3, 2, 4], [1, 4], [0, 3], [0, 5], [-1, 4], [0, -1, 4], [0, 9, 4], [0, 2**62, 4], [-4, 4], [-1, 5], []],
    ids=str,
)
@pytest.mark.parametrize("mode", ["sum", "max"])
def test_bag_bodies_with_wrong_offsets_raise(offsets, mode):
    packed = ant()
    feeds = bag_feeds(packed, np.arange(4), offsets)
    model = bag_model(packed, feeds, mode)
    with pytest.raises(Exception, match=r"(?i)ind(ex|ices)|bound|start"):
        session(model).run(None, feeds)
    with pytest.raises(Exception, match=r"(?i)ind(ex|ices)|bound|start|broadcast|empty"):
        open_reference(model).run(None, feeds)


@pytest.mark.parametrize("method", TABLES)
@settings(max_examples=20)
@given(st.data())
def test_logits_bodies_match_packed_form(method, data):
    packed = TABLES[method](
        dtype=data.draw(types_of(method), "type"), padding_idx=data.draw(st.sampled_from([None, 3]))
    )
    shape = (*data.draw(st.sampled_from([(), (1,), (5,), (0,), (2, 3), (2, 0)]), "shape"), packed.embedding_dim)
    hidden = np.random.default_rng(0).standard_normal(shape).astype(data.draw(value_types, "hidden"))
    expected, magnitude = logits(packed, hidden)
    for way, got in results(logits_model(packed, hidden), {"hidden": hidden}).items():
        assert got.dtype == hidden.dtype
        assert_close(got, expected, magnitude, way, min(hidden.dtype, np.dtype(packed.row_type)))


@pytest.mark.parametrize("n", [1, 1023, 1024, 1025, 3000])
def test_logits_bodies_over_several_blocks_match_packed_form(n):
    """A block has 524,288 numbers, here 1,024 rows; the last block is rarely full."""
    packed = dpq(n, codes=16, groups=4, width=128, padding_idx=n - 1)
    hidden = np.random.default_rng(0).standard_normal((2, 512)).astype(np.float32)
    expected = logits(packed, hidden)
    for way, got in results(logits_model(packed, hidden), {"hidden": hidden}).items():
        assert_close(got, *expected, way)


@pytest.mark.parametrize("use", ["rows", "bag", "logits"])
@pytest.mark.parametrize(("method", "dtype"), [*itertools.product(TABLES, ["float32", "float16"]), ("dpq", "int8")])
def test_session_at_every_level_gives_rows_and_passes_checker(method, use, dtype):
    packed = TABLES[method](dtype=dtype, padding_idx=1)
    for feeds, model, expected in uses_of(packed)[use]:
        onnx.checker.check_model(model, full_check=True)
        for level in LEVELS:
            assert_close(session(model, level).run(None, feeds)[0], *expected, level)


def uses_of(packed: Any) -> dict[str, list[Any]]:
    """Return feeds, a model and its expected results, by use."""
    random = np.random.default_rng(1)
    many = ids_of(packed, (600,))
    feeds = bag_feeds(packed, many, [0, 0, 10, 600])
    hidden = random.standard_normal((3, packed.embedding_dim)).astype(feeds["sample_weights"].dtype)
    return {
        "rows": [
            ({"ids": ids}, rows_model(packed, ids), (packed.rows_float64(ids), packed.magnitudes(ids)))
            for ids in (many, many[:6].reshape(2, 3))
        ],
        "bag": [
            (feeds, bag_model(packed, feeds, mode), bag(packed, many, feeds["offsets"], mode))
            for mode in ("sum", "mean", "max")
        ],
        "logits": [({"hidden": hidden}, logits_model(packed, hidden), logits(packed, hidden))],
    }
