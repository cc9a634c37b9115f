"""Packed tiered tables: rows counted one by one, files, and refusals of wrong maps, ranks and tiers."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_embed.errors import BadInputError
from edge_embed.packed import PackedTiered, load_tables, save_tables
from edge_embed.packed.tier_map import packed_map

from ..tiered_tables import KINDS, dense, tier, tiered


@st.composite
def tables(draw: st.DrawFn) -> tuple[PackedTiered, Any]:
    """Return a table, and the tier of each row."""
    sizes = draw(st.tuples(*[st.integers(1, 400)] * 3))
    dim, value_type = 2 * draw(st.integers(1, 5)), draw(st.sampled_from(("float32", "float16")))
    kinds = draw(st.tuples(*[st.sampled_from(KINDS)] * 3))
    tier_of = np.repeat(np.arange(3), sizes)
    if draw(st.booleans()):
        np.random.default_rng(draw(st.integers(0, 9))).shuffle(tier_of)
    tiers = tuple(tier(kind, n, dim, value_type, seed) for seed, (kind, n) in enumerate(zip(kinds, sizes, strict=True)))
    padding_idx = draw(st.none() | st.integers(0, sum(sizes) - 1))
    return PackedTiered.from_tiers(tiers, tier_of, padding_idx), tier_of


@given(made=tables(), data=st.data())
def test_rows_are_those_of_tiers_counted_one_by_one(made: Any, data: st.DataObject) -> None:
    table, tier_of = made
    expected = dense(table, tier_of)
    ids = np.array(data.draw(st.lists(st.integers(0, len(tier_of) - 1), max_size=9)), np.int64)
    np.testing.assert_array_equal(table.rows_float64(ids), expected[ids])
    np.testing.assert_array_equal(table.rows(np.arange(len(tier_of))), expected.astype(np.float32))
    assert table.nbytes == sum(array.nbytes for array in table.tensors().values()) == table.shape.nbytes


@given(made=tables())
def test_loaded_table_is_saved_one(made: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    table, _ = made
    path = tmp_path_factory.mktemp("tiered") / "tables.safetensors"
    save_tables(path, {"words": table})
    loaded = load_tables(path)["words"]
    assert (loaded.attributes(), loaded.padding_idx) == (table.attributes(), table.padding_idx)
    for name, array in table.tensors().items():
        assert loaded.tensors()[name].tobytes() == array.tobytes()


def test_sorted_rows_need_no_map(tmp_path: Path) -> None:
    """A sorted table is smaller by the map, and a random one of the same rows is larger by 76 bytes a block."""
    table, mapped = tiered(is_sorted=True), tiered()
    assert table.tier_map is None
    assert mapped.nbytes - table.nbytes == 76 * 3


def test_sizes_with_more_rows_count_their_floats() -> None:
    sizes = {"kinds": ("floats", "integers", "shared rows"), "is_sorted": True, "padding_idx": None}
    few, more = (tiered(sizes=(size, size, size), **sizes).shape for size in (100, 200))
    assert few.with_rows(600) == more


def changed(table: PackedTiered, **arrays: Any) -> PackedTiered:
    own = {name: getattr(table, name).copy() for name in ("tier_map", "tier_ranks")}
    for name, (at, value) in arrays.items():
        own[name][at] = value
    return replace(table, **own)


MAPPED = tiered()
assert MAPPED.tier_map is not None
WRONG_MAPS = {
    "tier 3": ({"tier_map": ((0, 0), 255)}, "tier_map: row 0: got tier 3, expected 0 to 2"),
    "after the end": ({"tier_map": ((2, 63), 1)}, "tier_map: got a tier for a row after the last one, 599"),
    "other sizes": (
        {"tier_map": ((0, 0), MAPPED.tier_map[0, 0] & 0xFC)},
        r"tier_map: tier \d: got \d+ rows, expected \d+",
    ),
    "rank": ({"tier_ranks": ((1, 2), 0)}, "tier_ranks: block 1, tier 2: got 0, expected the number of earlier rows"),
    "negative rank": ({"tier_ranks": ((2, 0), -1)}, "tier_ranks: block 2, tier 0: got -1, expected the number"),
    "huge rank": ({"tier_ranks": ((0, 0), 2**31 - 1)}, "tier_ranks: block 0, tier 0: got 2147483647, expected"),
}


@pytest.mark.parametrize("case", WRONG_MAPS)
def test_wrong_map_is_refused_by_place(case: str) -> None:
    change, message = WRONG_MAPS[case]
    with pytest.raises(BadInputError, match=message):
        changed(MAPPED, **change).check()


def attributes(**other: Any) -> dict[str, Any]:
    return {**MAPPED.attributes(), **other}


def with_tier(number: int, **other: Any) -> dict[str, Any]:
    tiers = [{**own, **(other if at == number else {})} for at, own in enumerate(MAPPED.attributes()["tiers"])]
    return attributes(tiers=tiers)


WRONG_ATTRIBUTES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": (attributes(more=1), "attributes: got .*, expected"),
    "no map": ({"tiers": []}, "attributes: got .*, expected"),
    "text map": (attributes(has_map="yes"), "has_map: got 'yes', expected true or false"),
    "no tiers": (attributes(tiers=[]), r"tiers: got \[\], expected a list of 3 objects"),
    "number": (attributes(tiers=3), "tiers: got 3, expected a list of 3 objects"),
    "numbers": (attributes(tiers=[1, 2, 3]), r"tiers: got \[1, 2, 3\], expected a list of 3 objects"),
    "empty objects": (attributes(tiers=[{}, {}, {}]), "tier 0: "),
    "no rows": (with_tier(1, num_embeddings=0), "tier 1: num_embeddings: got 0"),
    "text rows": (with_tier(2, num_embeddings="9"), "tier 2: num_embeddings: got '9'"),
    "other rows": (with_tier(2, num_embeddings=361), "num_embeddings: got 600, expected 601, the rows of all tiers"),
    "codes": (with_tier(0, num_codes=1), "tier 0: "),
    "groups": (with_tier(2, num_groups=4), "tier 2: "),
    "unused columns": (with_tier(2, unused_columns=1, num_groups=1), "tier 2: "),
}


@pytest.mark.parametrize("case", WRONG_ATTRIBUTES)
def test_wrong_attributes_are_refused_by_name(case: str) -> None:
    given, message = WRONG_ATTRIBUTES[case]
    with pytest.raises(BadInputError, match=message):
        PackedTiered.shape_from(MAPPED.num_embeddings, MAPPED.embedding_dim, given)
    with pytest.raises(BadInputError):
        PackedTiered.from_tensors(MAPPED.tensors(), given, MAPPED.padding_idx)


def test_tiers_that_do_not_fit_each_other_are_refused() -> None:
    floats, integers, groups = MAPPED.tiers
    with pytest.raises(BadInputError, match="tiers: got 2, expected 3"):
        PackedTiered((floats, groups))
    with pytest.raises(BadInputError, match="tier 2: got 8 of float32, expected 6 whole columns of float values"):
        PackedTiered((floats, integers, tier("groups", 9, 8)))
    with pytest.raises(BadInputError, match="tier 1: got 6 of float16, expected 6 whole columns of float values"):
        PackedTiered((floats, tier("columns", 9, 6, "float16"), groups))
    with pytest.raises(BadInputError, match="tier 0: got a padding row, expected none"):
        PackedTiered((replace(floats, padding_idx=0), integers, groups))
    with pytest.raises(BadInputError, match="tier_map and tier_ranks: got one of them, expected both or none"):
        replace(MAPPED, tier_ranks=None)
    with pytest.raises(BadInputError, match=re.escape("tier_map: got uint8 [2, 64], expected uint8 [3, 64]")):
        replace(MAPPED, tier_map=MAPPED.tier_map[:2])  # type: ignore[index]
    with pytest.raises(BadInputError, match="padding_idx"):
        replace(MAPPED, padding_idx=600)


def test_tier_map_packs_four_rows_a_byte() -> None:
    tier_map, ranks = packed_map(np.array([2, 0, 1, 2] + [1] * 253))
    assert tier_map.shape == (2, 64)
    assert tier_map[0, :2].tolist() == [0b10010010, 0b01010101]
    assert ranks.tolist() == [[0, 0, 0], [1, 253, 2]]
