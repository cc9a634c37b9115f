"""Torch functions of TT: they agree with the numpy form, and the operators pass the checks of torch."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.ops import tt
from edge_embed.packed.tt import PackedTT

EPS = {"float32": 2.0**-23, "float16": 2.0**-10}
SHAPES = [(), (1,), (0,), (3,), (2, 3), (0, 2), (1, 2, 1)]


def assert_close_to_oracle(rows: torch.Tensor, packed: PackedTT, ids: np.ndarray) -> None:
    """Assert an error of at most 4 eps of the sum of absolute terms plus half of the smallest number."""
    value_type = str(packed.cores[0].dtype)
    tolerance = 4 * EPS[value_type] * packed.magnitudes(ids) + np.finfo(value_type).smallest_subnormal / 2
    assert rows.shape == packed.rows(ids).shape
    assert (np.abs(rows.double().numpy() - packed.rows_float64(ids)) <= tolerance).all()


@st.composite
def tables(draw: st.DrawFn) -> PackedTT:
    """Draw trains and rings of 2 to 6 cores, with and without unused rows."""
    count = draw(st.integers(2, 6))
    rows = [draw(st.integers(1, 4)) for _ in range(count)]
    columns = [draw(st.integers(1, 3)) for _ in range(count)]
    inner = [draw(st.integers(1, 5)) for _ in range(count - 1)]
    ring = draw(st.sampled_from([1, 1, 2, 3]))
    ranks = [ring, *inner, ring]
    random = np.random.default_rng(draw(st.integers(0, 2**31)))
    value_type = draw(st.sampled_from(list(EPS)))
    shapes = zip(rows, ranks, columns, ranks[1:], strict=False)
    cores = tuple(random.standard_normal(shape).astype(value_type) for shape in shapes)
    used = draw(st.integers(1, math.prod(rows)))
    return PackedTT(cores, used, draw(st.none() | st.integers(0, used - 1)))


def arguments(packed: PackedTT) -> tuple:
    return [torch.from_numpy(core) for core in packed.cores], packed.num_embeddings, packed.padding_idx


@given(tables(), st.sampled_from(SHAPES), st.booleans(), st.integers(0, 2**31))
def test_rows_match_packed_form(table, shape, narrow, seed):
    ids = np.random.default_rng(seed).integers(0, table.num_embeddings, shape).astype(np.int32 if narrow else np.int64)
    given_ids = torch.from_numpy(np.asarray(ids))
    rows = tt.rows(given_ids, *arguments(table))
    assert_close_to_oracle(rows, table, ids)
    assert torch.ops.edge_embed.tt_rows(given_ids, *arguments(table)).equal(rows)


@given(tables(), st.data())
def test_block_of_rows_has_rows_and_gradients_of_its_ids(table, data):
    begin = data.draw(st.integers(0, table.num_embeddings - 1))
    end = data.draw(st.integers(begin + 1, table.num_embeddings))
    ids = np.arange(begin, end)
    cores = arguments(table)[0]
    assert_close_to_oracle(tt.block(begin, end, cores), PackedTT(table.cores, table.num_embeddings), ids)
    learned = []
    for rows_of in (lambda wide: tt.block(begin, end, wide), lambda wide: tt.chain(torch.from_numpy(ids), wide)):
        wide = [core.double().requires_grad_() for core in cores]
        rows = rows_of(wide)
        (rows * torch.arange(1.0, 1 + rows.numel()).reshape(rows.shape)).sum().backward()
        learned.append([core.grad for core in wide])
    torch.testing.assert_close(*learned, rtol=1e-12, atol=1e-9)  # sums of up to a few thousand terms of a few hundred


def test_rows_follow_equation_1_with_first_index_most_significant():
    """Compares every element of a small table."""
    random = np.random.default_rng(3)
    cores = [random.standard_normal(shape) for shape in [(2, 1, 2, 3), (3, 3, 1, 2), (2, 2, 3, 1)]]
    rows = tt.rows(torch.arange(12), [torch.from_numpy(core) for core in cores], 12, None)
    for i1, i2, i3, j1, j2, j3 in np.ndindex(2, 3, 2, 2, 1, 3):
        element = cores[0][i1, :, j1, :] @ cores[1][i2, :, j2, :] @ cores[2][i3, :, j3, :]
        assert rows[(i1 * 3 + i2) * 2 + i3, (j1 + j2) * 3 + j3].item() == pytest.approx(element.item(), rel=1e-12)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=6))
def test_digits_equal_unravel_index_of_numpy(shape):
    ids = np.arange(math.prod(shape))
    expected = np.unravel_index(ids, shape)
    for got, wanted in zip(tt.digits(torch.from_numpy(ids), shape), expected, strict=True):
        assert got.tolist() == wanted.tolist()


@pytest.mark.parametrize("rank", [16, 192])
@pytest.mark.parametrize("value_type", EPS)
def test_long_sums_of_one_sign_stay_within_tolerance(rank, value_type):
    """Covers the largest rank of the paper; no terms cancel."""
    random = np.random.default_rng(rank)
    shapes = [(4, 1, 2, rank), (4, rank, 2, rank), (4, rank, 4, 1)]
    cores = tuple(((0.5 + random.random(shape)) / math.sqrt(rank)).astype(value_type) for shape in shapes)
    packed, ids = PackedTT(cores, 60), np.arange(60)
    assert_close_to_oracle(tt.rows(torch.from_numpy(ids), *arguments(packed)), packed, ids)


def test_partial_products_of_float16_cores_may_exceed_float16():
    cores = [
        torch.full(shape, value).half()
        for shape, value in [((2, 1, 2, 3), 256.0), ((2, 3, 1, 2), 256.0), ((2, 2, 2, 1), 2**-14)]
    ]
    assert tt.rows(torch.tensor([7]), cores, 8, None).tolist() == [[6 * 256 * 256 * 2**-14] * 4]


@pytest.mark.parametrize("bad", [-1, 20, 23, 24, 2**40])
def test_operator_refuses_ids_of_unused_rows(bad):
    cores = [torch.randn(4, 1, 2, 2), torch.randn(6, 2, 3, 1)]
    with pytest.raises(IdOutOfRangeError, match=f"id {bad} is out of range: expected 0 to 19"):
        tt.TT.rows(torch.tensor([0, bad]), cores, 20, None)


@pytest.mark.parametrize("ids", [torch.tensor(3), torch.tensor([[0, 5], [1, 1]], dtype=torch.int32),
                                 torch.zeros(0, 2, dtype=torch.int64)], ids=["rank0", "int32", "empty"])  # fmt: skip
@pytest.mark.parametrize("padding_idx", [None, 1])
def test_operator_passes_checks_of_torch(ids, padding_idx):
    """Torch checks the schema, fake tensors and dynamic tracing."""
    cores = [torch.randn(2, 1, 2, 3), torch.randn(2, 3, 1, 2), torch.randn(2, 2, 2, 1)]
    torch.library.opcheck(tt.TT.rows, (ids, cores, 7, padding_idx))


@pytest.mark.parametrize("use", ["bag", "logits"])
def test_bags_and_logits_match_rows(use):
    cores = [torch.randn(2, 1, 2, 3), torch.randn(3, 3, 2, 1)]
    rows = tt.rows(torch.arange(5), cores, 5, 1)
    given_to = {
        "bag": (torch.tensor([0, 1, 4, 2]), torch.tensor([0, 2, 2, 4]), None, "sum"),
        "logits": (torch.ones(2, 4),),
    }
    expected = {"bag": torch.stack([rows[0], torch.zeros(4), rows[4] + rows[2]]), "logits": rows.sum(1).expand(2, 5)}
    torch.testing.assert_close(tt.TT.uses[use](*given_to[use], cores, 5, 1), expected[use])


def test_weights_of_float64_or_nan_are_refused():
    cores = [torch.randn(2, 1, 2, 3), torch.randn(3, 3, 2, 1)]
    with pytest.raises(BadInputError, match=r"float64.*call \.float\(\)"):
        tt.pack([core.double() for core in cores], 5, None)
    cores[1][2, 0, 1, 0] = float("nan")
    with pytest.raises(BadInputError, match="core_1"):
        tt.pack(cores, 5, None)
