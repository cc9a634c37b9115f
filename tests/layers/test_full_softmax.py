"""Eq. (35): a step with the sparse gradient equals the step with the full gradient, by dense formulas in float64."""

import pytest
import torch
from torch.nn import functional

import edge_embed
from edge_embed import BadInputError, IdOutOfRangeError, ProximalOptimizer, TiedOutput
from edge_embed.layers.full_softmax import full_softmax_loss
from edge_embed.ops import logits as logits_module

from ..largest_tensor import LargestTensor

N, D, A = 60, 6, 8
RATE = 0.5


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=[None, 7], ids=["one block", "blocks of 7 rows"])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(logits_module, "_BLOCK_ELEMENTS", request.param * 10)


def made(bias: bool = True, padding_idx: int | None = 0) -> tuple[TiedOutput, torch.Tensor, torch.Tensor]:
    """Return a sparse table with empty rows, and negative entries in rows of targets; 10 hidden states."""
    targets = torch.randint(N, (2, 5))
    layer = edge_embed.ANTEmbedding(N, D, A, padding_idx, dtype=torch.float64)
    with torch.no_grad():
        layer.anchors.normal_()
        layer.transform.copy_(torch.rand(N, A) * (torch.rand(N, A) < 0.2))
        layer.transform[40:] = 0
        layer.transform[targets[0], :4] = -1e-3
    output_layer = TiedOutput(layer, bias=torch.randn(N).double() if bias else None)
    return output_layer, torch.randn(2, 5, D, dtype=torch.float64, requires_grad=True), targets


def cross_entropy(output_layer: TiedOutput, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(output_layer(hidden).flatten(0, -2), targets.flatten())


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("padding_idx", [None, 0])
@pytest.mark.parametrize("penalty", [0.0, 1e-3, 1e-2])
def test_step_matches_equation_35_in_full(penalty, padding_idx, bias):
    """T = max(T - rate (g^T (A h)^T + penalty), 0) with the dense product, and everything else as by cross entropy."""
    output_layer, hidden, targets = made(bias, padding_idx)
    layer, parameters = output_layer.embedding, [hidden, *output_layer.parameters()]
    expected = cross_entropy(output_layer, hidden, targets)
    dense = dict(zip(map(id, parameters), torch.autograd.grad(expected, parameters), strict=True))

    states, weights = hidden.detach().reshape(-1, D), layer.transform.detach().clamp(min=0)
    g = output_layer(states).detach().softmax(-1) - functional.one_hot(targets.flatten(), N)
    product = (g.t() @ (states @ layer.anchors.detach().t())) / len(states)  # mean over 10 states
    if padding_idx is not None:
        product[padding_idx] = 0
    product[layer.transform < 0] = 0  # an entry below zero counts as zero and gets no gradient
    wanted = (layer.transform.detach() - RATE * (product + penalty)).clamp(min=0)

    loss = full_softmax_loss(output_layer, hidden, targets, penalty)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    for parameter in parameters:
        if parameter is not layer.transform:
            torch.testing.assert_close(parameter.grad, dense[id(parameter)])
    assert layer.transform.grad.is_sparse
    ProximalOptimizer(torch.optim.SGD(layer.parameters(), RATE), layer, penalty).step()
    torch.testing.assert_close(layer.transform.detach(), wanted)
    assert (wanted > 0).any()
    assert ((wanted > 0) & (weights == 0)).any()  # zeros become positive


def test_padding_targets_are_left_out():
    output_layer, hidden, targets = made()
    targets[0, 1:3] = -100
    loss = full_softmax_loss(output_layer, hidden, targets, 0.0)
    expected = cross_entropy(output_layer, hidden, targets)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(*(torch.autograd.grad(one, hidden)[0] for one in (loss, expected)))


def test_gradient_has_only_entries_that_survive_proximal_step():
    output_layer, hidden, targets = made(padding_idx=None)
    transform = output_layer.embedding.transform
    counts = []
    for penalty in (0.0, 3e-3, 1e6):
        transform.grad = None
        full_softmax_loss(output_layer, hidden, targets, penalty).backward()
        counts.append(transform.grad._nnz())
    assert counts[0] < N * A
    assert counts[0] > counts[1] > counts[2] == int((transform > 0).sum())


def test_rows_that_cannot_rise_are_not_multiplied():
    """A third of the rows is empty, and no gradient reaches the penalty."""
    output_layer, hidden, targets = made(bias=False)
    rows = int((output_layer.embedding.transform > 0).any(1).sum())
    assert rows < 40
    with torch.profiler.profile(record_shapes=True) as profile:
        full_softmax_loss(output_layer, hidden[0], targets[0], 1e3).backward()
    products = [event.input_shapes[:2] for event in profile.events() if event.name == "aten::mm"]
    assert [[rows, 5], [5, A]] in products
    assert [[N, 5], [5, A]] not in products


def test_full_softmax_makes_no_full_logits_or_dense_gradient(monkeypatch):
    monkeypatch.setattr(logits_module, "_BLOCK_ELEMENTS", 4000)
    layer = edge_embed.ANTEmbedding(4000, 8, 20)
    with torch.no_grad():
        layer.transform.mul_(torch.rand(4000, 20) < 0.05)
    output_layer, hidden = TiedOutput(layer), torch.randn(30, 8, requires_grad=True)
    targets = torch.randint(4000, (30,))
    with LargestTensor() as largest:
        full_softmax_loss(output_layer, hidden, targets, 1e-2).backward()
    assert largest.numel < 4000 * 20 / 4
    with LargestTensor() as largest:
        cross_entropy(output_layer, hidden, targets).backward()
    assert largest.numel >= 4000 * 20


def test_language_model_learns_with_full_softmax():
    """Next words of a cycle, with the whole loop: loss, SGD, proximal step."""
    output_layer = TiedOutput(edge_embed.ANTEmbedding(12, 16, 6), bias=True)
    words = torch.nn.Embedding(12, 16)
    optimizer = ProximalOptimizer(
        torch.optim.SGD([*output_layer.parameters(), *words.parameters()], 0.5), output_layer, 1e-4
    )
    ids = torch.arange(12)
    for _ in range(500):
        optimizer.zero_grad()
        full_softmax_loss(output_layer, words(ids), (ids + 1) % 12, optimizer.penalty).backward()
        optimizer.step()
    assert torch.equal(output_layer(words(ids)).argmax(-1), (ids + 1) % 12)
    assert (output_layer.embedding.transform > 0).float().mean() < 0.8


def test_half_precision_is_summed_in_float32():
    output_layer = TiedOutput(edge_embed.ANTEmbedding(N, D, A, dtype=torch.float16))
    hidden = torch.randn(3, D, dtype=torch.float16)
    loss = full_softmax_loss(output_layer, hidden, torch.tensor([1, 2, 3]), 1e-3)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(
        loss, cross_entropy(output_layer, hidden, torch.tensor([1, 2, 3])).float(), rtol=2e-3, atol=2e-3
    )
    loss.backward()
    assert output_layer.embedding.transform.grad.dtype == torch.float16


def test_invalid_arguments_of_full_softmax_are_refused():
    output_layer, hidden, targets = made()
    for bad, message in (
        (
            edge_embed.TTEmbedding(N, D, 2),
            "output_layer: got an output layer over a TTEmbedding, expected an ANTEmbedding; sampled_softmax_loss",
        ),
        (
            edge_embed.ANTMixtureEmbedding(N, D, (4, 4)),
            "got an output layer over a ANTMixtureEmbedding with mixing='softmax', expected",
        ),
        (edge_embed.ANTEmbedding(N, D, 4).freeze(), "the layer is frozen"),
    ):
        with pytest.raises(BadInputError, match=message):
            full_softmax_loss(TiedOutput(bad), hidden.float(), targets, 0)
    for penalty in (-1, float("nan"), None):
        with pytest.raises(BadInputError, match="penalty must be a finite number"):
            full_softmax_loss(output_layer, hidden, targets, penalty)
    with pytest.raises(BadInputError, match=r"got a ANTEmbedding, expected an edge_embed\.TiedOutput"):
        full_softmax_loss(output_layer.embedding, hidden, targets, 0)
    with pytest.raises(IdOutOfRangeError, match="id 60 is out of range"):
        full_softmax_loss(output_layer, hidden[0], torch.full((5,), N), 0)
    loss = full_softmax_loss(
        TiedOutput(edge_embed.ANTMixtureEmbedding(N, D, (4, 4), "linear")), hidden.float(), targets, 0
    )
    assert loss.isfinite()
