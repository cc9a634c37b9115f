"""Tables of ANT, TT and TR in other dtypes, on other devices, under autocast, compilation and capture."""

import copy

import numpy as np
import pytest
import torch

from edge_embed.errors import BadInputError

from ...largest_tensor import LargestTensor
from ...pairwise import pairwise
from .conftest import DIM, IDS, NEW, USED, N, rows_of

EPS = {torch.float32: 2.0**-23, torch.float16: 2.0**-10}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_dtype_of_rows_follows_the_layer(make_mode, dtype):
    layer = make_mode()
    before = rows_of(layer)
    layer.to(dtype)
    rows = layer(IDS)
    assert rows.dtype == dtype
    torch.testing.assert_close(rows.float(), before, rtol=0.05, atol=0.05)
    if dtype == torch.float16:
        assert layer.to_packed().rows(IDS.numpy()).dtype == np.float16
    else:
        with pytest.raises(BadInputError, match=rf"{dtype}.*call \.float\(\)"):
            layer.to_packed()


def test_layer_cast_to_float64_and_back_keeps_rows(make_mode):
    layer = make_mode()
    before = rows_of(layer)
    assert torch.equal(rows_of(layer.double().float()), before)


def test_layer_on_meta_device_gives_meta_rows(make_mode):
    layer = make_mode().to("meta")
    rows = layer(torch.zeros(3, 2, dtype=torch.int64, device="meta"))
    assert rows.shape == (3, 2, DIM)
    assert rows.device.type == "meta"


def test_layer_materialised_from_meta_gives_finite_rows(method):
    layer = NEW[method](device="meta").to_empty(device="cpu")
    layer.reset_parameters()
    assert layer(IDS).isfinite().all()
    assert layer(IDS).any()


def test_autocast_keeps_dtype_of_rows(make):
    layer = make()
    with torch.autocast("cpu", torch.bfloat16):
        rows = layer(IDS)
    assert rows.dtype == torch.float32
    rows.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


def test_repr_names_sizes_and_state(make):
    layer = make(padding_idx=-1)
    assert "(20, 12, " in repr(layer).replace("\n  ", "")
    assert "padding_idx=19, frozen=False" in repr(layer)
    assert "frozen=True" in repr(layer.freeze())


@pytest.mark.parametrize(("method", "state", "training"), pairwise(list(USED), ["trainable", "frozen"], [True, False]))
@pytest.mark.slow
def test_layer_compiles_as_one_graph(method, state, training):
    torch._dynamo.reset()
    layer = USED[method](padding_idx=2).train(training)
    if state == "frozen":
        layer.freeze()
    plain = copy.deepcopy(layer)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    weight = torch.randn(DIM)
    for size in (4, 7):
        ids = torch.randint(0, N, (2, size))
        rows, expected = compiled(ids), plain(ids)
        torch.testing.assert_close(rows, expected)
        if rows.requires_grad:
            (rows * weight).sum().backward()
            (expected * weight).sum().backward()
    for got, wanted in zip(layer.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(got.grad, wanted.grad)


@pytest.mark.parametrize("frozen", [False, True])
def test_layer_is_captured_as_one_opaque_operator(make, frozen):
    """Exporters find the table in one node, with ids of any number."""
    layer = make(padding_idx=2).eval()
    if frozen:
        layer.freeze()
    dynamic = {"ids": (torch.export.Dim.AUTO,)}
    program = torch.export.export(layer, (torch.tensor([1, 2, 3]),), dynamic_shapes=dynamic)
    calls = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert [str(call).startswith("edge_embed.") for call in calls] == [True]
    torch.testing.assert_close(program.module()(torch.arange(5)), layer(torch.arange(5)))


def test_training_never_materialises_dense_table(method):
    """No tensor of a training step is as large as n d, forward or backward."""
    n = 8000
    layer = NEW[method](n)
    with LargestTensor() as largest:
        layer(torch.randint(0, n, (10,))).sum().backward()
    assert 0 < largest.numel <= n * 5
