"""Torch functions of DPQ: they agree with the numpy form, and the operators pass the checks of torch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.ops import dpq
from edge_embed.ops.dpq_distance import METRICS, NORM_EPS
from edge_embed.packed import bits as bit_packing
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_values import quantized


@pytest.mark.parametrize("groups", [1, 2, 3, 7, 8, 9, 17])
@pytest.mark.parametrize("bits", range(1, 17))
def test_unpack_returns_codes_packed_by_numpy(bits, groups):
    codes = np.random.default_rng(bits).integers(0, 1 << bits, (30, groups))
    codes[0], codes[1] = 0, (1 << bits) - 1
    packed = bit_packing.pack(codes, bits)
    assert dpq.unpack(torch.from_numpy(packed), bits, groups).numpy().tolist() == codes.tolist()
    packed[:, -1] |= 0xFF << (8 - -bits * groups % 8) & 0xFF  # spare bits have no meaning
    assert dpq.unpack(torch.from_numpy(packed), bits, groups).numpy().tolist() == codes.tolist()


def test_unpack_of_no_rows_has_right_shape():
    assert dpq.unpack(torch.zeros(0, 3, dtype=torch.uint8), 4, 5).shape == (0, 5)


@st.composite
def tables(draw: st.DrawFn) -> PackedDPQ:
    num_codes = draw(st.sampled_from([2, 3, 4, 5, 16, 17, 255, 256, 257, 1000]))
    groups, width = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    rows = draw(st.integers(1, 20))
    random = np.random.default_rng(draw(st.integers(0, 2**31)))
    books = 1 if draw(st.booleans()) else groups
    values = random.standard_normal((books, num_codes, width)).astype(np.float32)
    padding = draw(st.none() | st.integers(0, rows - 1))
    stored, scales = quantized(values) if draw(st.booleans()) else (values, None)
    return PackedDPQ.from_codes(random.integers(0, num_codes, (rows, groups)), stored, padding, scales)


def tensors_of(table: PackedDPQ) -> tuple:
    scales = None if table.value_scales is None else torch.from_numpy(table.value_scales)
    return torch.from_numpy(table.codes), torch.from_numpy(table.values), scales, table.num_groups, table.padding_idx


@given(tables(), st.sampled_from([(), (1,), (0,), (3,), (2, 3), (0, 2), (1, 2, 1)]), st.booleans(), st.data())
def test_frozen_rows_match_packed_form(table, shape, narrow, data):
    random = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    ids = random.integers(0, table.num_embeddings, shape).astype(np.int32 if narrow else np.int64)
    expected = table.rows(ids)
    tensors = tensors_of(table)
    rows = dpq.frozen_rows(torch.from_numpy(np.asarray(ids)), *tensors)
    assert rows.shape == expected.shape
    assert rows.numpy().tobytes() == expected.tobytes()
    assert torch.ops.edge_embed.dpq_frozen_rows(torch.from_numpy(np.asarray(ids)), *tensors).equal(rows)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("num_codes", [3, 5, 17, 129, 257])
def test_hostile_codes_stay_in_their_group(num_codes, shared):
    """A code of only set bits exceeds the number of codes, and reads the last code of its group."""
    groups = 4
    bits = bit_packing.bits_for(num_codes)
    codes = torch.full((2, bit_packing.row_bytes(groups, bits)), 255, dtype=torch.uint8)
    value = torch.randn(1 if shared else groups, num_codes, 3)
    rows = dpq.frozen_rows(torch.tensor([0, 1]), codes, value, None, groups, None)
    expected = value[:, -1].expand(groups, 3).flatten()
    assert torch.equal(rows[0], expected)
    assert torch.equal(rows[1], expected)


@pytest.mark.parametrize("bad", [-1, 6, 2**40])
def test_operators_refuse_ids_out_of_range(bad):
    ids = torch.tensor([0, bad])
    for form, table in ((dpq.FROZEN, frozen_arguments()), (dpq.TRAINABLE, trainable_arguments())):
        with pytest.raises(IdOutOfRangeError, match=f"id {bad} is out of range: expected 0 to 5"):
            form.rows(ids, *table)


def frozen_arguments(padding_idx: int | None = 1, int8: bool = False) -> tuple:
    value = torch.randint(-127, 128, (3, 16, 4), dtype=torch.int8) if int8 else torch.randn(3, 16, 4)
    scales = torch.rand(3) + 0.5 if int8 else None
    return torch.randint(0, 256, (6, 2), dtype=torch.uint8), value, scales, 3, padding_idx


def trainable_arguments(metric: str = "dot", norm: bool = True, padding_idx: int | None = 1) -> tuple:
    statistics = (torch.randn(5), torch.rand(5) + 0.5) if norm else (None, None)
    return torch.randn(6, 12), torch.randn(3, 5, 4), torch.randn(3, 5, 4), *statistics, metric, padding_idx


def narrow_keys(padding_idx: int | None = 1) -> tuple:
    """Return arguments with shared keys of 2 columns, values of 4 columns, and statistics of each group."""
    statistics = torch.randn(3, 5), torch.rand(3, 5) + 0.5
    return torch.randn(6, 6), torch.randn(1, 5, 2), torch.randn(1, 5, 4), *statistics, "cosine", padding_idx


@pytest.mark.parametrize("ids", [torch.tensor(3), torch.tensor([[0, 5], [1, 1]], dtype=torch.int32),
                                 torch.zeros(0, 2, dtype=torch.int64)], ids=["rank0", "int32", "empty"])  # fmt: skip
@pytest.mark.parametrize("padding_idx", [None, 1])
@pytest.mark.slow
def test_operators_pass_checks_of_torch(ids, padding_idx):
    """Torch checks the schema, fake tensors and dynamic tracing."""
    for int8 in (False, True):
        torch.library.opcheck(dpq.FROZEN.rows, (ids, *frozen_arguments(padding_idx, int8)))
    for metric in METRICS:
        for norm in (True, False):
            torch.library.opcheck(dpq.TRAINABLE.rows, (ids, *trainable_arguments(metric, norm, padding_idx)))
    torch.library.opcheck(dpq.TRAINABLE.rows, (ids, *narrow_keys(padding_idx)))


@pytest.mark.parametrize("use", ["rows", "bag", "logits", "topk"])
def test_uses_of_narrow_keys_have_width_of_values(use):
    hidden, ids = torch.randn(2, 12), torch.tensor([0, 5, 1])
    offsets = torch.tensor([0, 2, 3])
    arguments = {
        "rows": (ids,), "bag": (ids, offsets, None, "sum"), "logits": (hidden,), "topk": (hidden, None, 3)
    }  # fmt: skip
    table = narrow_keys()
    rows = dpq.pack(*table).rows(range(6))
    plain, opaque = (form(*arguments[use], *table) for form in (dpq.TRAINABLE.plain[use], dpq.TRAINABLE.uses[use]))
    torch.testing.assert_close(opaque, plain)
    if use == "rows":
        assert plain.numpy().tobytes() == rows[[0, 5, 1]].tobytes()
    if use == "logits":
        torch.testing.assert_close(plain, hidden @ torch.from_numpy(rows).t())


def test_unknown_metric_is_refused():
    """A file may name any metric."""
    *table, _, padding_idx = trainable_arguments()
    for call in (lambda: dpq.TRAINABLE.rows(torch.tensor([0]), *table, "l1", padding_idx),
                 lambda: dpq.pack(*table, "l1", padding_idx)):  # fmt: skip
        with pytest.raises(BadInputError, match="metric must be one of dot, euclidean, cosine, got 'l1'"):
            call()


def test_trainable_rows_follow_equations_1_and_2():
    query, key, value, mean, variance, metric, _ = trainable_arguments("euclidean")
    ids = torch.arange(6)
    rows = dpq.trainable_rows(ids, query, key, value, mean, variance, metric, None).unflatten(-1, (3, 4))
    for row in range(6):
        for group in range(3):
            distance = -(query.double()[row].view(3, 4)[group] - key.double()[group]).square().sum(-1)
            code = ((distance - mean) / (variance + NORM_EPS).sqrt()).argmax()
            assert torch.equal(rows[row, group], value[group, code])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("padding_idx", [None, 1])
def test_ids_more_than_rows_compute_each_row_once(monkeypatch, metric, padding_idx):
    """Rows, bags and gradients equal those of few ids at a time; 10,000 ids need distances of only 6 rows."""
    table = trainable_arguments(metric, padding_idx=padding_idx)
    value = table[2].requires_grad_()
    ids = torch.randint(0, 6, (10, 1000), dtype=torch.int32)
    offsets, few = torch.arange(0, 10_001, 100), ids.reshape(-1).split(6)
    expected = torch.cat([dpq.trainable_rows(block, *table) for block in few])
    weight = torch.randn(10_000, 12)
    (expected * weight).sum().backward()
    wanted, value.grad = value.grad, None
    counted: list[int] = []
    codes = dpq.codes
    monkeypatch.setattr(dpq, "codes", lambda query, *rest: counted.append(len(query)) or codes(query, *rest))
    rows = dpq.TRAINABLE("rows", ids, *table)
    assert rows.shape == (10, 1000, 12)
    assert torch.equal(rows.flatten(0, 1), expected)
    assert torch.equal(dpq.TRAINABLE.rows(ids, *table), rows)  # the operator of a captured model
    (rows.flatten(0, 1) * weight).sum().backward()
    torch.testing.assert_close(value.grad, wanted, atol=1e-3, rtol=1e-4)  # sums of thousands, in another order
    sums = dpq.TRAINABLE("bag", ids.reshape(-1), offsets, None, "sum", *table)
    torch.testing.assert_close(sums, expected.reshape(100, 100, 12).sum(1), atol=1e-4, rtol=1e-5)
    assert counted == [6, 6, 6]


def test_pack_of_long_table_equals_its_codes():
    """Each block of rows is written to its place, including the last, shorter one."""
    query, key = torch.randn(5001, 8), torch.randn(2, 256, 4)
    packed = dpq.pack(query, key, key, None, None, "euclidean", 5000)
    codes = dpq.codes(query, key, None, None, "euclidean")
    assert np.array_equal(packed.codes_of(np.arange(5000)), codes[:5000].numpy())
    assert not packed.codes[5000].any()
