"""Top-k of whole tensors and of blocks: the order of equal values is defined, unlike that of torch.topk."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edge_embed.errors import BadInputError
from edge_embed.ops import ant, dpq, tt
from edge_embed.ops import logits as logits_module
from edge_embed.ops.topk import block_topk, largest

TYPES = st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.float64])


def sorted_stably(logits: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    values, ids = torch.sort(logits, dim=-1, descending=True, stable=True)
    return values[..., :k], ids[..., :k]


@given(st.data())
def test_topk_orders_equal_values_by_lowest_position(data):
    n, shape = data.draw(st.integers(1, 50), "n"), data.draw(st.sampled_from([(), (3,), (2, 2), (0,)]), "shape")
    k, different = data.draw(st.integers(1, n), "k"), data.draw(st.sampled_from([1, 2, 5, 1000]), "values")
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99), "seed"))
    logits = torch.randint(-different, different, (*shape, n), generator=generator).to(data.draw(TYPES, "type"))
    logits *= data.draw(st.sampled_from([1.0, 0.0, -0.0, float("inf")]), "factor")  # -0.0 equals 0.0
    logits = logits.nan_to_num(0.0, float("inf"), -float("inf"))
    got, expected = largest(logits, k), sorted_stably(logits, k)
    assert torch.equal(got.values, expected[0])
    assert torch.equal(got.ids, expected[1])


@pytest.mark.parametrize("k", [1, 3, 6])
def test_topk_of_nan_gives_different_valid_ids(k):
    logits = torch.tensor([[float("nan"), 1, float("nan"), 2, float("inf"), 0], [float("nan")] * 6])
    for row in largest(logits, k).ids.tolist():
        assert len(set(row)) == k
        assert all(0 <= place < 6 for place in row)


@pytest.mark.parametrize("block", [1, 3, 7, 100])
@given(st.data())
def test_block_topk_equals_sort_for_each_block_size(block, data):
    """Covers a k above the number of rows of a block."""
    n, k = 30, data.draw(st.integers(1, 30), "k")
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99), "seed"))
    rows = torch.randint(-1, 2, (n, 4), generator=generator).float()  # products are exact, and many are equal
    hidden = torch.randint(-1, 2, (2, 3, 4), generator=generator).float()
    bias = torch.randint(-1, 2, (n,), generator=generator).float() if data.draw(st.booleans(), "biased") else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logits_module, "_BLOCK_ELEMENTS", 4 * block)
        got = block_topk(hidden, bias, k, lambda ids: rows[ids], n, 4)
    expected = sorted_stably(hidden @ rows.t() + (0 if bias is None else bias), k)
    assert torch.equal(got.values, expected[0])
    assert torch.equal(got.ids, expected[1])


def test_half_precision_is_rounded_before_and_after_bias():
    rows = torch.tensor([[2049.0], [2048.0], [-2047.0]]).repeat(1, 2)
    hidden = torch.tensor([1.0, 0.0]).half()
    bias = torch.tensor([0.0, 1.0, 4096.0]).half()
    got = block_topk(hidden, bias, 3, lambda ids: rows[ids], 3, 2)
    assert got.ids.tolist() == [0, 1, 2]  # 2048, 2048 + 1 = 2048, 2049 = 2048
    assert got.values.dtype == torch.float16


def test_hidden_states_of_another_width_are_refused():
    with pytest.raises(BadInputError, match=r"must be \[\*, 4\], the width of the table: got \[2, 5\]"):
        block_topk(torch.ones(2, 5), None, 1, lambda ids: torch.ones(len(ids), 4), 6, 4)


TABLES = {
    "ant trainable": (ant.TRAINABLE, lambda: (torch.rand(6, 3), torch.randn(3, 4), 1)),
    "dpq frozen": (
        dpq.FROZEN,
        lambda: (torch.randint(0, 256, (6, 1), dtype=torch.uint8), torch.randn(2, 16, 2), None, 2, 1),
    ),
    "dpq frozen int8": (
        dpq.FROZEN,
        lambda: (
            torch.randint(0, 256, (6, 1), dtype=torch.uint8),
            torch.randint(-127, 128, (2, 16, 2), dtype=torch.int8),
            torch.tensor([0.5, 2.0]),
            2,
            1,
        ),
    ),
    "dpq trainable": (
        dpq.TRAINABLE,
        lambda: (torch.randn(6, 4), torch.randn(2, 5, 2), torch.randn(2, 5, 2), None, None, "sx", 1),
    ),
    "tt": (tt.TT, lambda: ([torch.randn(2, 1, 2, 3), torch.randn(3, 3, 2, 1)], 6, 1)),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.slow
def test_topk_operators_pass_checks_of_torch(name, biased):
    """Torch checks the schema, fake tensors and dynamic tracing."""
    form, make = TABLES[name]
    bias = torch.randn(6) if biased else None
    for shape in ((4,), (2, 3, 4), (0, 4)):
        torch.library.opcheck(form.topk, (torch.randn(shape), bias, 3, *make()))


@pytest.mark.parametrize("name", TABLES)
def test_topk_operators_give_largest_logits(name):
    form, make = TABLES[name]
    hidden, bias, table = torch.randn(5, 4), torch.randn(6), make()
    expected = sorted_stably(form.logits(hidden, *table) + bias, 4)
    for got in (form.topk(hidden, bias, 4, *table), form("topk", hidden, bias, 4, *table)):
        assert torch.equal(got[0], expected[0])
        assert torch.equal(got[1], expected[1])
