"""Cores of other libraries give those libraries' rows, by their own formulas written out in numpy."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_embed.errors import BadInputError
from edge_embed.layers.core_orders import own_cores
from edge_embed.layers.tr import TREmbedding
from edge_embed.layers.tt import TTEmbedding

Arrays = list[np.ndarray]


def digits(number: int, sizes: Sequence[int], first_is_least: bool) -> list[int]:
    """Return the digits of a number in mixed radix, by division with remainder."""
    order = list(range(len(sizes))) if first_is_least else list(range(len(sizes)))[::-1]
    found = [0] * len(sizes)
    for k in order:
        number, found[k] = divmod(number, sizes[k])
    return found


def entry(cores: Arrays, rows: Sequence[int], columns: Sequence[int]) -> float:
    """Compute eq. (1): trace(G_1[:, i_1, j_1, :] ... G_N[:, i_N, j_N, :]) of cores [R, I, J, R']."""
    product = np.eye(cores[0].shape[0])
    for core, i, j in zip(cores, rows, columns, strict=True):
        product = product @ core[:, i, j, :]
    return float(np.trace(product))


def by_entries(cores: Arrays, rows_least: bool, columns_least: bool) -> np.ndarray:
    """Return the whole matrix."""
    row_shape, col_shape = [core.shape[1] for core in cores], [core.shape[2] for core in cores]
    table = np.empty((math.prod(row_shape), math.prod(col_shape)))
    for i in range(len(table)):
        for j in range(table.shape[1]):
            table[i, j] = entry(cores, digits(i, row_shape, rows_least), digits(j, col_shape, columns_least))
    return table


def t3nsor_full(cores: Arrays) -> np.ndarray:
    """Compute `TensorTrain.full`: products of unfolded cores, then all axes of rows before those of columns."""
    result = cores[0]
    for core in cores[1:]:
        result = result.reshape(-1, core.shape[0]) @ core.reshape(core.shape[0], -1)
    sizes = [size for core in cores for size in core.shape[1:3]]
    axes = [*range(0, len(sizes), 2), *range(1, len(sizes), 2)]
    rows = math.prod(core.shape[1] for core in cores)
    return result.reshape(sizes).transpose(axes).reshape(rows, -1)


def t3nsor_rows(cores: Arrays) -> np.ndarray:
    """Compute `ind2sub` with cumulative products of the first sizes, then `gather_rows`."""
    sizes = [core.shape[1] for core in cores]
    strides = np.concatenate(([1], np.cumprod(sizes[:-1])))
    found = []
    for number in range(math.prod(sizes)):
        state = np.ones((1, 1))
        for core, size, stride in zip(cores, sizes, strides, strict=True):
            slice_ = core[:, number // stride % size]  # [R, J, R']
            state = (state.reshape(-1, len(slice_)) @ slice_.reshape(len(slice_), -1)).reshape(-1, core.shape[3])
        found.append(state.reshape(-1))
    return np.array(found)


def block_tt(cores: Arrays) -> np.ndarray:
    """Compute tltorch's `BlockTT.to_tensor`: a(i)(j)b, b(k)(l)c -> a(ik)(jl)c, axes merged after each step."""
    result = cores[0]
    for core in cores[1:]:
        product = np.einsum("aijb,bklc->aikjlc", result, core)
        a, i, k, j, m, c = product.shape
        result = product.reshape(a, i * k, j * m, c)
    return result[0, :, :, 0]


def fbtt(cores: Arrays) -> np.ndarray:
    """Compute the kernel's index: number / L_k % I_k, L_k = product of the later sizes; core rows are [R, J, R']."""
    sizes = [core.shape[1] for core in cores]
    found = []
    for number in range(math.prod(sizes)):
        state, behind = np.ones((1, 1)), math.prod(sizes)
        for core, size in zip(cores, sizes, strict=True):
            behind //= size
            rank, _, columns, after = core.shape
            stored = core.transpose(1, 0, 2, 3).reshape(size, -1)[number // behind % size]
            state = (state.reshape(-1, rank) @ stored.reshape(rank, columns * after)).reshape(-1, after)
        found.append(state.reshape(-1))
    return np.array(found)


def hetu(cores: Arrays) -> np.ndarray:
    """Take remainders from the first table on and leave the rest to the last one; tables are [I, R J R']."""
    sizes = [core.shape[1] for core in cores]
    found = []
    for number in range(math.prod(sizes)):
        state, rest = np.ones((1, 1)), number
        for core, size in zip(cores, sizes, strict=True):
            rest, digit = divmod(rest, size)
            rank, _, columns, after = core.shape
            stored = core.transpose(1, 0, 2, 3).reshape(size, -1)[digit]
            state = (state.reshape(-1, rank) @ stored.reshape(rank, columns * after)).reshape(-1, after)
        found.append(state.reshape(-1))
    return np.array(found)


FORMULAS = {
    "edge-embed": lambda cores: by_entries(cores, False, False),
    "paper": lambda cores: by_entries(cores, True, True),
    "tt-pytorch": t3nsor_full,
    "tt-pytorch-rows": t3nsor_rows,
    "tltorch": block_tt,
    "fbtt": fbtt,
    "hetu": hetu,
}
FLAT, ORDERED = ("fbtt", "hetu"), ("tt-pytorch-rows", "hetu")


def held(cores: Arrays, order: str) -> list[torch.Tensor]:
    """Return cores [R, I, J, R'] in the library's layout."""
    if order == "edge-embed":
        cores = [core.transpose(1, 0, 2, 3) for core in cores]
    if order in FLAT:
        cores = [core.transpose(1, 0, 2, 3).reshape(core.shape[1], -1) for core in cores]
    return [torch.from_numpy(np.ascontiguousarray(core)) for core in cores]


def drawn(row_shape: Sequence[int], col_shape: Sequence[int], ranks: Sequence[int]) -> Arrays:
    random = np.random.default_rng(0)
    return [
        random.standard_normal(size) for size in zip(ranks, row_shape, col_shape, ranks[1:], strict=False)
    ]  # fmt: skip


shapes = st.integers(2, 4).flatmap(
    lambda count: st.tuples(
        *(st.lists(st.integers(1, 3), min_size=count - less, max_size=count - less) for less in (0, 0, 1))
    )
)


@settings(max_examples=15)
@pytest.mark.parametrize("order", FORMULAS)
@given(shape=shapes)
def test_layer_from_cores_gives_rows_of_library(order, shape):
    row_shape, col_shape, ranks = shape
    cores = drawn(row_shape, col_shape, [1, *ranks, 1])
    more = {"col_shape": col_shape} if order in FLAT else {}
    layer = TTEmbedding.from_cores(held(cores, order), math.prod(row_shape), order=order, **more).eval()
    table = FORMULAS[order](cores)
    ids = torch.arange(len(table))
    np.testing.assert_allclose(layer(ids).detach().numpy(), table, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(layer.float().freeze().to_packed().rows_float64(ids), table, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", ["edge-embed", "paper", "tt-pytorch", "tltorch"])
def test_layer_with_fewer_rows_than_cores_gives_first_ones(order):
    cores = drawn([3, 4, 2], [2, 1, 3], [1, 2, 3, 1])
    layer = TTEmbedding.from_cores(held(cores, order), 21, 0, order=order).eval()
    table = FORMULAS[order](cores)[:21]
    table[0] = 0
    np.testing.assert_allclose(layer(torch.arange(21)).detach().numpy(), table, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("order", "least"), [("edge-embed", False), ("paper", True), ("tt-pytorch", False)])
def test_layer_from_ring_cores_gives_trace(order, least):
    cores = drawn([3, 2, 2], [2, 2, 3], [3, 2, 4, 3])
    layer = TREmbedding.from_cores(held(cores, order), 12, order=order).eval()
    table = by_entries(cores, least, least)
    np.testing.assert_allclose(layer(torch.arange(12)).detach().numpy(), table, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("order", FLAT)
@pytest.mark.parametrize("ranks", [[2, 3, 2], [1, 3, 1]])
def test_rings_of_libraries_with_trains_only_are_refused(order, ranks):
    cores = held(drawn([5, 4], [3, 2], ranks), order)  # ranks 2, 3, 2 could be a train of rank 6
    with pytest.raises(BadInputError, match=f"order: got '{order}' for a tensor ring.* use TTEmbedding.from_cores"):
        TREmbedding.from_cores(cores, 20, order=order, col_shape=[3, 2])


def test_cores_of_two_tables_are_refused():
    cores = [core.expand(2, -1, -1) for core in held(drawn([3, 4], [2, 3], [1, 2, 1]), "fbtt")]
    with pytest.raises(BadInputError, match=r"expected those of one table with order 'fbtt'; give \[core\[t\] for"):
        TTEmbedding.from_cores(cores, 12, order="fbtt", col_shape=[2, 3])


@pytest.mark.parametrize("order", ["tt-pytorch", "hetu"])
def test_row_order_uses_ids_of_library(order):
    cores = drawn([3, 4, 2], [2, 1, 3], [1, 2, 3, 1])
    more = {"col_shape": [2, 1, 3]} if order in FLAT else {}
    row_order = torch.randperm(24)
    layer = TTEmbedding.from_cores(held(cores, order), 24, row_order=row_order, order=order, **more).eval()
    table = FORMULAS[order](cores)[row_order]
    np.testing.assert_allclose(layer(torch.arange(24)).detach().numpy(), table, rtol=1e-9, atol=1e-12)


def test_cores_of_one_table_may_have_leading_axis():
    cores = held(drawn([3, 4], [2, 3], [1, 2, 1]), "fbtt")
    stacked = own_cores([core.unsqueeze(0) for core in cores], "fbtt", [2, 3])
    for one, other in zip(stacked, own_cores(cores, "fbtt", [2, 3]), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("order", "cores", "rows", "more", "message"),
    [
        (
            "hetu",
            "hetu",
            23,
            {"col_shape": [2, 1, 3]},
            "got 23 with order 'hetu'.*: give 24, and look up the first 23",
        ),
        ("tt-pytorch-rows", "paper", 20, {}, "expected 24, the product of I, as its ids are spread"),
        ("C", "paper", 24, {}, "order: got 'C', expected one of edge-embed, paper, tt-pytorch"),
        ("tltorh", "paper", 24, {}, r"got 'tltorh', did you mean 'tltorch'\? expected one of"),
        (
            "fbtt",
            "fbtt",
            24,
            {},
            "col_shape: got None with order 'fbtt', expected J_1 ... J_N, which its cores do not contain",
        ),
        ("paper", "paper", 24, {"col_shape": [2, 1, 3]}, "col_shape: got .* expected none: its cores contain it"),
        ("fbtt", "fbtt", 24, {"col_shape": [2, 3]}, "col_shape: got 2 numbers for 3 cores"),
        ("fbtt", "fbtt", 24, {"col_shape": [5, 1, 3]}, "core 0 has 4 numbers per row, and R J is 1 x 5"),
        (
            "fbtt",
            "paper",
            24,
            {"col_shape": [2, 1, 3]},
            r"cores: got shapes .* expected \[I, R J R'\] each with order 'fbtt'",
        ),
        ("paper", "fbtt", 24, {}, r"cores: got shapes .* expected \[R, I, J, R'\] each with order 'paper'"),
        ("edge-embed", "paper", 24, {}, "R_0: got 3, expected 1"),
    ],
)
def test_cores_that_do_not_fit_order_are_refused(order, cores, rows, more, message):
    given_ = held(drawn([3, 4, 2], [2, 1, 3], [1, 2, 3, 1]), cores)
    with pytest.raises(BadInputError, match=message):
        TTEmbedding.from_cores(given_, rows, order=order, **more)


def test_padding_row_moved_by_order_is_refused():
    cores = held(drawn([3, 4, 2], [2, 1, 3], [1, 2, 3, 1]), "hetu")
    with pytest.raises(BadInputError, match="row_order"):
        TTEmbedding.from_cores(cores, 24, 1, order="hetu", col_shape=[2, 1, 3])
