"""Saving, copying, moving and freezing a table keeps its rows bit for bit."""

import copy
import io

import numpy as np
import pytest
import torch
from torch import nn

from edge_embed.errors import BadInputError
from edge_embed.layers.dpq import DPQEmbedding

IDS = torch.arange(20)


def rows_of(layer: DPQEmbedding) -> bytes:
    training = layer.training
    rows = layer.eval()(IDS).detach().numpy().tobytes()
    layer.train(training)
    return rows


def saved_and_loaded(thing: object, **options: object) -> object:
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True, **options)


def test_freeze_keeps_eval_rows_bit_for_bit(make_layer, variant, share):
    layer = make_layer(variant=variant, share_subspaces=share, padding_idx=4)
    before = rows_of(layer)
    assert layer.freeze() is layer
    assert layer.frozen
    assert rows_of(layer) == before
    assert rows_of(layer.freeze()) == before  # a second call changes nothing


def test_frozen_layer_holds_codes_and_values_only(make_layer):
    layer = make_layer().freeze()
    assert set(layer.state_dict()) == {"codes", "value"}
    assert not list(layer.parameters())
    assert layer.codes.dtype == torch.uint8
    assert layer.codes.shape == (20, 2)  # 3 codes of 3 bits


@pytest.mark.parametrize(("value_type", "tolerance"), [("float32", 0), ("float16", 2**-11), ("int8", 0.5001 / 127)])
def test_value_types_round_by_half_a_step(make_layer, share, value_type, tolerance):
    """The step is relative to the value for float16, to the largest value of its group for int8."""
    layer = make_layer(share_subspaces=share, padding_idx=4)
    exact = layer.value.detach().clone()
    before = layer.eval()(IDS).detach()
    layer.freeze(value_type=value_type)
    assert layer.value.dtype == getattr(torch, value_type)
    assert (layer.value_scales is None) == (value_type != "int8")
    largest = exact.abs().amax((1, 2), keepdim=True)  # [G, 1, 1]
    bound = tolerance * (largest if value_type == "int8" else exact.abs()).expand(3, 5, 4)
    assert layer(IDS).dtype == torch.float32
    rows, codes = layer(IDS).unflatten(-1, (3, 4)), layer.to_packed().codes_of(IDS.numpy())
    for group in range(3):
        error = (rows - before.unflatten(-1, (3, 4)))[:, group].abs()
        assert (error <= bound[group][torch.from_numpy(codes[:, group].astype("int64"))]).all()
    assert rows[4].numpy().tobytes() == bytes(48)


def test_int8_rows_in_eval_mode_match_packed_form(make_layer, variant, share):
    layer = make_layer(variant=variant, share_subspaces=share, padding_idx=4).freeze("int8")
    packed = layer.to_packed()
    assert packed.value_type == "int8"
    assert rows_of(layer) == packed.rows(IDS.numpy()).tobytes()
    again = DPQEmbedding.from_packed(packed)
    assert again.value.dtype == torch.int8
    assert rows_of(again) == rows_of(layer)
    assert rows_of(layer.freeze("int8")) == rows_of(again)  # a second call changes nothing


def test_int8_values_turned_to_float_keep_rows(make_layer):
    layer = make_layer().freeze("int8")
    before = rows_of(layer)
    layer.freeze("float32")
    assert rows_of(layer) == before
    assert set(layer.state_dict()) == {"codes", "value"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.bfloat16])
def test_int8_rows_of_other_dtypes_are_rounded_once(make_layer, dtype):
    """The scales keep their type: rounding a scale would shift all values of a group."""
    layer = make_layer(padding_idx=4).freeze("int8")
    exact, stored = layer(IDS), layer.to_packed()
    assert torch.equal(layer.to(dtype)(IDS), exact.to(dtype))
    for name, array in stored.tensors().items():
        assert layer.to_packed().tensors()[name].tobytes() == array.tobytes()
    assert torch.equal(layer.float()(IDS), exact)


def test_int8_values_of_half_precision_layer_keep_float32_scales(make_layer):
    layer = make_layer().half().freeze("int8")
    assert layer.value_scales.dtype == torch.float32
    assert layer(IDS).dtype == torch.float16


def test_checkpoint_of_int8_values_loads_into_any_layer(make_mode, share):
    source = make_mode(share_subspaces=share).freeze("int8")
    assert set(source.state_dict()) == {"codes", "value", "value_scales"}
    for target in (make_mode(share_subspaces=share), make_mode(share_subspaces=share).freeze("int8")):
        target.load_state_dict(saved_and_loaded(source.state_dict()))
        assert rows_of(target) == rows_of(source)
    floats = make_mode(share_subspaces=share).freeze()
    target.load_state_dict(floats.state_dict())
    assert rows_of(target) == rows_of(floats)
    assert target.value_scales is None


def test_checkpoint_of_int8_values_without_scales_is_refused(make_layer):
    state = make_layer().freeze("int8").state_dict()
    del state["value_scales"]
    with pytest.raises(RuntimeError, match=r"Missing key.*value_scales"):
        make_layer().load_state_dict(state)


def test_unknown_value_types_are_refused(make_mode):
    layer = make_mode()
    with pytest.raises(BadInputError, match="value_type: got 'int4', expected float32, float16 or int8"):
        layer.freeze(value_type="int4")


def test_batch_norm_statistics_decide_codes(make_layer):
    """Freezing without the statistics would give other rows."""
    layer = make_layer(warm=False)
    with torch.no_grad():
        layer.running_mean += torch.linspace(-3, 3, 5)
    shifted = layer.to_packed()
    layer.distance_norm = False
    assert shifted.codes.tobytes() != layer.to_packed().codes.tobytes()


def test_packed_codes_match_eval_mode(make_layer, variant):
    layer = make_layer(variant=variant, padding_idx=0)
    expected = layer.eval()(IDS).unflatten(-1, (3, 4))[1:]
    codes = layer.to_packed().codes_of(IDS[1:].numpy())
    for group in range(3):
        assert torch.equal(layer.value[group][torch.from_numpy(codes[:, group].astype("int64"))], expected[:, group])


def test_packed_form_uses_eval_statistics_in_training_mode(make_layer):
    layer = make_layer()
    assert layer.train().to_packed().codes.tobytes() == layer.eval().to_packed().codes.tobytes()
    layer.train().to_packed()
    assert layer.training


def test_packed_round_trip_keeps_codes_and_values(make_layer, variant, share):
    packed = make_layer(variant=variant, share_subspaces=share, padding_idx=1).to_packed()
    again = DPQEmbedding.from_packed(packed).to_packed()
    assert again.codes.tobytes() == packed.codes.tobytes()
    assert again.values.tobytes() == packed.values.tobytes()
    assert (again.padding_idx, again.num_groups, again.num_codes) == (1, 3, 5)


def test_state_dict_round_trip_keeps_rows(make_mode, variant, share):
    options = {"variant": variant, "share_subspaces": share, "padding_idx": 2}
    source, target = make_mode(**options), make_mode(**options)
    with torch.no_grad():
        target.value.zero_()
    assert rows_of(target) != rows_of(source)
    keys = target.load_state_dict(saved_and_loaded(source.state_dict()))
    assert not keys.missing_keys
    assert not keys.unexpected_keys
    assert rows_of(target) == rows_of(source)


@pytest.mark.parametrize(("device", "assign"), [("cpu", False), ("cpu", True), ("meta", True)])
def test_frozen_checkpoint_loads_into_new_model(make_layer, variant, assign, device):
    source = nn.ModuleDict({"table": make_layer(variant=variant).freeze(), "dense": nn.Linear(2, 2)})
    with torch.device(device):
        target = nn.ModuleDict({"table": DPQEmbedding(20, 12, 5, 3, variant), "dense": nn.Linear(2, 2)})
    target.load_state_dict(source.state_dict(), assign=assign)
    assert target["table"].frozen
    assert rows_of(target["table"]) == rows_of(source["table"])


def test_checkpoint_of_another_size_is_refused(make_layer):
    with pytest.raises(RuntimeError, match="size mismatch"):
        make_layer().load_state_dict(make_layer(num_embeddings=21).state_dict())
    with pytest.raises(RuntimeError, match="size mismatch"):
        make_layer().load_state_dict(make_layer(num_embeddings=21).freeze().state_dict())


@pytest.mark.parametrize("options", [{}, {"variant": "vq", "ema_decay": 0.9}], ids=["sx", "vq ema"])
@pytest.mark.parametrize("frozen", [False, True], ids=["trainable", "frozen"])
@pytest.mark.parametrize("value_type", [None, "int8"])
def test_frozen_checkpoint_that_is_refused_leaves_layer_unchanged(make_layer, options, frozen, value_type):
    model = nn.ModuleDict({"words": make_layer(**options)})
    if frozen:
        model["words"].freeze()
    before, parameters = rows_of(model["words"]), list(model.parameters())
    message = (
        r"size mismatch for words\.codes: copying a param with shape torch\.Size\(\[21, 2\]\) from checkpoint, the"
    )
    for strict in (True, False):
        state = nn.ModuleDict({"words": make_layer(num_embeddings=21).freeze(value_type)}).state_dict()
        with pytest.raises(RuntimeError, match=message) as caught:
            model.load_state_dict(state, strict=strict)
        assert "issing key" not in str(caught.value)
    state = nn.ModuleDict({"words": make_layer().freeze(value_type)}).state_dict()
    del state["words.value"]
    with pytest.raises(RuntimeError, match=r"Missing key.*words\.value"):
        model.load_state_dict(state)
    assert model["words"].frozen == frozen
    assert rows_of(model["words"]) == before
    assert all(one is other for one, other in zip(model.parameters(), parameters, strict=True))


def test_trainable_checkpoint_is_refused_by_frozen_layer(make_layer):
    with pytest.raises(RuntimeError, match=r"Missing key.*codes"):
        make_layer().freeze().load_state_dict(make_layer().state_dict())


def test_deepcopy_shares_no_memory_with_original(make_mode):
    layer = make_mode(padding_idx=3)
    before = rows_of(layer)
    clone = copy.deepcopy(layer)
    assert rows_of(clone) == before
    with torch.no_grad():
        clone.value.mul_(2)
    assert rows_of(layer) == before


def test_whole_module_loads_with_allow_list(make_mode, variant):
    layer = make_mode(variant=variant, padding_idx=3)
    with torch.serialization.safe_globals([DPQEmbedding]):
        loaded = saved_and_loaded(layer)
    assert type(loaded) is DPQEmbedding
    assert loaded.frozen == layer.frozen
    assert rows_of(loaded) == rows_of(layer)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_dtype_of_rows_follows_the_layer(make_mode, dtype):
    layer = make_mode().to(dtype)
    assert layer(IDS).dtype == dtype
    assert layer(IDS).isfinite().all()
    if layer.frozen:
        assert layer.codes.dtype == torch.uint8
    if dtype == torch.float16:
        assert layer.to_packed().values.dtype == np.float16
        return
    with pytest.raises(BadInputError, match=rf"{dtype}, expected float32 or float16; call \.float\(\)"):
        layer.to_packed()


def test_layer_cast_to_float64_and_back_keeps_rows(make_mode):
    layer = make_mode()
    before = rows_of(layer)
    assert rows_of(layer.double().float()) == before


def test_layer_on_meta_device_gives_meta_rows(make_mode):
    layer = make_mode().to("meta")
    rows = layer(torch.zeros(3, 2, dtype=torch.int64, device="meta"))
    assert rows.shape == (3, 2, 12)
    assert rows.device.type == "meta"


def test_layer_materialised_from_meta_gives_finite_rows(make_layer):
    layer = DPQEmbedding(20, 12, 5, 3, device="meta").to_empty(device="cpu")
    layer.reset_parameters()
    assert torch.equal(layer.running_var, torch.ones(5))
    assert layer(IDS).isfinite().all()
    assert layer.query.abs().max() <= layer.init_scale


@pytest.mark.parametrize("name", ["query", "key", "value", "running_mean", "running_var"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_not_packed(make_layer, name, bad):
    layer = make_layer()
    with torch.no_grad():
        getattr(layer, name).view(-1)[-1] = bad
    with pytest.raises(BadInputError, match=rf"{name}.* contains NaN or infinity: train"):
        layer.to_packed()
    with pytest.raises(BadInputError, match=name):
        layer.freeze()
    assert not layer.frozen  # nothing was lost
    assert {"query", "key"} <= set(dict(layer.named_parameters()))
