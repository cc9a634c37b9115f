"""`TiedOutput.topk`: the largest logits in order, in every state; gradients, memory, and refusals."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import edge_embed
from edge_embed import BadInputError, TiedOutput
from edge_embed.ops import logits as logits_module

N, D = 50, 12
METHODS = ("dpq-vq", "dpq-sx", "ant", "tt", "tr")


def make(method: str, n: int = N, **options):
    torch.manual_seed(0)
    if method == "ant":
        return edge_embed.ANTEmbedding(n, D, num_anchors=7, **options)
    if method == "tt":
        return edge_embed.TTEmbedding(n, D, rank=3, **options)
    if method == "tr":
        return edge_embed.TREmbedding(n, D, rank=2, **options)
    return edge_embed.DPQEmbedding(n, D, 2, 3, variant=method[-2:], distance_norm=False, **options)  # many equal rows


def in_state(method: str, state: str, **options):
    embedding = make(method, padding_idx=2, **options).train(state == "training")
    return embedding.freeze() if state == "frozen" else embedding


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("state", ["training", "eval", "frozen"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.usefixtures("blocks")
def test_topk_gives_first_of_sorted_logits(method, state, biased):
    output_layer = TiedOutput(in_state(method, state), torch.randint(-1, 2, (N,)).float() if biased else None)
    for shape in ((D,), (3, D), (2, 4, D), (0, D)):
        hidden = torch.randn(shape)
        expected = torch.sort(output_layer(hidden), dim=-1, descending=True, stable=True)
        for k in (1, 9, N):
            got = output_layer.topk(hidden, k)
            assert torch.equal(got.values, expected.values[..., :k])
            assert torch.equal(got.ids, expected.indices[..., :k])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("state", ["training", "eval", "frozen"])
def test_topk_of_equal_rows_gives_lowest_ids(method, state):
    output_layer = TiedOutput(in_state(method, state))
    assert output_layer.topk(torch.zeros(2, D), 20).ids.tolist() == [list(range(20))] * 2


@pytest.mark.parametrize("method", METHODS)
def test_gradients_match_those_of_chosen_logits(method):
    output_layer = TiedOutput(make(method, padding_idx=2, dtype=torch.float64), bias=True).train()
    hidden = torch.randn(4, D, dtype=torch.float64, requires_grad=True)
    leaves, weight = [hidden, *output_layer.parameters()], torch.randn(4, 5, dtype=torch.float64)
    values, ids = output_layer.topk(hidden, 5)
    got = torch.autograd.grad((values * weight).sum(), leaves)
    expected = torch.autograd.grad((output_layer(hidden).gather(-1, ids) * weight).sum(), leaves)
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    assert any(gradient.any() for gradient in got)


def test_logits_are_never_materialised_whole():
    n, largest = 100_000, 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            results = function(*args, **(kwargs or {}))
            for result in results if isinstance(results, tuple) else (results,):
                if isinstance(result, torch.Tensor):
                    largest = max(largest, result.untyped_storage().nbytes())
            return results

    output_layer, hidden = TiedOutput(make("tt", n)).eval(), torch.randn(64, D)
    with Watch(), torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(logits_module, "_BLOCK_ELEMENTS", 1000 * D)
        output_layer.topk(hidden, 10)
    assert largest < 64 * n * 4 / 10


@pytest.mark.parametrize("state", ["training", "eval", "frozen"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_topk_values_have_dtype_of_hidden_states(state, dtype):
    got = TiedOutput(in_state("ant", state), bias=True).topk(torch.randn(2, D, dtype=dtype), 3)
    assert (got.values.dtype, got.ids.dtype) == (dtype, torch.int64)


@pytest.mark.parametrize("training", [True, False])
def test_topk_of_invalid_arguments_is_refused(training):
    output_layer = TiedOutput(make("tt"), bias=True).train(training)
    for k in (0, N + 1, 2.0, None, torch.tensor(3)):
        with pytest.raises(BadInputError, match=rf"k: got .*, expected a constant integer from 1 to {N}, the rows"):
            output_layer.topk(torch.ones(2, D), k)
    with pytest.raises(BadInputError, match=rf"\[\*, {D}\], the width of the table: got \[2, 5\]"):
        output_layer.topk(torch.ones(2, 5), 3)
    with pytest.raises(BadInputError, match="must be a float tensor, got list"):
        output_layer.topk([1.0] * D, 3)
