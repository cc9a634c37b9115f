"""TT tables with a row order: ids find their rows, and files with an invalid order are refused."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed import PackedTT, TTShape, load_tables, save_tables
from edge_embed.packed.row_order import MAX_ORDERED_ROWS, checked_row_order

REVERSED = np.arange(5, -1, -1, dtype=np.int32)


def plain(n: int = 6, padding: int | None = None, value_type: str = "float32") -> PackedTT:
    random = np.random.default_rng(0)
    shapes = [(3, 2, 2, 3), (2, 3, 3, 2)]
    return PackedTT(tuple(random.standard_normal(shape).astype(value_type) for shape in shapes), n, padding)


@given(st.data())
def test_rows_match_plain_table_at_ordered_places(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 6), "n")
    padding = data.draw(st.one_of(st.none(), st.integers(0, n - 1)), "padding")
    others = data.draw(st.permutations([i for i in range(n) if i != padding]), "order")
    order = np.array(others if padding is None else [*others[:padding], padding, *others[padding:]], np.int32)
    packed = replace(plain(n, padding), row_order=order)
    ids = np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=8), "ids"), np.int64)
    for name in ("rows", "rows_float64", "magnitudes"):
        np.testing.assert_array_equal(getattr(packed, name)(ids), getattr(plain(n, padding), name)(order[ids]))
    assert checked_row_order(order.astype(np.int64), n, padding).dtype == np.int32


@pytest.mark.parametrize("value_type", ["float32", "float16"])
def test_file_keeps_the_row_order(tmp_path: Path, value_type: str) -> None:
    packed = replace(plain(value_type=value_type), row_order=REVERSED)
    save_tables(tmp_path / "ordered", {"words": packed})
    loaded = load_tables(tmp_path / "ordered")["words"]
    assert loaded.rows(np.arange(6)).tobytes() == plain(value_type=value_type).rows(np.arange(6))[::-1].tobytes()
    assert loaded.shape == packed.shape
    assert (
        loaded.nbytes == plain(value_type=value_type).nbytes + 4 * 6 == sum(x.nbytes for x in packed.tensors().values())
    )
    assert loaded.compression_ratio == 32 * 6 * 6 / (8 * loaded.nbytes)


def test_attributes_name_row_order_only_if_present() -> None:
    """A file without an order keeps its earlier bytes, and older readers refuse a file with one."""
    assert "has_row_order" not in plain().attributes()
    assert "row_order" not in plain().tensors()
    assert replace(plain(), row_order=REVERSED).attributes() == {**plain().attributes(), "has_row_order": True}


def no_order(change: Any) -> NDArray[Any]:
    order = REVERSED.copy()
    order[2] = change
    return order


@pytest.mark.parametrize(
    ("order", "padding", "message"),
    [
        (REVERSED.astype(np.int64), None, r"row_order: got int64 \[6\], expected int32 \[6\]"),
        (REVERSED[:5], None, r"row_order: got int32 \[5\], expected int32 \[6\]"),
        (REVERSED.reshape(2, 3), None, r"row_order: got int32 \[2, 3\]"),
        (no_order(6), None, "row_order: got row 6 for id 2, expected a permutation of 0 to 5"),
        (no_order(-1), None, "row_order: got row -1 for id 2, expected a permutation of 0 to 5"),
        (no_order(0), None, "row_order: got no id with row 3, expected a permutation of 0 to 5"),
        (REVERSED, 1, "row_order: got row 4 for padding_idx 1, expected the same: .* give padding_idx to the function"),
    ],
)
def test_invalid_row_order_is_refused(order: Any, padding: int | None, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        replace(plain(padding=padding), row_order=order)


def test_rows_beyond_int32_have_no_order() -> None:
    """The header alone shows it: nothing of that size is allocated."""
    sizes = MAX_ORDERED_ROWS + 1, (2**16, 2**16), (2, 2), (1, 2, 1)
    assert TTShape(*sizes).num_embeddings == 2**31
    with pytest.raises(BadInputError, match="row_order: got 2147483648 rows, expected at most 2147483647"):
        TTShape(*sizes, has_row_order=True)
    with pytest.raises(BadInputError, match="expected at most 2147483647"):
        checked_row_order(REVERSED, MAX_ORDERED_ROWS + 1, None)


def forged(path: Path, change: Any) -> Path:
    """Write a file with an order and changed tensors or attributes, with all hashes right."""
    save_tables(path, {"words": replace(plain(), row_order=REVERSED)})
    tensors = safetensors.numpy.load_file(path)
    with safetensors.safe_open(path, "numpy") as file:
        manifest = json.loads(file.metadata()["edge_embed"])
    entry = manifest["tables"]["words"]
    change(tensors, entry)
    entry["sha256"] = {key: hashlib.sha256(tensors[f"words/{key}"].tobytes()).hexdigest() for key in entry["sha256"]}

    def spelled(value: Any) -> str:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))

    manifest["sha256"] = hashlib.sha256(spelled(manifest["tables"]).encode()).hexdigest()
    safetensors.numpy.save_file(tensors, path, {"edge_embed": spelled(manifest)})
    return path


def shuffled(tensors: Any, entry: Any) -> None:
    tensors["words/row_order"] = no_order(0)


def without_saying_so(tensors: Any, entry: Any) -> None:
    del entry["attributes"]["has_row_order"], entry["sha256"]["row_order"]


def denied(tensors: Any, entry: Any) -> None:
    entry["attributes"]["has_row_order"] = False


def absent(tensors: Any, entry: Any) -> None:
    del tensors["words/row_order"], entry["sha256"]["row_order"]


def too_short(tensors: Any, entry: Any) -> None:
    tensors["words/row_order"] = REVERSED[:5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (shuffled, "table 'words': row_order: got no id with row 3"),
        (without_saying_so, r"not in the manifest: \['words/row_order'\]"),
        (denied, "has_row_order: got False, expected true or none"),
        (absent, r"sha256: missing keys \['row_order'\]"),
        (too_short, r"tensor 'words/row_order': got I32 \[5\], expected I32 \[6\]"),
    ],
)
def test_file_with_invalid_row_order_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        load_tables(forged(tmp_path / "forged", change))


def test_forged_file_without_change_is_read(tmp_path: Path) -> None:
    """The refusals above are therefore not caused by the forgery."""
    path = forged(tmp_path / "same", lambda tensors, entry: None)
    np.testing.assert_array_equal(load_tables(path)["words"].tensors()["row_order"], REVERSED)


def test_row_order_as_list_is_refused() -> None:
    with pytest.raises(BadInputError, match="row_order: got a list, expected a numpy array"):
        replace(plain(), row_order=REVERSED.tolist())
