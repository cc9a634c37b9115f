"""DPQ tables with row scales or a narrower last group: their rows, and refusals of invalid tables."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed import DPQShape, PackedDPQ, load_tables, save_tables
from edge_embed.packed.dpq_values import quantized

N, D, WIDTH = 6, 3, 4


def plain(value_type: str = "float32", padding: int | None = None) -> PackedDPQ:
    random = np.random.default_rng(0)
    values = random.standard_normal((D, 5, WIDTH))
    stored, scales = quantized(values) if value_type == "int8" else (values.astype(value_type), None)
    return PackedDPQ.from_codes(random.integers(0, 5, (N, D)), stored, padding, scales)


CODES, SCALES = np.array([2, 0, 1, 2, 0, 1], np.uint8), np.array([0.5, 0, 3], np.float32)


def scaled(value_type: str = "float32", unused: int = 0, padding: int | None = None) -> PackedDPQ:
    rows = {"row_scale_codes": CODES, "row_scales": SCALES}
    return replace(plain(value_type, padding), **rows, unused_columns=unused)


@given(st.data())
def test_rows_match_plain_table_cut_and_scaled(data: st.DataObject) -> None:
    value_type = data.draw(st.sampled_from(["float32", "float16", "int8"]), "type")
    unused = data.draw(st.integers(0, WIDTH - 1), "unused")
    padding = data.draw(st.sampled_from([None, 1]), "padding")
    ids = np.array(data.draw(st.lists(st.integers(0, N - 1), max_size=8), "ids"), np.int64)
    packed, whole = scaled(value_type, unused, padding), plain(value_type, padding)
    expected = whole.rows(ids).astype(np.float64)[:, : D * WIDTH - unused] * SCALES[CODES[ids], np.newaxis]
    assert packed.rows(ids).tobytes() == expected.astype(np.float32).tobytes()  # rounded once
    assert packed.rows(ids).dtype == packed.row_type == "float32"
    cut = replace(whole, unused_columns=unused)
    assert cut.rows(ids).tobytes() == whole.rows(ids)[:, : D * WIDTH - unused].tobytes()
    assert cut.row_type == whole.row_type


@pytest.mark.parametrize("value_type", ["float32", "float16", "int8"])
def test_file_keeps_scales_and_cut_columns(tmp_path: Path, value_type: str) -> None:
    packed = scaled(value_type, 2, padding=1)
    save_tables(tmp_path / "scaled", {"words": packed})
    loaded = load_tables(tmp_path / "scaled")["words"]
    assert loaded.shape == packed.shape
    assert loaded.rows(np.arange(N)).tobytes() == packed.rows(np.arange(N)).tobytes()
    assert loaded.nbytes == plain(value_type).nbytes + N + 4 * 3 == sum(x.nbytes for x in packed.tensors().values())
    code_bits = N * D * np.log2(5)
    other_bits = 8 * (loaded.nbytes - packed.codes.nbytes)
    assert loaded.compression_ratio == pytest.approx(32 * N * (D * WIDTH - 2) / (code_bits + other_bits))


def test_attributes_name_scales_only_if_present() -> None:
    """A file without them keeps its earlier bytes, and older readers refuse a file with them."""
    names = {"bits", "num_codes", "num_groups", "share_subspaces"}
    assert plain().attributes().keys() == names
    assert scaled(unused=2).attributes().keys() == names | {"num_row_scales", "unused_columns"}
    assert plain().shape.is_plain
    assert not scaled().shape.is_plain
    assert not replace(plain(), unused_columns=1).shape.is_plain


def scale(number: float) -> NDArray[np.float32]:
    return np.array([0.5, number, 3], np.float32)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"row_scales": None}, r"tensors: got \['codes', 'values', 'row_scale_codes'\] with float32 values, expected"),
        ({"row_scale_codes": None}, r"tensors: got \['codes', 'values', 'row_scales'\] with float32 values, expected"),
        ({"row_scale_codes": CODES[:5]}, r"row_scale_codes: got uint8 \[5\], expected uint8 \[6\]"),
        ({"row_scale_codes": CODES.astype(np.int64)}, "row_scale_codes: got int64"),
        ({"row_scales": SCALES.astype(np.float16)}, r"row_scales: got float16 \[3\], expected float32 \[scales\]"),
        ({"row_scales": SCALES[:, np.newaxis]}, r"row_scales: got float32 \[3, 1\]"),
        ({"row_scales": np.ones(257, np.float32)}, "num_row_scales: got 257, expected at most 256"),
        ({"row_scales": SCALES[:0]}, r"tensors: got .*'row_scales'\] with float32 values, expected"),
        ({"row_scales": scale(np.nan)}, "row_scales: scale 1: got nan"),
        ({"row_scales": scale(np.inf)}, "row_scales: scale 1: got inf"),
        ({"row_scales": scale(-1)}, "row_scales: scale 1: got -1.0, expected no number below zero"),
        ({"row_scales": scale(-0.0)}, "row_scales: scale 1: got -0.0, expected no number below zero"),
        ({"row_scales": scale(3e38)}, "row_scales: scale 1: got 3.*e.38, expected .* finite times the largest value"),
        ({"unused_columns": -1}, "unused_columns: got -1, expected zero or a positive integer"),
        ({"unused_columns": 4}, "unused_columns: got 4, expected fewer than a group's 4"),
        ({"unused_columns": "1"}, "unused_columns: got '1', expected zero or a positive integer"),
    ],
)
def test_invalid_tables_are_refused(rows: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        replace(scaled(), **rows)


@pytest.mark.parametrize(
    ("codes", "padding", "message"),
    [
        (np.array([2, 0, 3, 2, 0, 1]), None, "row_scale_codes: row 2: got 3, expected less than 3"),
        (CODES, 0, r"row_scale_codes: row 0 \(padding\): expected zero"),
    ],
)
def test_invalid_row_scale_codes_are_refused(codes: Any, padding: int | None, message: str) -> None:
    packed = replace(scaled(padding=padding), row_scale_codes=codes.astype(np.uint8))
    with pytest.raises(BadInputError, match=message):
        packed.check_codes()


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"num_row_scales": 0}, "num_row_scales: got 0, expected a positive integer"),
        ({"unused_columns": 0}, "unused_columns: got 0, expected a positive integer"),
        ({"num_row_scales": 257}, "num_row_scales: got 257, expected at most 256"),
        ({"num_row_scales": True}, "num_row_scales: got True, expected a positive integer"),
        (
            {"unused_columns": 5},
            r"num_groups: got 3, expected a divisor of embedding_dim \(12\) \+ unused_columns \(5\)",
        ),
        ({"scales": 1}, "attributes: got .*'scales'"),
    ],
)
def test_invalid_declarations_of_scales_are_refused(attributes: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        PackedDPQ.shape_from(N, D * WIDTH, plain().attributes() | attributes)


def test_sizes_are_known_from_header_alone() -> None:
    shape = PackedDPQ.shape_from(N, 10, scaled(unused=2).attributes())
    assert shape == scaled(unused=2).shape == DPQShape(N, 10, 5, 3, num_row_scales=3, unused_columns=2)
