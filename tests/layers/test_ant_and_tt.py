"""What a user of nn.Embedding relies on when ANTEmbedding or TTEmbedding takes its place."""

import copy
import io
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.layers.tt import TTEmbedding

N, DIM = 20, 12
IDS = torch.arange(N)
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64]
EPS = {torch.float32: 2.0**-23, torch.float16: 2.0**-10}


def new_ant(num_embeddings: int = N, **options: object) -> ANTEmbedding:
    return ANTEmbedding(num_embeddings, DIM, 5, **options)


def new_tt(num_embeddings: int = N, **options: object) -> TTEmbedding:
    return TTEmbedding(num_embeddings, DIM, 4, **options)


def used_ant(num_embeddings: int = N, **options: object) -> ANTEmbedding:
    """With anchors of both signs, and a transform that is sparse as after training; row 6 is empty."""
    layer = new_ant(num_embeddings, **options)
    with torch.no_grad():
        layer.anchors.normal_()
        layer.transform.mul_(torch.rand(num_embeddings, 5).to(layer.transform) < 0.6)
        layer.transform[:, 4][layer.transform.sum(1) == 0] = 0.5
        layer.transform[6] = 0
    return layer


def used_tt(num_embeddings: int = N, **options: object) -> TTEmbedding:
    layer = new_tt(num_embeddings, **options)
    with torch.no_grad():
        for core in layer.cores:
            core.normal_()
    return layer


NEW = {"ant": new_ant, "tt": new_tt}
USED = {"ant": used_ant, "tt": used_tt}


@pytest.fixture(params=NEW)
def method(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def make(method: str) -> Callable[..., CompressedEmbedding]:
    return USED[method]


@pytest.fixture(params=["trainable-train", "trainable-eval", "frozen-train", "frozen-eval"])
def make_mode(request: pytest.FixtureRequest, make: Callable[..., CompressedEmbedding]) -> Callable[..., object]:
    """Makes a table in each of its four modes."""
    state, mode = request.param.split("-")

    def made(**options: object) -> CompressedEmbedding:
        layer = make(**options)
        return (layer.freeze() if state == "frozen" else layer).train(mode == "train")

    return made


def rows_of(layer: CompressedEmbedding, ids: torch.Tensor = IDS) -> torch.Tensor:
    training = layer.training
    rows = layer.eval()(ids).detach()
    layer.train(training)
    return rows


def saved_and_loaded(thing: object) -> object:
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (1, 1), (2, 3), (2, 1, 3, 2)])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_ids_of_any_integer_dtype_and_rank(make_mode, dtype, shape):
    layer = make_mode()
    ids = torch.randint(0, N, shape)
    rows = layer(ids.to(dtype))
    assert rows.shape == (*shape, DIM) == nn.Embedding(N, DIM)(ids).shape
    torch.testing.assert_close(rows, layer(IDS)[ids])


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (0, 0, 2)])
def test_empty_batches_give_empty_rows_and_teach_nothing(make_mode, shape):
    layer = make_mode(padding_idx=1)
    rows = layer(torch.zeros(shape, dtype=torch.int64))
    assert rows.shape == (*shape, DIM)
    if rows.requires_grad:
        rows.sum().backward()
        for name, parameter in layer.named_parameters():
            assert parameter.grad is None or not parameter.grad.any(), name


@pytest.mark.parametrize("bad", [-1, N, 2**31, -(2**40), 2**63 - 1])
def test_ids_out_of_range_are_named_with_the_bound(make_mode, bad):
    layer = make_mode()
    with pytest.raises(IdOutOfRangeError, match=rf"id {bad} is out of range: expected 0 to 19"):
        layer(torch.tensor([[3, bad]]))
    with pytest.raises(IndexError):  # what code written for nn.Embedding catches
        layer(torch.tensor(bad))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool], ids=str)
def test_ids_that_are_no_integers_are_refused_with_the_remedy(make_mode, dtype):
    with pytest.raises(BadInputError, match=rf"got {dtype}: .*ids\.long\(\)"):
        make_mode()(torch.zeros(3, dtype=dtype))


@pytest.mark.parametrize("given", [0, 4, 19, -1, -20])
def test_padding_row_is_exactly_zero_in_every_mode(make_mode, given):
    layer = make_mode(padding_idx=given)
    padding = given % N
    assert layer.padding_idx == padding
    ids = torch.tensor([[padding, (padding + 1) % N, padding]])
    rows = layer(ids).detach()
    assert rows[0, [0, 2]].numpy().tobytes() == bytes(2 * DIM * 4)  # not -0.0 either
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


def test_a_batch_of_padding_only_teaches_nothing(make):
    layer = make(padding_idx=0)
    layer(torch.zeros(4, dtype=torch.int64)).sum().backward()
    assert all(not parameter.grad.any() for parameter in layer.parameters())


def test_gradients_are_those_of_finite_differences(make):
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


def test_every_path_is_within_the_tolerance_of_the_oracle(make):
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


def test_frozen_float16_is_its_own_oracle_and_keeps_the_type_of_rows(make):
    layer = make().freeze(value_type="float16")
    packed = layer.to_packed()
    assert packed.shape.value_type == "float16"
    assert layer(IDS).dtype == torch.float32
    tolerance = 4 * EPS[torch.float16] * packed.magnitudes(IDS.numpy())
    assert (np.abs(layer(IDS).double().numpy() - packed.rows_float64(IDS.numpy())) <= tolerance).all()
    assert layer.half()(IDS).dtype == torch.float16


def test_frozen_holds_no_parameters_and_still_looks_up_in_training_mode(make):
    layer = make().freeze()
    assert layer.frozen
    assert not list(layer.parameters())
    assert not layer.train()(IDS).requires_grad
    assert torch.equal(layer.train()(IDS), layer.eval()(IDS))
    assert torch.equal(layer.freeze()(IDS), layer(IDS))  # a second time changes nothing


def test_freezing_more_narrowly_later_is_freezing_so_at_once(make):
    layer = make(padding_idx=3)
    at_once = copy.deepcopy(layer).freeze(value_type="float16").to_packed()
    later = layer.freeze().freeze(value_type="float16").to_packed()
    for name, array in at_once.tensors().items():
        assert later.tensors()[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e6])
def test_what_cannot_be_stored_is_refused_and_nothing_is_lost(make, bad):
    layer = make()
    with torch.no_grad():
        next(layer.parameters()).view(-1)[-1] = bad
    with pytest.raises(BadInputError):
        layer.freeze(value_type="float16")
    assert not layer.frozen
    assert list(layer.parameters())
    with pytest.raises(BadInputError, match="'int4'"):
        layer.freeze(value_type="int4")
    assert not layer.frozen


def test_packed_round_trip(make):
    packed = make(padding_idx=1).to_packed()
    layer = {"ant": ANTEmbedding, "tt": TTEmbedding}[packed.method].from_packed(packed)
    again = layer.to_packed()
    assert again.padding_idx == 1
    before = rows_of(layer).clone()
    for name, array in packed.tensors().items():
        assert array.tobytes() == again.tensors()[name].tobytes()
        array[...] = 0  # the layer has copied them
    assert torch.equal(rows_of(layer), before)


def test_state_dict_round_trip(make_mode):
    source, target = make_mode(padding_idx=2), make_mode(padding_idx=2)
    assert not torch.equal(rows_of(target), rows_of(source))
    keys = target.load_state_dict(saved_and_loaded(source.state_dict()))
    assert not keys.missing_keys
    assert not keys.unexpected_keys
    assert torch.equal(rows_of(target), rows_of(source))


@pytest.mark.parametrize(("device", "assign"), [("cpu", False), ("cpu", True), ("meta", True)])
@pytest.mark.parametrize("value_type", [None, "float16"])
def test_frozen_checkpoint_into_a_model_built_anew(method, assign, device, value_type):
    source = nn.ModuleDict({"table": USED[method]().freeze(value_type=value_type), "dense": nn.Linear(2, 2)})
    with torch.device(device):
        target = nn.ModuleDict({"table": NEW[method](), "dense": nn.Linear(2, 2)})
    target.load_state_dict(source.state_dict(), assign=assign)
    assert target["table"].frozen
    assert torch.equal(rows_of(target["table"]), rows_of(source["table"]))
    assert target["table"].to_packed().nbytes == source["table"].to_packed().nbytes


def test_checkpoint_of_another_size_is_refused(make):
    with pytest.raises(RuntimeError, match="size mismatch"):
        make().load_state_dict(make(num_embeddings=45).state_dict())
    with pytest.raises(RuntimeError, match="size mismatch"):
        make().load_state_dict(make(num_embeddings=45).freeze().state_dict())


def test_trainable_checkpoint_does_not_thaw_a_frozen_layer(make):
    with pytest.raises(RuntimeError, match=r"Missing key.*(row_offsets|core_0)"):
        make().freeze().load_state_dict(make().state_dict())


def test_deepcopy_is_independent(make_mode):
    layer = make_mode(padding_idx=3)
    before = rows_of(layer)
    clone = copy.deepcopy(layer)
    assert torch.equal(rows_of(clone), before)
    with torch.no_grad():
        for tensor in (*clone.parameters(), *clone.buffers()):
            tensor.zero_()
    assert torch.equal(rows_of(layer), before)


def test_whole_module_loads_with_an_allow_list(make_mode):
    layer = make_mode(padding_idx=3)
    with torch.serialization.safe_globals([ANTEmbedding, TTEmbedding, nn.ParameterList]):
        loaded = saved_and_loaded(layer)
    assert type(loaded) is type(layer)
    assert loaded.frozen == layer.frozen
    assert torch.equal(rows_of(loaded), rows_of(layer))


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


def test_there_and_back_in_float64_keeps_rows(make_mode):
    layer = make_mode()
    before = rows_of(layer)
    assert torch.equal(rows_of(layer.double().float()), before)


def test_meta_device(make_mode):
    layer = make_mode().to("meta")
    rows = layer(torch.zeros(3, 2, dtype=torch.int64, device="meta"))
    assert rows.shape == (3, 2, DIM)
    assert rows.device.type == "meta"


def test_materialised_from_meta(method):
    layer = NEW[method](device="meta").to_empty(device="cpu")
    layer.reset_parameters()
    assert layer(IDS).isfinite().all()
    assert layer(IDS).any()


def test_autocast_keeps_the_type_of_rows(make):
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


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("state", ["trainable", "frozen"])
def test_compiles_as_one_graph(make, training, state):
    torch._dynamo.reset()
    layer = make(padding_idx=2).train(training)
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
def test_captured_as_one_opaque_operator(make, frozen):
    """Whatever saves a model finds the table in one place, with ids of any number."""
    layer = make(padding_idx=2).eval()
    if frozen:
        layer.freeze()
    dynamic = {"ids": (torch.export.Dim.AUTO,)}
    program = torch.export.export(layer, (torch.tensor([1, 2, 3]),), dynamic_shapes=dynamic)
    calls = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert [str(call).startswith("edge_embed.") for call in calls] == [True]
    torch.testing.assert_close(program.module()(torch.arange(5)), layer(torch.arange(5)))


def test_training_never_makes_the_dense_table(method):
    """No tensor of a step, forward or backward, is as large as n d."""
    n, largest = 4000, 0
    layer = ANTEmbedding(n, 64, 4) if method == "ant" else TTEmbedding(n, 64, 4)

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            result = func(*args, **(kwargs or {}))
            for tensor in result if isinstance(result, tuple | list) else [result]:
                largest = max(largest, tensor.numel() if isinstance(tensor, torch.Tensor) else 0)
            return result

    with Largest():
        layer(torch.randint(0, n, (10,))).sum().backward()
    assert 0 < largest <= n * 4
