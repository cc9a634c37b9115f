"""Invalid transforms, tensors and shapes of ANT are refused."""

from typing import Any

import numpy as np
import pytest

from edge_embed.errors import BadInputError
from edge_embed.packed import ANTShape, PackedANT

from .ant_tables import table

ID_TYPES = ["i1", "i8", "u2", "u8", ">i4"]


@pytest.mark.parametrize(
    ("entry", "weight_type", "message"),
    [
        (
            -0.5,
            "float32",
            r"transform: row 2, anchor 1: got -0.5, .* not negative; clamp it: transform.clamp_",
        ),
        (np.nan, "int8", "row 2, anchor 1: got nan, expected a finite number .* did the training diverge"),
        (np.inf, "float32", "row 2, anchor 1: got inf, expected a finite number"),
        (1e5, "float16", "row 2, anchor 1: got 100000, .* use a weight_type other than float16, or smaller weights"),
        (1e39, "float32", "row 2, anchor 1: got 1e[+]39, .* use a weight_type other than float32"),
        (1e39, "int8", "row 2, anchor 1: got 1e[+]39"),
    ],
)
def test_transforms_that_cannot_be_stored_are_refused(entry: float, weight_type: str, message: str) -> None:
    transform = np.ones((4, 3))
    transform[2, 1] = entry
    with pytest.raises(BadInputError, match=message):
        PackedANT.from_dense(transform, np.ones((3, 2), np.float32), 0, weight_type)


def test_infinity_in_half_precision_transform_is_refused() -> None:
    with pytest.raises(BadInputError, match="row 0, anchor 0: got inf"):
        PackedANT.from_dense(np.full((1, 1), np.inf, np.float16), np.ones((1, 2), np.float32))


@pytest.mark.parametrize(
    ("transform", "anchors", "options", "message"),
    [
        (np.ones(3), np.ones((3, 2)), {}, r"transform \[3\], anchors \[3, 2\]: expected \[rows, anchors\]"),
        (np.ones((2, 3)), np.ones((4, 2)), {}, r"transform \[2, 3\], anchors \[4, 2\]"),
        (np.ones((2, 3), int), np.ones((3, 2), np.float32), {}, "transform: got int64"),
        (np.ones((0, 3)), np.ones((3, 2), np.float32), {}, r"got float64 \[0, 3\], expected floats, not empty"),
        (np.ones((2, 3)), np.ones((3, 2)), {}, r"anchors: got float64 \[3, 2\], expected float32 or float16"),
        (np.ones((2, 3)), np.ones((3, 0), np.float32), {}, "embedding_dim: got 0"),
        (np.ones((2, 3)), np.full((3, 2), np.nan, "f4"), {}, "anchors: anchor 0, column 0: got nan"),
        (np.ones((2, 3)), np.ones((3, 2), "f4"), {"padding_idx": 2}, "padding_idx: got 2, expected none or 0 to 1"),
        (np.ones((2, 3)), np.ones((3, 2), "f4"), {"weight_type": "int4"}, "weight_type: got 'int4', .* or int8"),
    ],
)
def test_invalid_transforms_are_refused(transform: Any, anchors: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        PackedANT.from_dense(transform, anchors, **options)


OFFSETS, IDS = np.array([0, 2, 2, 5], np.int32), np.array([0, 3, 1, 2, 3], np.uint8)


GOOD: dict[str, Any] = {
    "row_offsets": OFFSETS,
    "anchor_ids": IDS,
    "weights": np.ones(5, np.float32),
    "weight_scale": np.ones(1, np.float32),
    "anchors": np.ones((4, 2), np.float32),
}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "offsets int64": ({"row_offsets": OFFSETS.astype("i8")}, r"row_offsets: got int64 \[4\], expected int32 \[4\]"),
    "offsets big-endian": ({"row_offsets": OFFSETS.astype(">i4")}, "row_offsets: got >i4"),
    "offsets empty": ({"row_offsets": OFFSETS[:0]}, "num_embeddings: got -1"),
    "no rows": ({"row_offsets": OFFSETS[:1]}, "num_embeddings: got 0"),
    "offsets of two dimensions": ({"row_offsets": OFFSETS[:, None]}, r"row_offsets: got shape \[4, 1\]"),
    "first offset": ({"row_offsets": OFFSETS + np.int32(1)}, "row_offsets: row 0: got offset 1, expected 0"),
    "negative offset": (
        {"row_offsets": np.array([0, -1, 2, 5], "i4")},
        "row 0: got offsets 0 to -1, expected offsets that do not decrease",
    ),
    "offset back": (
        {"row_offsets": np.array([0, 4, 2, 5], "i4")},
        "row 1: got offsets 4 to 2, expected offsets that do not decrease",
    ),
    "offset far": ({"row_offsets": np.array([0, 2, 9, 5], "i4")}, "row 2: got offsets 9 to 5"),
    "last offset low": (
        {"row_offsets": np.array([0, 2, 2, 4], "i4")},
        r"row 2 .the last.: got 4 as its end",
    ),
    "last offset high": ({"row_offsets": np.array([0, 2, 2, 6], "i4")}, r"row 2 .the last.: got 6 as its end"),
    "ids uint16": ({"anchor_ids": IDS.astype("u2")}, r"anchor_ids: got uint16 \[5\], expected uint8 \[5\]"),
    "ids too few": ({"anchor_ids": IDS[:4]}, r"anchor_ids: got uint8 \[4\], expected uint8 \[5\]"),
    "id of no anchor": (
        {"anchor_ids": np.array([0, 4, 1, 2, 3], "u1")},
        "row 0: got anchor id 4 in entry 1",
    ),
    "id twice": ({"anchor_ids": np.array([0, 3, 1, 1, 3], "u1")}, "row 2: got anchor id 1 after 1 in entry 3"),
    "ids fall": ({"anchor_ids": np.array([0, 3, 1, 3, 2], "u1")}, "row 2: got anchor id 2 after 3 in entry 4"),
    "weights float64": ({"weights": np.ones(5)}, "weight_type: got 'float64', expected float32, float16 or int8"),
    "weights of two dimensions": ({"weights": np.ones((5, 1), "f4")}, r"weights: got shape \[5, 1\]"),
    "weight zero": ({"weights": np.array([1, 1, 0, 1, 1], "f4")}, "weights: row 2, anchor 1: got 0.0, expected a posi"),
    "weight negative": ({"weights": np.array([1, -1, 1, 1, 1], "i1")}, "weights: row 0, anchor 3: got -1"),
    "weight nan": ({"weights": np.array([1, 1, 1, 1, np.nan], "f2")}, "weights: row 2, anchor 3: got nan"),
    "weight infinite": ({"weights": np.array([1, 1, 1, np.inf, 1], "f4")}, "weights: row 2, anchor 2: got inf"),
    "scale of floats": (
        {"weight_scale": np.array([2], "f4")},
        "weight_scale: got 2.0, expected 1.0",
    ),
    "two scales": ({"weight_scale": np.ones(2, "f4")}, r"weight_scale: got float32 \[2\], expected float32 \[1\]"),
    "scale zero": (
        {"weights": np.ones(5, "i1"), "weight_scale": np.zeros(1, "f4")},
        "weight_scale: got 0.0",
    ),
    "scale nan": ({"weights": np.ones(5, "i1"), "weight_scale": np.full(1, np.nan, "f4")}, "weight_scale: got nan"),
    "anchors float64": ({"anchors": np.ones((4, 2))}, r"anchors: got float64 \[4, 2\], expected float32 or float16"),
    "anchors flat": ({"anchors": np.ones(4, "f4")}, r"anchors: got float32 \[4\]"),
    "anchor infinite": ({"anchors": np.array([[1, 1]] * 3 + [[1, -np.inf]], "f4")}, "anchor 3, column 1: got -inf"),
    "no anchors": ({"anchors": np.ones((0, 2), "f4")}, "num_anchors: got 0"),
    "padding row with entries": ({"padding_idx": 2}, r"row_offsets: row 2 \(padding\): got 3 entries, expected none"),
    "padding row beyond": ({"padding_idx": 3}, "padding_idx: got 3, expected none or 0 to 2"),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_tables_are_refused(case: str) -> None:
    change, message = BAD[case]
    PackedANT(**GOOD)
    with pytest.raises(BadInputError, match=message):
        PackedANT(**{**GOOD, **change})


def test_entries_beyond_one_block_are_checked_without_seams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Descending ids across the end of a block are found, and the right row is named."""
    monkeypatch.setattr("edge_embed.packed.ant_csr.BLOCK_NUMBERS", 3)
    packed = table(n=40, anchors=9)
    for entry in range(1, len(packed.weights)):
        ids = packed.anchor_ids.copy()
        ids[entry] = ids[entry - 1]
        row = int(np.flatnonzero(packed.row_offsets <= entry)[-1])
        begins = packed.row_offsets[row] == entry
        tensors = {**packed.tensors(), "anchor_ids": ids}
        after = entry + 1 < packed.row_offsets[row + 1] and ids[entry + 1] <= ids[entry]
        if begins and not after:
            PackedANT(**tensors)
        else:
            with pytest.raises(BadInputError, match=f"anchor_ids: row {row}: "):
                PackedANT(**tensors)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 6, 5, 3), "num_embeddings: got 0, expected a positive integer"),
        ((10, 6.0, 5, 3), "embedding_dim: got 6.0"),
        ((10, 6, True, 3), "num_anchors: got True"),
        ((10, 6, 2**32 + 1, 3), "num_anchors: got 4294967297, expected at most 4294967296"),
        ((10, 6, 5, -1), "num_nonzeros: got -1, expected zero or a positive integer"),
        ((10, 6, 5, 51), "num_nonzeros: got 51, expected at most 50"),
        ((2**60, 1, 2**31, 2**31), "num_nonzeros: got 2147483648, expected at most 2147483647"),
        ((2**62, 6, 5, 3), "expected at most 9223372036854775807"),
        ((10, 2**61, 5, 3), "expected at most 9223372036854775807"),
        ((10, 10**5000, 5, 3), "embedding_dim: got a number of 16610 bits"),
        ((10, 6, 5, 3, "uint8"), "weight_type: got 'uint8'"),
        ((10, 6, 5, 3, None), "weight_type: got None"),
        ((10, 6, 5, 3, "int8", "int8"), "value_type: got 'int8', expected float32 or float16"),
    ],
)
def test_impossible_shapes_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        ANTShape(*arguments)
