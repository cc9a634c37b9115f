"""Tables of ANT, TT and TR keep their rows when they are frozen, packed, saved, loaded and copied."""

import copy
import io

import numpy as np
import pytest
import torch
from torch import nn

from edge_embed.errors import BadInputError
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.ant_mixture import ANTMixtureEmbedding
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.tr import TREmbedding
from edge_embed.layers.tt import TTEmbedding

from .conftest import IDS, NEW, USED, rows_of

EPS = {torch.float32: 2.0**-23, torch.float16: 2.0**-10}


def saved_and_loaded(thing: object) -> object:
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def test_frozen_float16_table_matches_oracle_and_keeps_dtype_of_rows(make):
    layer = make().freeze(value_type="float16")
    packed = layer.to_packed()
    assert packed.shape.value_type == "float16"
    assert layer(IDS).dtype == torch.float32
    tolerance = 4 * EPS[torch.float16] * packed.magnitudes(IDS.numpy())
    assert (np.abs(layer(IDS).double().numpy() - packed.rows_float64(IDS.numpy())) <= tolerance).all()
    assert layer.half()(IDS).dtype == torch.float16


def test_frozen_table_has_no_parameters_and_still_gives_rows_in_training_mode(make):
    layer = make().freeze()
    assert layer.frozen
    assert not list(layer.parameters())
    assert not layer.train()(IDS).requires_grad
    assert torch.equal(layer.train()(IDS), layer.eval()(IDS))
    assert torch.equal(layer.freeze()(IDS), layer(IDS))  # a second call changes nothing


def test_freeze_to_narrower_type_later_equals_freezing_at_once(make):
    layer = make(padding_idx=3)
    at_once = copy.deepcopy(layer).freeze(value_type="float16").to_packed()
    later = layer.freeze().freeze(value_type="float16").to_packed()
    for name, array in at_once.tensors().items():
        assert later.tensors()[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e6])
def test_freeze_of_unstorable_numbers_is_refused_and_loses_nothing(make, bad):
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


def test_packed_round_trip_keeps_rows(make):
    source = make(padding_idx=1)
    packed = source.to_packed()
    layer = type(source).from_packed(packed)
    again = layer.to_packed()
    assert again.padding_idx == 1
    before = rows_of(layer).clone()
    for name, array in packed.tensors().items():
        assert array.tobytes() == again.tensors()[name].tobytes()
        array[...] = 0  # the layer has copied them
    assert torch.equal(rows_of(layer), before)


def test_state_dict_round_trip_keeps_rows(make_mode):
    source, target = make_mode(padding_idx=2), make_mode(padding_idx=2)
    assert not torch.equal(rows_of(target), rows_of(source))
    keys = target.load_state_dict(saved_and_loaded(source.state_dict()))
    assert not keys.missing_keys
    assert not keys.unexpected_keys
    assert torch.equal(rows_of(target), rows_of(source))


@pytest.mark.parametrize(("device", "assign"), [("cpu", False), ("cpu", True), ("meta", True)])
@pytest.mark.parametrize("value_type", [None, "float16"])
def test_frozen_checkpoint_loads_into_new_model(method, assign, device, value_type):
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


def test_frozen_checkpoint_that_is_refused_leaves_layer_unchanged(make, make_mode):
    model = nn.ModuleDict({"words": make_mode()})
    layer = model["words"]
    before, frozen, parameters = rows_of(layer).clone(), layer.frozen, list(model.parameters())
    state = nn.ModuleDict({"words": make(num_embeddings=45).freeze()}).state_dict()
    for stored in (state, dict(state)):  # with and without the number of rows that cores store
        for strict in (True, False):
            with pytest.raises(RuntimeError, match="size mismatch for words") as caught:
                model.load_state_dict(stored, strict=strict)
            assert "issing key" not in str(caught.value)
    partial = nn.ModuleDict({"words": make().freeze()}).state_dict()
    lost = partial.popitem()[0]
    with pytest.raises(RuntimeError, match=f"Missing key.*{lost}"):
        model.load_state_dict(partial)
    assert layer.frozen == frozen
    assert torch.equal(rows_of(layer), before)
    assert all(one is other for one, other in zip(model.parameters(), parameters, strict=True))


def test_trainable_checkpoint_is_refused_by_frozen_layer(make):
    with pytest.raises(RuntimeError, match=r"Missing key.*(row_offsets|core_0)"):
        make().freeze().load_state_dict(make().state_dict())


def test_deepcopy_shares_no_memory_with_original(make_mode):
    layer = make_mode(padding_idx=3)
    before = rows_of(layer)
    clone = copy.deepcopy(layer)
    assert torch.equal(rows_of(clone), before)
    with torch.no_grad():
        for tensor in (*clone.parameters(), *clone.buffers()):
            tensor.zero_()
    assert torch.equal(rows_of(layer), before)


def test_whole_module_loads_with_allow_list(make_mode):
    layer = make_mode(padding_idx=3)
    classes = [ANTEmbedding, ANTMixtureEmbedding, TTEmbedding, TREmbedding, nn.ParameterList]
    with torch.serialization.safe_globals(classes):
        loaded = saved_and_loaded(layer)
    assert type(loaded) is type(layer)
    assert loaded.frozen == layer.frozen
    assert torch.equal(rows_of(loaded), rows_of(layer))


@pytest.mark.parametrize("layer", [ANTEmbedding, ANTMixtureEmbedding, DPQEmbedding, TTEmbedding, TREmbedding])
def test_packed_form_of_another_method_is_refused(layer):
    ant, tt = (made(3, 2, 1).to_packed() for made in (ANTEmbedding, TTEmbedding))
    other = tt if issubclass(layer, ANTEmbedding) else ant
    with pytest.raises(BadInputError, match=f"packed: got a {type(other).__name__}, expected a Packed"):
        layer.from_packed(other)
