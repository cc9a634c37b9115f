"""DPQEmbedding in place of nn.Embedding: ids, padding, rows, freezing and errors."""

import numpy as np
import pytest
import torch
from torch import nn

from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.layers.dpq import DPQEmbedding

from ..pairwise import pairwise
from .conftest import MODES

INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64]


@pytest.mark.parametrize(
    ("make_mode", "dtype", "shape"),
    pairwise(list(MODES), INTEGERS, [(), (1,), (4,), (1, 1), (2, 3), (2, 1, 3, 2)]),
    indirect=["make_mode"],
)
def test_ids_of_any_integer_dtype_and_rank_give_rows(make_mode, dtype, shape):
    layer = make_mode()
    ids = torch.randint(0, 20, shape)
    rows = layer(ids.to(dtype))
    assert rows.shape == (*shape, 12) == nn.Embedding(20, 12)(ids).shape
    assert torch.equal(layer.eval()(ids.to(dtype)), layer(torch.arange(20))[ids])


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (0, 0, 2)])
def test_empty_batches_give_empty_rows_and_no_gradient(make_mode, shape, variant):
    layer = make_mode(variant=variant, padding_idx=1)
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    rows = layer(torch.zeros(shape, dtype=torch.int64))
    assert rows.shape == (*shape, 12)
    if rows.requires_grad:
        rows.sum().backward()
        for name, parameter in layer.named_parameters():
            assert parameter.grad is None or not parameter.grad.any(), name
    assert all(torch.equal(before[name], tensor) for name, tensor in layer.state_dict().items())


@pytest.mark.parametrize("bad", [-1, 20, 2**31, -(2**40), 2**63 - 1])
def test_ids_out_of_range_are_named_with_bound(make_mode, bad):
    layer = make_mode()
    with pytest.raises(IdOutOfRangeError, match=rf"id {bad} is out of range: expected 0 to 19"):
        layer(torch.tensor([[3, bad]]))
    with pytest.raises(IndexError):  # the error that code for nn.Embedding catches
        layer(torch.tensor(bad))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bool, torch.complex64], ids=str)
def test_ids_that_are_no_integers_are_refused_with_remedy(make_mode, dtype):
    with pytest.raises(BadInputError, match=rf"got {dtype}: .*ids\.long\(\)"):
        make_mode()(torch.zeros(3, dtype=dtype))


@pytest.mark.parametrize("given", [0, 4, 19, -1, -20])
def test_padding_row_is_exactly_zero_in_every_mode(make_mode, variant, given):
    layer = make_mode(variant=variant, padding_idx=given)
    padding = given % 20
    assert layer.padding_idx == nn.Embedding(20, 12, padding_idx=given).padding_idx == padding
    ids = torch.tensor([[padding, (padding + 1) % 20, padding]])
    rows = layer(ids).detach()
    assert rows[0, [0, 2]].numpy().tobytes() == bytes(2 * 12 * 4)  # and not -0.0
    assert rows[0, 1].any()
    assert layer.to_packed().rows(ids.numpy())[0, 0].tobytes() == bytes(12 * 4)


def test_padding_outside_table_is_refused():
    for outside in (20, -21):
        with pytest.raises(BadInputError, match=f"padding_idx {outside} .*20 rows"):
            DPQEmbedding(20, 12, 4, 3, padding_idx=outside)


@pytest.mark.parametrize("norm", [True, False])
def test_padding_gets_no_gradient_and_changes_no_other(make_layer, variant, share, norm):
    """Batch statistics are no exception: other ids get the gradients of a batch without the padding."""

    def gradients(layer: DPQEmbedding, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        rows = layer(ids)
        weight = torch.arange(20.0, dtype=torch.float64).unsqueeze(-1)[ids] + torch.arange(12)
        (rows * weight).sum().backward()
        return {name: parameter.grad for name, parameter in layer.named_parameters()} | dict(layer.named_buffers())

    options = {"variant": variant, "share_subspaces": share, "distance_norm": norm, "dtype": torch.float64}
    with_padding = make_layer(**options, padding_idx=2)
    without = make_layer(**options)
    without.load_state_dict(with_padding.state_dict())
    got = gradients(with_padding, torch.tensor([2, 5, 2, 7, 5, 2]))
    expected = gradients(without, torch.tensor([5, 7, 5]))
    assert not got["query"][2].any()
    assert got["query"][5].any()
    for name in expected:
        torch.testing.assert_close(got[name], expected[name], rtol=1e-12, atol=1e-14)


def test_batch_of_padding_only_gives_no_gradient(make_layer, variant):
    layer = make_layer(variant=variant, padding_idx=0)
    before = {name: tensor.clone() for name, tensor in layer.named_buffers()}
    layer(torch.zeros(4, dtype=torch.int64)).sum().backward()
    assert all(not parameter.grad.any() for parameter in layer.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in layer.named_buffers())


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ((2**70, 12, 4, 3), {}, "num_embeddings must be at most 1099511627776, got 1.18e"),
        ((20, 12, 4, 3), {"init_scale": float("nan")}, "init_scale must be a finite number of at least 0, got nan"),
        ((20, 12, 4, 3), {"dtype": torch.int64}, "dtype must be a float type, got torch.int64"),
        ((20, 12, 1, 3), {}, "num_codes must be 2 to 65536, got 1"),
        ((20, 12, 65537, 3), {}, "num_codes must be 2 to 65536, got 65537"),
        ((20, 12, 4, 5), {}, "num_groups must divide embedding_dim, got 5 and 12: choose one of 1, 2, 3, 4, 6, 12"),
        ((20, 12, 4, 0), {}, "num_groups must be at least 1, got 0"),
        ((20, 12, 4, -3), {}, "num_groups must be at least 1, got -3"),
        ((0, 12, 4, 3), {}, "num_embeddings must be at least 1, got 0"),
        ((20, 0, 4, 3), {}, "embedding_dim must be at least 1, got 0"),
        ((20, 12, 4, 3), {"variant": "pq"}, "variant must be .*got 'pq'"),
    ],
)
def test_impossible_sizes_are_refused_with_numbers(sizes, options, message):
    with pytest.raises(BadInputError, match=message):
        DPQEmbedding(*sizes, **options)


@pytest.mark.parametrize("num_codes", [2, 3, 4, 5, 16, 17, 255, 256, 257, 300])
def test_codes_of_every_size_survive_freezing_and_packing(make_layer, num_codes, variant, share):
    layer = make_layer(num_codes=num_codes, variant=variant, share_subspaces=share, padding_idx=3).eval()
    ids = torch.randint(0, 20, (4, 7))
    rows = layer(ids).detach()
    packed = layer.to_packed()
    assert packed.num_codes == num_codes
    assert packed.values.shape == (1 if share else 3, num_codes, 4)
    assert packed.rows(ids.numpy()).tobytes() == rows.numpy().tobytes()
    assert torch.equal(layer.freeze()(ids), rows)
    assert torch.equal(DPQEmbedding.from_packed(packed)(ids), rows)


def test_eval_rows_are_values_selected_by_index(make_layer, variant):
    """q - sg(q - v) would differ by a rounding."""
    layer = make_layer(variant=variant).eval()
    rows = layer(torch.arange(20)).unflatten(-1, (3, 4)).detach().numpy()
    for group in range(3):
        stored = {value.tobytes() for value in layer.value[group].detach().numpy()}
        assert {row.tobytes() for row in rows[:, group]} <= stored


def test_frozen_layer_in_training_mode_still_gives_rows(make_layer):
    layer = make_layer().freeze()
    ids = torch.arange(20)
    assert torch.equal(layer.train()(ids), layer.eval()(ids))
    assert not layer.train()(ids).requires_grad


def test_repr_names_sizes_and_state(make_layer):
    layer = make_layer(padding_idx=-1)
    assert "20, 12, num_codes=5, num_groups=3" in repr(layer)
    assert "padding_idx=19, frozen=False" in repr(layer)
    assert "frozen=True" in repr(layer.freeze())


def test_layer_from_packed_copies_its_arrays(make_layer):
    packed = make_layer().to_packed()
    layer = DPQEmbedding.from_packed(packed)
    before = layer(torch.arange(20)).clone()
    packed.values[:] = 0
    packed.codes[:] = 0
    assert torch.equal(layer(torch.arange(20)), before)
    assert np.any(before.numpy())
