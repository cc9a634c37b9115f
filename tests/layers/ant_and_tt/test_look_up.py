"""Layers of ANT, TT and TR in place of nn.Embedding: rows and gradients."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.layers.ant import ANTEmbedding

from ...pairwise import pairwise
from .conftest import DIM, IDS, MODES, USED, N, rows_of

INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64]
EPS = {torch.float32: 2.0**-23, torch.float16: 2.0**-10}


@pytest.mark.parametrize(
    ("method", "make_mode", "dtype", "shape"),
    pairwise(list(USED), MODES, INTEGERS, [(), (1,), (4,), (1, 1), (2, 3), (2, 1, 3, 2)]),
    indirect=["make_mode"],
)
def test_ids_of_any_integer_dtype_and_rank_give_rows(make_mode, dtype, shape):
    layer = make_mode()
    ids = torch.randint(0, N, shape)
    rows = layer(ids.to(dtype))
    assert rows.shape == (*shape, DIM) == nn.Embedding(N, DIM)(ids).shape
    torch.testing.assert_close(rows, layer(IDS)[ids])


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (0, 0, 2)])
def test_empty_batches_give_empty_rows_and_no_gradient(make_mode, shape):
    layer = make_mode(padding_idx=1)
    rows = layer(torch.zeros(shape, dtype=torch.int64))
    assert rows.shape == (*shape, DIM)
    if rows.requires_grad:
        rows.sum().backward()
        for name, parameter in layer.named_parameters():
            assert parameter.grad is None or not parameter.grad.any(), name


@pytest.mark.parametrize("bad", [-1, N, 2**31, -(2**40), 2**63 - 1])
def test_ids_out_of_range_are_named_with_bound(make_mode, bad):
    layer = make_mode()
    with pytest.raises(IdOutOfRangeError, match=rf"id {bad} is out of range: expected 0 to 19"):
        layer(torch.tensor([[3, bad]]))
    with pytest.raises(IndexError):  # the error that code for nn.Embedding catches
        layer(torch.tensor(bad))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool], ids=str)
def test_ids_that_are_no_integers_are_refused_with_remedy(make_mode, dtype):
    with pytest.raises(BadInputError, match=rf"got {dtype}: .*ids\.long\(\)"):
        make_mode()(torch.zeros(3, dtype=dtype))


@pytest.mark.parametrize("given", [0, 4, 19, -1, -20])
def test_padding_row_is_exactly_zero_in_every_mode(make_mode, given):
    layer = make_mode(padding_idx=given)
    padding = given % N
    assert layer.padding_idx == padding
    ids = torch.tensor([[padding, (padding + 1) % N, padding]])
    rows = layer(ids).detach()
    assert rows[0, [0, 2]].numpy().tobytes() == bytes(2 * DIM * 4)  # and not -0.0
    assert rows[0, 1].any()
    assert layer.to_packed().rows(ids.numpy())[0, 0].tobytes() == bytes(DIM * 4)
    hidden = torch.randn(2, DIM)
    assert not layer.logits(hidden)[:, padding].any()


def test_padding_gets_no_gradient_and_changes_no_other(make):
    with_padding = make(padding_idx=2, dtype=torch.float64)
    without = make(dtype=torch.float64)
    without.load_state_dict(with_padding.state_dict())
    weight = torch.randn(N, DIM, dtype=torch.float64)
    for layer, ids in ((with_padding, torch.tensor([2, 5, 2, 7, 5, 2])), (without, torch.tensor([5, 7, 5]))):
        (layer(ids) * weight[ids]).sum().backward()
    for got, expected in zip(with_padding.parameters(), without.parameters(), strict=True):
        assert expected.grad.any()
        torch.testing.assert_close(got.grad, expected.grad, rtol=1e-12, atol=1e-14)


def test_batch_of_padding_only_gives_no_gradient(make):
    layer = make(padding_idx=0)
    layer(torch.zeros(4, dtype=torch.int64)).sum().backward()
    assert all(not parameter.grad.any() for parameter in layer.parameters())


def test_gradients_match_finite_differences(make):
    layer = make(padding_idx=3, dtype=torch.float64)
    if isinstance(layer, ANTEmbedding):
        with torch.no_grad():
            layer.transform.add_(0.1)  # away from the corner at zero
    ids = torch.tensor([[3, 0, 19], [7, 7, 3]])
    hidden = torch.randn(2, DIM, dtype=torch.float64, requires_grad=True)
    parameters = dict(layer.named_parameters())

    def rows(*values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, dict(zip(parameters, values, strict=True)), (ids,))

    for training in (True, False):
        layer.train(training)
        assert torch.autograd.gradcheck(rows, tuple(parameters.values()))
    layer.train()
    loss_weight = torch.randn(2, N, dtype=torch.float64)
    (layer.logits(hidden) * loss_weight).sum().backward()
    got = [hidden.grad, *(parameter.grad for parameter in parameters.values())]
    expected = torch.autograd.grad(
        (hidden @ layer(IDS).t() * loss_weight).sum(), [hidden, *parameters.values()], allow_unused=True
    )
    for one, two in zip(got, expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)


def test_rows_of_every_path_are_within_tolerance_of_oracle(make):
    layer = make(padding_idx=3)
    packed, ids = layer.to_packed(), IDS.reshape(4, 5)
    oracle, tolerance = packed.rows_float64(ids.numpy()), 4 * EPS[torch.float32] * packed.magnitudes(ids.numpy())
    rows = {
        "eval": rows_of(layer, ids),
        "train": layer.train()(ids).detach(),
        "frozen": rows_of(copy.deepcopy(layer).freeze(), ids),
        "from packed": type(layer).from_packed(packed)(ids),
    }
    assert np.abs(oracle).max() > 0.1
    for name, got in rows.items():
        assert (np.abs(got.double().numpy() - oracle) <= tolerance).all(), name
