"""Golden files of ANT, TT, and DPQ with int8 values: exact bytes, and their description in FORMAT.md."""

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from edge_embed import packed as packed_package
from edge_embed.packed import PackedANT, PackedDPQ, PackedTable, PackedTiered, PackedTT, load_tables, save_tables

GOLDEN = Path(__file__).parents[1] / "golden"
PAGE = (Path(packed_package.__file__).parent / "FORMAT.md").read_text("utf-8")


def count(shape: tuple[int, ...], dtype: str, first: int) -> NDArray[Any]:
    return np.arange(first, first + int(np.prod(shape))).reshape(shape).astype(dtype)


def ant_tables() -> dict[str, PackedTable]:
    transform = np.array([[0.5, 0, 1], [9, 9, 9], [0, 0, 0], [1, 0.25, 4]], np.float32)
    words = PackedANT.from_dense(transform, np.array([[1, -2], [4, 0.5], [-8, 16]], np.float32), padding_idx=1)
    ids, weights = np.array([1, 0, 1], np.uint8), np.array([127, 3, 2], np.int8)
    anchors = np.array([[1, -2, 0.5], [0, 8, -0.25]], np.float16)
    tags = PackedANT(np.array([0, 1, 3], np.int32), ids, weights, np.array([0.25], np.float32), anchors)
    return {"words": words, "tags.small": tags}


def tt_tables() -> dict[str, PackedTable]:
    words = PackedTT((count((2, 1, 2, 2), "<f4", 1), count((3, 2, 2, 1), "<f4", 0)), 5, padding_idx=0)
    shapes = [(2, 2, 1, 1), (1, 1, 2, 2), (2, 2, 1, 2)]
    ring = PackedTT(tuple(count(shape, "<f2", -3) for shape in shapes), 4)
    return {"words": words, "tags.ring": ring}


def tt_order_tables() -> dict[str, PackedTable]:
    order = np.array([0, 4, 3, 1, 2], np.int32)
    return {"words": PackedTT(tt_tables()["words"].cores, 5, 0, order)}  # type: ignore[attr-defined]


def dpq_int8_tables() -> dict[str, PackedTable]:
    values = np.array([[[1, -127], [0, 64], [-5, 2]], [[127, 3], [8, -8], [100, 0]]], np.int8)
    words = PackedDPQ.from_codes(np.array([[2, 1], [0, 0], [1, 2]]), values, 1, np.array([0.5, 0.03125], np.float32))
    tags = PackedDPQ.from_codes(np.array([[0, 1], [1, 1]]), values[:1, :2], None, np.array([0.25], np.float32))
    return {"words": words, "tags.shared": tags}


def dpq_scaled_tables() -> dict[str, PackedTable]:
    """Return words with scales and a narrower last group, tags of integers, and names cut without scales."""
    values = np.array([[[1, -2], [4, 8], [0.5, 3]], [[2, 0], [-4, 0], [10, 0]]], np.float32)
    codes, half_zero_two = np.array([[6], [0], [1], [9]], np.uint8), np.array([0.5, 0, 2], np.float32)
    words = PackedDPQ(codes, values, 2, 1, None, np.array([2, 0, 1, 0], np.uint8), half_zero_two, unused_columns=1)
    integers = np.array([[[-1], [0], [1]]], np.float16)
    tags = PackedDPQ(
        np.array([[36], [6]], np.uint8), integers, 3, None, None, np.array([0, 0], np.uint8), half_zero_two[:1]
    )
    names = PackedDPQ(codes, values.astype(np.int8), 2, None, np.array([0.25, 1], np.float32), unused_columns=1)
    return {"words": words, "tags": tags, "names": names}


def tiered_tables() -> dict[str, PackedTable]:
    """Return words with a map of two blocks and three kinds of tiers, and sorted tags of float16 values."""
    frequent = PackedDPQ.from_codes(np.array([[0], [1]]), np.array([[[1, -2], [4, 8]]], np.float32))
    integers = np.array([[[-1], [0], [1]]], np.float32)
    scales = np.array([0, 1], np.uint8), np.array([0.5, 2], np.float32)
    some = PackedDPQ(np.array([[8], [2]], np.uint8), integers, 2, None, None, *scales)
    rare = PackedDPQ.from_codes(np.arange(255)[:, np.newaxis] % 2, np.array([[[0.25, 3], [5, 6]]], np.float32))
    tier_of = np.full(259, 2)
    tier_of[[1, 257]], tier_of[[2, 258]] = 0, 1
    words = PackedTiered.from_tiers((frequent, some, rare), tier_of, 0)
    tags = (PackedDPQ.from_codes(np.eye(2, dtype=int), count((2, 2, 1), "<f2", tier)) for tier in range(3))
    return {"words": words, "tags": PackedTiered.from_tiers(tuple(tags))}


TABLES = {
    "ant": ant_tables,
    "dpq_int8": dpq_int8_tables,
    "dpq_scaled": dpq_scaled_tables,
    "tiered": tiered_tables,
    "tt": tt_tables,
    "tt_order": tt_order_tables,
}


@pytest.mark.parametrize("method", TABLES)
def test_saved_bytes_match_golden_files(tmp_path: Path, method: str) -> None:
    """The written bytes are those that existing v1 readers expect, for any order of tables."""
    tables, golden = TABLES[method](), (GOLDEN / f"{method}_v1.safetensors").read_bytes()
    save_tables(tmp_path / "a", tables)
    save_tables(tmp_path / "b", dict(reversed(tables.items())))
    assert (tmp_path / "a").read_bytes() == golden == (tmp_path / "b").read_bytes()
    assert hashlib.sha256(golden).hexdigest() in PAGE


@pytest.mark.parametrize("method", TABLES)
def test_rows_of_golden_files_match_tables(method: str) -> None:
    loaded = load_tables(GOLDEN / f"{method}_v1.safetensors")
    for name, table in TABLES[method]().items():
        ids = np.arange(table.num_embeddings)
        assert loaded[name].rows(ids).tobytes() == table.rows(ids).tobytes()
        assert loaded[name].attributes() == table.attributes()
        assert loaded[name].padding_idx == table.padding_idx


def test_safetensors_library_reads_golden_files() -> None:
    for method, make in TABLES.items():
        stored = safetensors.numpy.load_file(GOLDEN / f"{method}_v1.safetensors")
        expected = {f"{name}/{key}": array for name, table in make().items() for key, array in table.tensors().items()}
        assert stored.keys() == expected.keys()
        for name, array in expected.items():
            assert stored[name].dtype == array.dtype
            np.testing.assert_array_equal(stored[name], array)


def page_rows(first_cell: str) -> list[list[str]]:
    """Return rows of a table of the page whose first cell matches."""
    lines = re.findall(rf"^\| (?:{first_cell}) \|.*\|$", PAGE, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_format_page_shows_ant_file() -> None:
    table = load_tables(GOLDEN / "ant_v1.safetensors")["words"]
    tensors = table.tensors()
    names = ("row_offsets", "anchor_ids", "weights")
    cells = [row for row in page_rows(f"`(?:{'|'.join(names)})`") if is_hex(row[-1])]
    assert {row[0]: bytes.fromhex(row[1]) for row in cells} == {f"`{name}`": tensors[name].tobytes() for name in names}
    assert table.rows(3).tolist() == [1 * 1 + 0.25 * 4 + 4 * -8, 1 * -2 + 0.25 * 0.5 + 4 * 16] == [-30, 62.125]
    assert "(\N{MINUS SIGN}30, 62.125)" in PAGE
    assert table.rows([1, 2]).tobytes() == bytes(16)


def is_hex(cell: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{2}( [0-9a-f]{2})*", cell) is not None


def test_format_page_shows_dpq_file_of_int8_values() -> None:
    table = load_tables(GOLDEN / "dpq_int8_v1.safetensors")["words"]
    cells = [row for row in page_rows("`(?:codes|values|value_scales)`") if is_hex(row[-1])]
    assert {row[0]: bytes.fromhex(row[1]) for row in cells} == {
        f"`{name}`": array.tobytes() for name, array in table.tensors().items()
    }
    assert table.rows(2).tolist() == [0 * 0.5, 64 * 0.5, 100 * 0.03125, 0] == [0, 32, 3.125, 0]
    assert "(0, 32, 3.125, 0)" in PAGE
    assert table.rows(1).tobytes() == bytes(16)


def test_format_page_shows_dpq_file_with_row_scales() -> None:
    table = load_tables(GOLDEN / "dpq_scaled_v1.safetensors")["words"]
    names = ("row_scale_codes", "row_scales")
    cells = [row for row in page_rows(f"`(?:{'|'.join(names)})`") if is_hex(row[-1])]
    assert {row[0]: bytes.fromhex(row[1]) for row in cells} == {
        f"`{name}`": table.tensors()[name].tobytes() for name in names
    }
    assert table.rows(0).tolist() == [0.5 * 2, 3 * 2, -4 * 2] == [1, 6, -8]
    assert "(1, 6, \N{MINUS SIGN}8)" in PAGE
    assert table.rows([1, 2]).tobytes() == bytes(24)


def test_format_page_shows_tt_file() -> None:
    table = load_tables(GOLDEN / "tt_v1.safetensors")["words"]
    shown = [(row[0], int(row[1]), bytes.fromhex(row[3])) for row in page_rows("`core_[01]`")]
    assert shown == [
        (f"`{name}`", index, data.tobytes())
        for name, core in table.tensors().items()
        for index, data in enumerate(core)
    ]
    assert table.rows(4).tolist() == [5 * 4 + 6 * 6, 5 * 5 + 6 * 7, 7 * 4 + 8 * 6, 7 * 5 + 8 * 7] == [56, 67, 76, 91]
    assert "(56, 67, 76, 91)" in PAGE
    assert table.rows(0).tobytes() == bytes(16)


def test_format_page_shows_tt_file_with_row_order() -> None:
    table, plain = (load_tables(GOLDEN / f"{name}_v1.safetensors")["words"] for name in ("tt_order", "tt"))
    ((_, stored),) = [row for row in page_rows("`row_order`") if is_hex(row[-1])]
    assert bytes.fromhex(stored) == table.tensors()["row_order"].tobytes()
    assert table.rows(1).tolist() == plain.rows(4).tolist() == [56, 67, 76, 91]
    assert table.rows(0).tobytes() == bytes(16)


def test_format_page_shows_tiered_file() -> None:
    table = load_tables(GOLDEN / "tiered_v1.safetensors")["words"]
    tensors = table.tensors()
    names = ("tier_ranks", "tier_0_codes", "tier_1_codes", "tier_1_row_scale_codes", "tier_1_row_scales")
    cells = {row[0]: bytes.fromhex(row[1]) for row in page_rows(f"`(?:{'|'.join(names)})`") if is_hex(row[-1])}
    assert cells == {f"`{name}`": tensors[name].tobytes() for name in names}
    assert tensors["tier_map"][0].tobytes() == bytes.fromhex("92") + bytes([0xAA]) * 63
    assert tensors["tier_map"][1].tobytes() == bytes.fromhex("12") + bytes(63)
    assert "`92 aa aa ... aa`" in PAGE
    assert "`12 00 00 ... 00`" in PAGE
    assert table.rows([1, 257]).tolist() == [[1, -2], [4, 8]]
    assert table.rows([2, 258]).tolist() == [[-0.5, 0.5], [2, -2]]
    assert "(2, \N{MINUS SIGN}2)" in PAGE
    assert table.rows([3, 4]).tolist() == [[5, 6], [0.25, 3]]
    assert table.rows(0).tobytes() == bytes(8)
