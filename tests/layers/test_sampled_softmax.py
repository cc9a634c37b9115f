"""Sampled softmax: equal to the full softmax if every row is sampled once, and right on average with few samples."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import edge_embed
from edge_embed import BadInputError, IdOutOfRangeError, TiedOutput
from edge_embed.layers.sampled_softmax import draw, log_uniform, sampled_softmax_loss

N, D = 12, 6
LAYERS = {
    "ant": lambda **options: edge_embed.ANTEmbedding(N, D, 5, **options),
    "ant softmax": lambda **options: edge_embed.ANTMixtureEmbedding(N, D, (2, 3), **options),
    "ant bag": lambda **options: edge_embed.ANTEmbeddingBag(N, D, 5, **options),
    "dpq": lambda **options: edge_embed.DPQEmbedding(N, D, 3, 2, variant="vq", distance_norm=False, **options),
    "tt": lambda **options: edge_embed.TTEmbedding(N, D, 2, **options),
}
OUTPUT_LAYER = TiedOutput(LAYERS["ant"]())


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def made(method: str = "ant", bias: bool = True) -> tuple[TiedOutput, torch.Tensor, torch.Tensor]:
    output_layer = TiedOutput(
        LAYERS[method](padding_idx=0, dtype=torch.float64), bias=torch.randn(N).double() if bias else None
    )
    hidden = torch.randn(2, 3, D, dtype=torch.float64, requires_grad=True)
    return output_layer, hidden, torch.tensor([[3, 11, 0], [3, 5, 4]])


@pytest.mark.parametrize("method", LAYERS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_sampled_softmax_of_each_row_once_equals_full_softmax(method, bias, training):
    output_layer, hidden, targets = made(method, bias)
    output_layer.train(training)
    parameters = [hidden, *output_layer.parameters()]
    every = torch.randperm(N), torch.ones(N)
    loss = sampled_softmax_loss(output_layer, hidden, targets, *every)
    expected = functional.cross_entropy(output_layer(hidden).flatten(0, 1), targets.flatten())
    torch.testing.assert_close(loss, expected)
    regularised = method == "dpq" and training  # DPQ's own loss counts the rows of a step
    gradients = (torch.autograd.grad(one, parameters, allow_unused=True) for one in (loss, expected))
    for parameter, got, wanted in zip(parameters, *gradients, strict=True):
        if got is not None and (parameter is hidden or not regularised):
            torch.testing.assert_close(got, wanted)


def test_padding_targets_are_left_out():
    output_layer, hidden, targets = made()
    padded = torch.cat((targets, torch.full((2, 1), -100)), 1)
    states = torch.cat((hidden, torch.full((2, 1, D), torch.nan)), 1)
    every = torch.arange(N), torch.ones(N)
    losses = [sampled_softmax_loss(output_layer, *batch, *every) for batch in ((states, padded), (hidden, targets))]
    torch.testing.assert_close(*losses)
    gradients = [torch.autograd.grad(loss, hidden)[0] for loss in losses]
    torch.testing.assert_close(*gradients)


@pytest.mark.slow
def test_sum_over_sampled_rows_is_right_on_average():
    """exp(loss + o_t) estimates the sum of exponentials of all rows, for probabilities far from the ideal ones."""
    output_layer, hidden, _ = made()
    hidden, target = hidden[0, :1].detach() / 4, torch.tensor([4])
    logits = output_layer(hidden).detach()[0]
    chances = torch.rand(N) + 0.2
    sums = torch.stack(
        [
            (sampled_softmax_loss(output_layer, hidden, target, draw(chances, 20), chances) + logits[4]).exp().detach()
            for _ in range(4000)
        ]
    )
    wanted, deviation = logits.exp().sum(), sums.std() / math.sqrt(len(sums))
    assert sums.std() > 0.05 * wanted
    assert abs(sums.mean() - wanted) < 4 * deviation
    assert 4 * deviation < 0.05 * wanted


def test_loss_of_many_samples_approaches_full_softmax():
    output_layer, hidden, targets = made()
    chances = log_uniform(N)
    expected = functional.cross_entropy(output_layer(hidden).flatten(0, 1), targets.flatten())
    errors = [
        abs(sampled_softmax_loss(output_layer, hidden, targets, draw(chances, k), chances) - expected)
        for k in (2, 20_000)
    ]
    assert errors[1] < 0.02 < errors[0]


def test_gradient_reaches_only_target_and_sampled_rows():
    output_layer, hidden, targets = made()
    sampled_softmax_loss(output_layer, hidden, targets, torch.tensor([7, 7, 9]), torch.ones(N)).backward()
    touched = output_layer.embedding.transform.grad.abs().sum(1).nonzero().squeeze(1)
    assert touched.tolist() == [3, 4, 5, 7, 9, 11]  # 0 is padding
    assert output_layer.bias.grad.nonzero().squeeze(1).tolist() == [0, 3, 4, 5, 7, 9, 11]


def test_sample_that_is_target_does_not_count():
    output_layer, hidden, _ = made()
    loss = sampled_softmax_loss(output_layer, hidden[0, 0], torch.tensor(4), torch.tensor([4, 4]), torch.ones(N))
    assert loss == 0


def test_samples_follow_probabilities_and_generator():
    chances = torch.tensor([0.0, 3.0, 0.0, 1.0, 0.0])
    one, two = (draw(chances, 4000, torch.Generator().manual_seed(4)) for _ in range(2))
    assert torch.equal(one, two)
    counts = one.bincount(minlength=5)
    assert counts[[0, 2, 4]].tolist() == [0, 0, 0]
    assert counts[1].item() / 4000 == pytest.approx(0.75, abs=0.03)
    zipf = log_uniform(1000)
    assert (zipf / zipf.sum())[[0, 9]].tolist() == pytest.approx(
        [math.log(2) / math.log(1001), math.log(1.1) / math.log(1001)]
    )


def test_table_learns_from_samples():
    """Each step samples 4 next words of a cycle of 12; the full softmax checks the result."""
    output_layer, words = TiedOutput(edge_embed.ANTEmbedding(N, 16, 12), bias=True), nn.Embedding(N, 16)
    optimizer = edge_embed.ProximalOptimizer(
        edge_embed.Yogi([*output_layer.parameters(), *words.parameters()], 0.05), output_layer, 1e-4
    )
    ids, chances = torch.arange(N), log_uniform(N)
    for _ in range(200):
        optimizer.zero_grad()
        sampled_softmax_loss(output_layer, words(ids), (ids + 1) % N, draw(chances, 4), chances).backward()
        optimizer.step()
    assert torch.equal(output_layer(words(ids)).argmax(-1), (ids + 1) % N)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32(dtype):
    output_layer, hidden = TiedOutput(LAYERS["ant"](dtype=dtype)), torch.randn(3, D, dtype=dtype)
    loss = sampled_softmax_loss(output_layer, hidden, torch.tensor([1, 2, 3]), torch.tensor([5, 6]), torch.ones(N))
    assert loss.dtype == torch.float32
    assert loss.isfinite()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: _loss(output_layer=OUTPUT_LAYER.embedding),
            BadInputError,
            "got a ANTEmbedding, expected an edge_embed.TiedOutput",
        ),
        (lambda: _loss(hidden=torch.ones(2, 5)), BadInputError, r"must be \[\*, 6\]"),
        (lambda: _loss(targets=torch.tensor([1])), BadInputError, r"got targets \[1\] and hidden states \[2, 6\]"),
        (lambda: _loss(targets=torch.tensor([1, N])), IdOutOfRangeError, "id 12 is out of range"),
        (lambda: _loss(targets=torch.ones(2)), BadInputError, "must be integers"),
        (lambda: _loss(sampled=torch.tensor([-1])), IdOutOfRangeError, "id -1 is out of range"),
        (
            lambda: _loss(sampled=torch.zeros(0, dtype=torch.int64)),
            BadInputError,
            r"got 12 chances and sampled ids \[0\]",
        ),
        (lambda: _loss(chances=torch.ones(5)), BadInputError, "got 5 chances .* expected 12 chances, one for each row"),
        (lambda: _loss(chances=torch.eye(N)[0]), BadInputError, "chances: got 0 for a sampled id"),
        (lambda: _loss(chances=-torch.ones(N)[:, None]), BadInputError, r"chances: got \[12, 1\], expected"),
        (lambda: draw(torch.tensor([1.0, -0.1]), 2), BadInputError, "below 0"),
        (lambda: draw(torch.tensor([1.0, math.nan]), 2), BadInputError, "not finite"),
        (lambda: draw(torch.zeros(3), 2), BadInputError, "all 0"),
        (lambda: draw(torch.zeros(0), 2), BadInputError, "all 0"),
        (lambda: draw(-torch.ones(N), 2), BadInputError, "chances: got numbers that are below 0"),
        (lambda: draw([1, 2], 2), BadInputError, r"chances: got \[1, 2\]"),
        (lambda: draw(torch.ones(3), 0), BadInputError, "count must be at least 1"),
        (lambda: log_uniform(0), BadInputError, "num_embeddings must be at least 1"),
    ],
)
def test_invalid_arguments_of_sampled_softmax_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def _loss(**changed: object) -> torch.Tensor:
    given = {
        "output_layer": OUTPUT_LAYER,
        "hidden": torch.ones(2, D),
        "targets": torch.tensor([1, 2]),
        "sampled": torch.tensor([3, 4]),
        "chances": torch.ones(N),
    }
    return sampled_softmax_loss(**{**given, **changed})
