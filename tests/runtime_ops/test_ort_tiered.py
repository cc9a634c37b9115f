"""Nodes of tiered tables, without a body, so that a session requires the kernel."""

from dataclasses import replace

import numpy as np
import pytest
from ort_nodes import open_session

from edge_embed.exporters.onnx.nodes.tiered import TIERED
from edge_embed.packed.tiered import PackedTiered

from ..exporters.onnx.bodies import dpq, scaled
from .ort_packed import Packed, assert_row_is_refused, assert_uses_match


def tiered(sizes: tuple[int, int, int], groups=(5, 1), dtype="float32", sorted_by_tier=False, padding_idx=None):
    """Return tiers of 20 columns: rows of integers, and two of groups with K = 5."""
    integers = dpq(n=sizes[0], codes=16, groups=20, width=1, shared=True, dtype=dtype)
    values = np.arange(-8, 8).reshape(1, 16, 1).astype(dtype)
    tiers = [scaled(replace(integers, values=values), unused=0)]
    tiers += [dpq(n=n, groups=g, width=20 // g, dtype=dtype, seed=g) for n, g in zip(sizes[1:], groups, strict=True)]
    tier_of = np.repeat(np.arange(3), sizes)
    order = None if sorted_by_tier else np.random.default_rng(0).permutation(tier_of)
    return PackedTiered.from_tiers(tuple(tiers), order, padding_idx)


CASES = {
    "mapped": tiered((30, 250, 20)),
    "padding": tiered((20, 200, 80), padding_idx=40),
    "float16": tiered((20, 100, 180), (10, 20), dtype="float16"),
    "sorted by tier": tiered((30, 40, 230), sorted_by_tier=True, padding_idx=31),
}
OFFSETS = np.array([0, 3, 3, 40, 299, 300])


@pytest.mark.parametrize("case", CASES)
def test_tiered_uses_match_packed_form(case):
    assert_uses_match(Packed(TIERED.prefix, CASES[case]), OFFSETS)


def changed(tensor: str, at: tuple[int, int], value: int) -> dict[str, np.ndarray]:
    """Return a tensor of a table of three tiers with one other element."""
    tensors = CASES["padding"].tensors()
    array = tensors[tensor].copy()
    array[at] = value
    return {tensor: array}


@pytest.mark.parametrize(
    "damage",
    [
        changed("tier_map", (1, 5), 0b11),
        *(changed("tier_ranks", (1, slice(None)), rank) for rank in (300, 2**31 - 1, -(2**31))),
    ],
)
def test_tiered_row_with_wrong_tier_or_rank_is_refused(damage):
    table = Packed(TIERED.prefix, CASES["padding"], **damage)
    wrong = 256 if "tier_ranks" in damage else 256 + 20
    assert_row_is_refused(table, wrong, "the tier of a row does not exist or has no row at its place")


@pytest.mark.parametrize(
    ("changed", "attributes", "message"),
    [
        ({"tier_map": np.zeros((1, 64), np.uint8)}, {}, r"of shape \[1, 64\] .*expected \[2, 64\] and \[2, 3"),
        ({"tier_ranks": np.zeros((2, 2), np.int32)}, {}, r"tier_ranks of shape \[2, 2\], expected"),
        ({"tier_ranks": np.zeros((2, 3), np.int64)}, {}, "got tier_ranks of type int64, expected int32"),
        ({"tier_map": np.zeros((0, 0), np.uint8)}, {}, r"got tier_map of shape \[0, 0\]"),
        ({"tier_1_codes": np.zeros((200, 9), np.uint8)}, {}, r"tier 1: got codes of shape \[200, 9\]"),
        ({"tier_0_row_scales": np.zeros(257, np.float32)}, {}, r"row_scales of shape \[257\]"),
        ({"tier_2_values": np.zeros((1, 5, 19), np.float32)}, {}, "tiers must have equal columns"),
        ({}, {"num_embeddings": 299}, "num_embeddings rows in all"),
        ({}, {"bits_1": 4}, r"got codes of shape \[200, 2\], expected \[rows, 3\]"),
        ({}, {"num_groups_2": None}, "got no integer attribute num_groups_2"),
        ({}, {"padding_idx": 300}, "padding_idx must be -1"),
    ],
)
def test_tiered_table_that_disagrees_is_refused_at_load(changed, attributes, message):
    table = Packed(TIERED.prefix, CASES["padding"], **changed)
    with pytest.raises(Exception, match=f"TieredEmbedding[:,] .*{message}"):
        open_session(table.model(**attributes))
