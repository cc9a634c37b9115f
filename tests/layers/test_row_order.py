"""TT and TR layers with a row order: plain layers in another numbering, in training and checkpoints."""

import copy
import io
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import edge_embed
from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.fitting.order import by_frequency
from edge_embed.layers.tr import TREmbedding
from edge_embed.layers.tt import TTEmbedding

N, D, PADDING = 20, 12, 3
ORDER = by_frequency(torch.rand(N, generator=torch.Generator().manual_seed(0)), PADDING)
IDS = torch.tensor([[4, PADDING, 4, 0], [N - 1, 7, 1, 19]])
LAYERS = {"tt": TTEmbedding, "tr": TREmbedding}


@pytest.fixture(params=LAYERS)
def layer(request: pytest.FixtureRequest) -> type[TTEmbedding]:
    return LAYERS[request.param]


def pair(layer: type[TTEmbedding]) -> tuple[TTEmbedding, TTEmbedding]:
    """Return an ordered layer and a plain one over the same cores."""
    torch.manual_seed(0)
    plain = layer(N, D, 3, padding_idx=PADDING)
    return layer.from_cores(list(plain.cores), N, PADDING, ORDER), plain


@pytest.mark.parametrize("state", ["training", "eval", "frozen"])
def test_ordered_layer_matches_plain_layer_in_another_numbering(layer, state):
    made = pair(layer)
    for each in made:
        each.train(state == "training")
        if state == "frozen":
            each.freeze()
    ordered, plain = made
    hidden = torch.randn(5, D)
    torch.testing.assert_close(ordered(IDS), plain(ORDER[IDS]))
    torch.testing.assert_close(ordered(IDS.int()), plain(ORDER[IDS]))
    torch.testing.assert_close(ordered.logits(hidden), plain.logits(hidden)[:, ORDER])
    bias = torch.randn(N)
    expected = (plain.logits(hidden)[:, ORDER] + bias).topk(4)
    found = edge_embed.TiedOutput(ordered, bias).topk(hidden, 4)
    torch.testing.assert_close(found.values, expected.values)
    assert torch.equal(found.ids, expected.indices)
    assert not ordered(torch.tensor(PADDING)).any()
    for wrong in (-1, N):
        with pytest.raises(IdOutOfRangeError, match=f"id {wrong} is out of range: expected 0 to 19"):
            ordered(torch.tensor([wrong]))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("training", [True, False])
def test_ordered_bags_match_bags_of_rows(mode, training):
    for layer, bag in ((TTEmbedding, edge_embed.TTEmbeddingBag), (TREmbedding, edge_embed.TREmbeddingBag)):
        ordered, plain = pair(layer)
        made = bag(N, D, 3, padding_idx=PADDING, row_order=ORDER, mode=mode)
        made.load_state_dict(ordered.state_dict())
        rows = torch.nn.functional.embedding_bag(IDS, plain(ORDER[torch.arange(N)]), mode=mode, padding_idx=PADDING)
        torch.testing.assert_close(made.train(training)(IDS), rows)


def test_gradients_reach_cores_of_ordered_rows(layer):
    ordered, plain = pair(layer)
    ordered(IDS).square().sum().backward()
    plain(ORDER[IDS]).square().sum().backward()
    for got, expected in zip(ordered.cores, plain.cores, strict=True):
        torch.testing.assert_close(got.grad, expected.grad)


def test_row_order_survives_packing_copies_and_resets(layer):
    """The packed form, `from_packed`, a copy, another type, and reinitialised cores keep it."""
    ordered, plain = pair(layer)
    packed = ordered.to_packed()
    np.testing.assert_array_equal(packed.tensors()["row_order"], ORDER.numpy())
    np.testing.assert_array_equal(packed.rows(np.arange(N)), plain.to_packed().rows(ORDER.numpy()))
    for other in (layer.from_packed(packed), copy.deepcopy(ordered), copy.deepcopy(ordered).freeze("float16")):
        torch.testing.assert_close(other.eval()(IDS), ordered.eval()(IDS), rtol=2e-2, atol=1e-3)
    half = copy.deepcopy(ordered).half()
    assert half.row_order.dtype == torch.int64
    assert torch.equal(half.row_order, ORDER)
    ordered.reset_parameters()
    assert torch.equal(ordered.row_order, ORDER)


def test_compression_ratio_counts_row_order(layer):
    ordered, plain = pair(layer)
    cores = N * D / plain.compression_ratio
    assert ordered.compression_ratio == pytest.approx(N * D / (cores + N))
    assert ordered.compression_ratio == pytest.approx(ordered.to_packed().compression_ratio)
    assert layer(10_000, 64, ratio=20, row_order=torch.arange(10_000)).compression_ratio >= 20
    with pytest.raises(BadInputError, match=r"ratio: got 64, expected at most 62.38, .* row_order alone stores"):
        layer(10_000, 64, ratio=64, row_order=torch.arange(10_000))


@pytest.mark.parametrize("frozen", [True, False])
def test_checkpoints_restore_row_order(layer, frozen):
    """A checkpoint makes a plain layer ordered, as a frozen one makes it frozen; neither direction mixes orders."""
    ordered, plain = pair(layer)
    if frozen:
        ordered.freeze()
    file = io.BytesIO()
    torch.save(ordered.state_dict(), file)
    state = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    again = layer(N, D, 3, padding_idx=PADDING)
    again.load_state_dict(state)
    assert again.frozen == frozen
    assert torch.equal(again(IDS), ordered(IDS))
    assert list(again.state_dict()) == list(ordered.state_dict())
    assert "row_order" not in plain.state_dict()
    other = by_frequency(torch.arange(N), PADDING)
    assert torch.equal(other, ORDER) is False
    reordered = layer(N, D, 3, padding_idx=PADDING, row_order=other)
    reordered.load_state_dict(state)
    assert torch.equal(reordered(IDS), ordered(IDS))


@pytest.mark.parametrize("frozen", [True, False])
def test_checkpoint_that_does_not_fit_leaves_layer_unchanged(layer, frozen):
    ordered, plain = pair(layer)
    if frozen:
        ordered.freeze()
        plain.freeze()
    state = ordered.state_dict()
    moved = by_frequency(torch.arange(N))  # the padding row is elsewhere
    cases: list[tuple[dict[str, Any], str]] = [
        ({**state, "row_order": torch.zeros(N, dtype=torch.int64)}, "row_order: got no id with row 1"),
        ({**state, "row_order": moved}, "row_order: got row 16 for padding_idx 3"),
        ({**state, "row_order": ORDER[:-1]}, "size mismatch for row_order"),
        ({**state, "row_order": ORDER.float()}, "row_order: got float32"),
    ]
    for wrong, message in cases:
        target = layer(N, D, 3, padding_idx=PADDING)
        before = target(IDS)
        with pytest.raises(RuntimeError, match=message):
            target.load_state_dict(wrong)
        assert torch.equal(target(IDS), before)
        assert target.row_order is None
    target = layer(N, D, 3, padding_idx=PADDING, row_order=ORDER)
    before = target(IDS)
    with pytest.raises(RuntimeError, match=r'Missing key.*"row_order"'):
        target.load_state_dict(plain.state_dict())
    missing, _ = target.load_state_dict(plain.state_dict(), strict=False)
    assert "row_order" in missing
    assert torch.equal(target(IDS), before)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (ORDER.numpy(), "row_order: got a ndarray, expected a tensor: give torch.from_numpy"),
        (ORDER.float(), r"row_order: got float32 \[20\], expected integers \[20\]"),
        (torch.arange(19), r"row_order: got int64 \[19\], expected integers \[20\]"),
        (torch.zeros(20, dtype=torch.int32), "row_order: got no id with row 1"),
        (torch.arange(19, -1, -1), "row_order: got row 16 for padding_idx 3, expected the same"),
    ],
)
def test_invalid_row_order_is_refused(layer, order, message):
    with pytest.raises(BadInputError, match=message):
        layer(N, D, 3, padding_idx=PADDING, row_order=order)


def test_layer_keeps_copy_of_row_order(layer):
    order = ORDER.clone()
    made = layer(N, D, 3, padding_idx=PADDING, row_order=order)
    order.zero_()
    assert torch.equal(made.row_order, ORDER)
    assert "ordered" in repr(made)


def test_layer_on_meta_device_gets_row_order_from_checkpoint():
    """Large models are made on the meta device before a checkpoint is loaded."""
    with torch.device("meta"):
        layer = TTEmbedding(N, D, 3, row_order=torch.arange(N))
    assert layer.row_order.is_meta
    layer.load_state_dict(pair(TTEmbedding)[0].state_dict(), assign=True)
    assert torch.equal(layer.row_order, ORDER)


def test_lowering_of_saved_program_keeps_row_order(tmp_path, layer):
    ordered, _ = pair(layer)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = ordered
            self.head = edge_embed.TiedOutput(ordered)

        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.words(ids))

    edge_embed.save(Model(), tmp_path / "model.pt", IDS)
    lowered = edge_embed.lower(tmp_path / "model.pt")
    ((name, packed),) = lowered.tables.items()  # tied: one table
    assert name == "words"
    np.testing.assert_array_equal(packed.tensors()["row_order"], ORDER.numpy())
    assert packed.tensors()["row_order"].dtype == np.int32
    with torch.no_grad():
        torch.testing.assert_close(lowered.program.module(IDS)[0], Model().eval()(IDS))
