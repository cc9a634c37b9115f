"""Files with right hashes over wrong content: only the checks of the methods can notice."""

import hashlib
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed import load_tables, read_manifest

Arrays = dict[str, NDArray[Any]]

ANT: dict[str, Any] = {
    "method": "ant",
    "num_embeddings": 3,
    "embedding_dim": 2,
    "padding_idx": 1,
    "value_type": "float32",
    "attributes": {"num_anchors": 4, "num_nonzeros": 5, "weight_type": "float32"},
}
ANT_TENSORS: Arrays = {
    "row_offsets": np.array([0, 2, 2, 5], np.int32),
    "anchor_ids": np.array([0, 3, 1, 2, 3], np.uint8),
    "weights": np.ones(5, np.float32),
    "weight_scale": np.ones(1, np.float32),
    "anchors": np.ones((4, 2), np.float32),
}
TT: dict[str, Any] = {
    "method": "tt",
    "num_embeddings": 5,
    "embedding_dim": 4,
    "padding_idx": None,
    "value_type": "float32",
    "attributes": {"num_embeddings": 5, "row_shape": [2, 3], "col_shape": [2, 2], "ranks": [1, 2, 1]},
}
TT_TENSORS: Arrays = {
    "core_0": np.ones((2, 1, 2, 2), np.float32),
    "core_1": np.ones((3, 2, 2, 1), np.float32),
}


DPQ: dict[str, Any] = {
    "method": "dpq",
    "num_embeddings": 3,
    "embedding_dim": 4,
    "padding_idx": None,
    "value_type": "int8",
    "attributes": {"bits": 2, "num_codes": 3, "num_groups": 2, "share_subspaces": False},
}
DPQ_TENSORS: Arrays = {
    "codes": np.array([[6], [0], [9]], np.uint8),
    "values": np.full((2, 3, 2), 5, np.int8),
    "value_scales": np.ones(2, np.float32),
}
METHODS = {"ant": (ANT, ANT_TENSORS), "dpq": (DPQ, DPQ_TENSORS), "tt": (TT, TT_TENSORS)}


def sealed(entry: dict[str, Any], tensors: Arrays, path: Path) -> Path:
    """Write a file by hand, with right hashes for any content."""
    hashes = {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in tensors.items()}
    tables = {"words": {**entry, "row_scale": None, "group_widths": None, "sha256": hashes}}
    compact: dict[str, Any] = {"sort_keys": True, "separators": (",", ":")}
    digest = hashlib.sha256(json.dumps(tables, **compact).encode()).hexdigest()
    manifest = json.dumps({"format_version": 1, "tables": tables, "sha256": digest}, **compact)
    named = {f"words/{name}": array for name, array in tensors.items()}
    safetensors.numpy.save_file(named, path, {"edge_embed": manifest})
    return path


def changed(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    attributes = {**base["attributes"], **change.pop("attributes", {})}
    return {**base, **change, "attributes": attributes}


def spoiled(array: NDArray[Any], index: tuple[int, ...], number: float) -> NDArray[Any]:
    copy = array.copy()
    copy[index] = number
    return copy


IDS, ANCHORS = ANT_TENSORS["anchor_ids"], ANT_TENSORS["anchors"]
SEVEN_ROWS = {"num_embeddings": 7, "attributes": {"num_embeddings": 7}}
CORE = TT_TENSORS["core_1"]
VALUES, SCALES = DPQ_TENSORS["values"], DPQ_TENSORS["value_scales"]
CASES: list[tuple[str, dict[str, Any], Arrays, str]] = [
    (
        "dpq",
        {},
        {"values": spoiled(VALUES, (1, 2, 0), -128)},
        "values: group 1, code 2, column 0: got -128, expected -127",
    ),
    ("dpq", {}, {"value_scales": spoiled(SCALES, (1,), np.nan)}, "value_scales: group 1: got nan, expected a positive"),
    ("dpq", {}, {"value_scales": spoiled(SCALES, (0,), np.inf)}, "value_scales: group 0: got inf"),
    ("dpq", {}, {"value_scales": spoiled(SCALES, (1,), 0)}, "value_scales: group 1: got 0.0"),
    ("dpq", {}, {"value_scales": spoiled(SCALES, (1,), -1)}, "value_scales: group 1: got -1.0"),
    (
        "dpq",
        {},
        {"value_scales": spoiled(SCALES, (1,), 1e37)},
        r"value_scales: group 1: got .*e\+36, .* finite times 127",
    ),
    ("dpq", {}, {"value_scales": SCALES[:1]}, r"'words/value_scales': got F32 \[1\], expected F32 \[2\]"),
    ("dpq", {}, {"value_scales": SCALES.astype(np.float16)}, "'words/value_scales': got F16 .*, expected F32"),
    ("dpq", {}, {"values": VALUES.view(np.uint8)}, "'words/values': got U8 .*, expected I8"),
    ("dpq", {}, {"values": VALUES.astype(np.float32)}, "'words/values': got F32 .*, expected I8"),
    ("dpq", {"value_type": "float32"}, {}, r"unknown keys \['value_scales'\]"),
    ("dpq", {"value_type": "uint8"}, {}, "value_type: got 'uint8', expected float32, float16 or int8"),
    ("dpq", {"attributes": {"share_subspaces": True}}, {}, r"values': got I8 \[2, 3, 2\], expected I8 \[1, 3, 2\]"),
    ("ant", {"value_type": "int8"}, {}, "value_type: got 'int8', expected float32 or float16"),
    ("ant", {}, {"row_offsets": np.array([0, 4, 2, 5], np.int32)}, "row_offsets: row 1: got offsets 4 to 2"),
    ("ant", {}, {"row_offsets": np.array([0, 2, 2, 4], np.int32)}, "row_offsets: row 2 .the last.: got 4"),
    ("ant", {}, {"row_offsets": np.array([0, 2, 3, 5], np.int32)}, r"row_offsets: row 1 \(padding\): got 1 entries"),
    ("ant", {}, {"anchor_ids": spoiled(IDS, (4,), 4)}, "anchor_ids: row 2: got anchor id 4"),
    ("ant", {}, {"anchor_ids": spoiled(IDS, (4,), 2)}, "anchor_ids: row 2: got anchor id 2 after 2"),
    ("ant", {}, {"weights": spoiled(np.ones(5, np.float32), (3,), np.nan)}, "weights: row 2, anchor 2: got nan"),
    ("ant", {}, {"weights": spoiled(np.ones(5, np.float32), (3,), 0)}, "weights: row 2, anchor 2: got 0.0"),
    ("ant", {}, {"weight_scale": np.full(1, 2, np.float32)}, "weight_scale: got 2.0, expected 1.0"),
    (
        "ant",
        {},
        {"anchors": spoiled(ANCHORS, (3, 1), np.inf)},
        "anchors: anchor 3, column 1: got inf",
    ),
    ("ant", {}, {"row_offsets": np.zeros(4, np.int64)}, r"'words/row_offsets': got I64 \[4\], expected I32 \[4\]"),
    ("ant", {}, {"anchor_ids": IDS.astype(np.uint16)}, "'words/anchor_ids': got U16 .*, expected U8"),
    ("ant", {}, {"anchor_ids": IDS.view(np.int8)}, "'words/anchor_ids': got I8 .*, expected U8"),
    ("ant", {}, {"weights": np.ones(5, np.float64)}, "'words/weights': got F64 .*, expected F32"),
    ("ant", {"value_type": "float16"}, {}, "'words/anchors': got F32 .*, expected F16"),
    ("ant", {"attributes": {"weight_type": "int8"}}, {}, "'words/weights': got F32 .*, expected I8"),
    ("ant", {"attributes": {"weight_type": "int4"}}, {}, "weight_type: got 'int4'"),
    ("ant", {"attributes": {"weight_type": None}}, {}, "weight_type: got None"),
    ("ant", {"attributes": {"num_anchors": 5}}, {}, r"'words/anchors': got F32 \[4, 2\], expected F32 \[5, 2\]"),
    ("ant", {"attributes": {"num_anchors": 257}}, {}, "'words/anchor_ids': got U8 .*, expected U16"),
    ("ant", {"attributes": {"num_anchors": 2**32 + 1}}, {}, "num_anchors: got 4294967297, expected at most"),
    ("ant", {"attributes": {"num_nonzeros": 13}}, {}, "num_nonzeros: got 13, expected at most 12"),
    ("ant", {"attributes": {"num_nonzeros": 6}}, {}, r"got U8 \[5\], expected U8 \[6\]"),
    ("ant", {"attributes": {"more": 1}}, {}, "attributes: got .*'more'"),
    ("ant", {"num_embeddings": 2**31, "attributes": {"num_nonzeros": 2**31 - 1}}, {}, r"expected I32 \[2147483649\]"),
    ("ant", {"num_embeddings": 2**61, "embedding_dim": 2**61}, {}, "expected at most 9223372036854775807"),
    ("ant", {"embedding_dim": 10**4000}, {}, "embedding_dim: got a number of 13288 bits"),
    ("ant", {"num_embeddings": 2**62}, {}, "expected at most 9223372036854775807"),
    ("tt", {}, {"core_1": spoiled(CORE, (2, 1, 0, 0), np.nan)}, "core_1: row index 2, rank before 1, .* got nan"),
    ("tt", {}, {"core_1": np.ones((3, 2, 2, 2), np.float32)}, r"'words/core_1': got F32 \[3, 2, 2, 2\], expected"),
    ("tt", {}, {"core_1": CORE.astype(np.float16)}, "'words/core_1': got F16 .*, expected F32"),
    ("tt", {}, {"core_1": np.ones(12, np.float32)}, r"'words/core_1': got F32 \[12\], expected F32 \[3, 2, 2, 1\]"),
    ("tt", {}, {"core_2": CORE}, r"unknown keys \['core_2'\]"),
    ("tt", {"value_type": "int8"}, {}, "value_type: got 'int8', expected float32 or float16"),
    ("tt", {"num_embeddings": 7}, {}, "num_embeddings: got 7, expected 5 as in the attributes"),
    (
        "tt",
        {"num_embeddings": 7, "attributes": {"num_embeddings": 7}},
        {},
        "row_shape: got 2x3 with product 6, expected 7",
    ),
    ("tt", {"num_embeddings": 5.0}, {}, "num_embeddings: got 5.0"),
    ("tt", {"embedding_dim": 5}, {}, "embedding_dim: got 5, expected 4 as in the attributes"),
    ("tt", {"attributes": {"row_shape": [2, 2**62, 2**62]}}, {}, "col_shape: got 2 numbers, expected 3"),
    ("tt", {"attributes": {"row_shape": [2**62, 2**62]}}, {}, "row_shape: got 46116860184273"),
    ("tt", {"attributes": {"row_shape": [2, "3"]}}, {}, r"row_shape\[1\]: got '3', expected a positive integer"),
    ("tt", {"attributes": {"row_shape": {"2": 3}}}, {}, "row_shape: got .*, expected a list"),
    ("tt", {"attributes": {"row_shape": [2] * 100_000}}, {}, "row_shape: got 100000 factors, expected 2 to 6"),
    ("tt", {"attributes": {"ranks": [1, 2**40, 1]}}, {}, "would hold .* numbers per row, expected at most 4194304"),
    ("tt", {"attributes": {"ranks": [1, 10**4000, 1]}}, {}, r"ranks\[1\]: got a number of 13288 bits"),
    ("tt", {"attributes": {"ranks": [1, 0, 1]}}, {}, r"ranks\[1\]: got 0, expected a positive integer"),
    ("tt", {"attributes": {"ranks": [1, 2, 2]}}, {}, "ranks: got 1x2x2, expected the last equal to the first"),
    ("tt", {"attributes": {"col_shape": [2**31, 2**31]}}, {}, "expected at most 9223372036854775807"),
]


@pytest.mark.parametrize(("method", "change", "tensors", "message"), CASES)
def test_hostile_files_are_refused_by_name(
    tmp_path: Path, method: str, change: dict[str, Any], tensors: Arrays, message: str
) -> None:
    base, good = METHODS[method]
    path = sealed(changed(base, dict(change)), {**good, **tensors}, tmp_path / "t")
    tracemalloc.start()
    with pytest.raises(BadInputError, match=message) as caught:
        load_tables(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(caught.value).startswith(f"{path}: ")
    assert len(str(caught.value)) < 1000
    assert peak < 16 << 20  # the header causes no allocation


@pytest.mark.parametrize(("entry", "tensors"), METHODS.values())
def test_sealed_file_without_change_is_read(tmp_path: Path, entry: dict[str, Any], tensors: Arrays) -> None:
    """Otherwise the tests above could fail for the wrong reason."""
    path = sealed(entry, tensors, tmp_path / "t")
    assert load_tables(path)["words"].method == entry["method"]
    assert read_manifest(path).tables["words"].shape.value_type == entry["value_type"]


def test_missing_scales_are_named(tmp_path: Path) -> None:
    tensors = {"codes": DPQ_TENSORS["codes"], "values": VALUES}
    with pytest.raises(BadInputError, match=r"missing keys \['value_scales'\]"):
        load_tables(sealed(DPQ, tensors, tmp_path / "t"))


@pytest.mark.parametrize("name", ["core_0", "core_1"])
def test_missing_core_is_named(tmp_path: Path, name: str) -> None:
    tensors = {key: array for key, array in TT_TENSORS.items() if key != name}
    with pytest.raises(BadInputError, match=rf"missing keys \['{name}'\]"):
        load_tables(sealed(TT, tensors, tmp_path / "t"))
