"""`TiedOutput`: logits, gradients into the shared table, memory, and refusals."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import edge_embed
from edge_embed import BadInputError, TiedOutput
from edge_embed.layers.rotated import rotated
from edge_embed.ops import logits as logits_module

N, D = 50, 12


def make(method: str, **options):
    torch.manual_seed(0)
    if method == "dpq-vq":
        return edge_embed.DPQEmbedding(N, D, 5, 3, variant="vq", distance_norm=False, **options)  # no batch statistics
    if method == "dpq-sx":
        return edge_embed.DPQEmbedding(N, D, 5, 3, variant="sx", distance_norm=False, **options)
    if method == "ant":
        return edge_embed.ANTEmbedding(N, D, num_anchors=7, **options)
    if method == "tr":
        return edge_embed.TREmbedding(N, D, rank=2, **options)
    return edge_embed.TTEmbedding(N, D, rank=3, **options)


METHODS = ("dpq-vq", "dpq-sx", "ant", "tt", "tr")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("state", ["training", "eval", "frozen"])
@pytest.mark.usefixtures("blocks")
def test_logits_are_products_with_every_row(method, state):
    embedding = make(method, padding_idx=2)
    embedding.train(state == "training")
    if state == "frozen":
        embedding.freeze()
    output_layer = TiedOutput(embedding, bias=torch.arange(float(N)))
    for shape in ((D,), (3, D), (2, 4, D), (0, D)):
        hidden = torch.randn(shape)
        rows = embedding(torch.arange(N))
        expected = hidden @ rows.t() + torch.arange(float(N))
        torch.testing.assert_close(output_layer(hidden), expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(output_layer(torch.randn(3, D))[:, 2], torch.full((3,), 2.0))  # the padding row, and its bias


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.usefixtures("blocks")
def test_gradients_reach_table_bias_and_hidden_states(method, bias):
    embedding = make(method, padding_idx=2, dtype=torch.float64).train()
    output_layer, hidden = TiedOutput(embedding, bias), torch.randn(4, D, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, N, dtype=torch.float64)
    (output_layer(hidden) * weight).sum().backward()
    got = [hidden.grad.clone(), *(parameter.grad.clone() for parameter in output_layer.parameters())]
    output_layer.zero_grad()
    hidden.grad = None
    rows = embedding(torch.arange(N))  # all rows at once, which VQ's own loss counts the same way
    (nn.functional.linear(hidden, rows, output_layer.bias) * weight).sum().backward()
    expected = [hidden.grad, *(parameter.grad for parameter in output_layer.parameters())]
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_bias_of_another_dtype_than_hidden_states_is_added():
    output_layer = TiedOutput(make("dpq-vq"), bias=torch.full((N,), 3.0))
    logits = output_layer(torch.zeros(2, D, dtype=torch.bfloat16))
    logits.sum().backward()
    assert logits.eq(3).all()
    assert output_layer.bias.grad.eq(2).all()


def test_tied_table_gets_gradients_from_both_ends():
    embedding = make("tt")
    output_layer = TiedOutput(embedding)
    assert {id(parameter) for parameter in output_layer.parameters()} == {
        id(parameter) for parameter in embedding.parameters()
    }
    hidden = embedding(torch.tensor([1, 2]))
    output_layer(hidden).sum().backward()
    both = [parameter.grad.clone() for parameter in embedding.parameters()]
    embedding.zero_grad()
    output_layer(hidden.detach()).sum().backward()
    one = [parameter.grad for parameter in embedding.parameters()]
    assert not any(torch.equal(ours, theirs) for ours, theirs in zip(both, one, strict=True))


def test_running_statistics_follow_output_layer_once():
    embedding = edge_embed.DPQEmbedding(N, D, 5, 3, variant="sx")
    output_layer = TiedOutput(embedding)
    output_layer(torch.randn(3, D, requires_grad=True)).sum().backward()
    once = embedding.running_mean.clone()
    assert once.abs().sum() > 0
    embedding.running_mean.zero_()
    output_layer(torch.randn(3, D))
    torch.testing.assert_close(embedding.running_mean, once)  # the backward pass did not count again


def test_dense_table_is_never_materialised_whole():
    """A step allocates blocks and gradients of the parameters, and no float storage [n, d]."""
    from torch.utils._python_dispatch import TorchDispatchMode

    n, d = 60_000, 64
    embedding = edge_embed.TTEmbedding(n, d, rank=4)
    output_layer = TiedOutput(embedding)
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                largest = max(largest, result.untyped_storage().nbytes())
            return result

    with Watch():
        output_layer(torch.randn(2, d, requires_grad=True)).sum().backward()
    assert largest < 4 * n * d / 1.7


@pytest.mark.parametrize("variant", ["vq", "sx"])
def test_query_gradient_of_step_is_written_once(variant, monkeypatch):
    """The number of blocks does not matter: a large vocabulary has hundreds."""
    from torch.utils._python_dispatch import TorchDispatchMode

    embedding = edge_embed.DPQEmbedding(N, D, 5, 3, variant=variant)
    monkeypatch.setattr(logits_module, "_BLOCK_ELEMENTS", 5 * D)  # 10 blocks
    whole = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal whole
            result = function(*args, **(kwargs or {}))
            whole += isinstance(result, torch.Tensor) and not result._is_view() and result.shape == (N, D)
            return result

    loss = TiedOutput(embedding)(torch.randn(2, D, requires_grad=True)).sum()
    with Watch():
        loss.backward()
    assert whole <= 2  # allocated, and stored in ``grad``


@pytest.mark.parametrize("num_codes", [5, 300])
def test_keys_are_compared_once_a_step(num_codes, monkeypatch):
    """SX too: the backward pass computes all its distances again, at once with their gradients."""
    from edge_embed.ops import dpq_straight_through

    embedding = edge_embed.DPQEmbedding(N, D, num_codes, 3, distance_norm=False)
    compared, find = [], dpq_straight_through.training_codes
    monkeypatch.setattr(
        dpq_straight_through, "training_codes", lambda *those: compared.append(len(those[0])) or find(*those)
    )
    monkeypatch.setattr(logits_module, "_BLOCK_ELEMENTS", 20 * D)
    logits = TiedOutput(embedding)(torch.randn(2, D, requires_grad=True))
    (logits.sum() + embedding.regularization_loss()).backward()
    assert compared == [20, 20, 10]


@pytest.mark.parametrize(("states", "calls"), [(D - 1, [20, 20, 10] * 2), (D, [N])])
def test_rows_are_kept_for_as_many_hidden_states_as_columns(states, calls, monkeypatch):
    """They take no more numbers than the logits, so the backward pass need not compute them again."""
    embedding, computed = make("dpq-sx"), []
    rows = embedding.training_rows
    monkeypatch.setattr(
        embedding, "training_rows", lambda own, *rest, **more: computed.append(len(own)) or rows(own, *rest, **more)
    )
    monkeypatch.setattr(logits_module, "_BLOCK_ELEMENTS", 20 * D)
    TiedOutput(embedding)(torch.randn(1, states, D, requires_grad=True)).sum().backward()
    assert computed == calls


@pytest.mark.parametrize("num_codes", [5, 300])
def test_centroids_are_compared_once_a_step(num_codes, monkeypatch):
    """The backward pass has the codes of the forward pass; comparing takes as long as multiplying."""
    from edge_embed.layers import dpq_mapping

    embedding = edge_embed.DPQEmbedding(N, D, num_codes, 3, variant="vq", distance_norm=False, init_scale=1.0)
    weights = embedding._distance_weights(embedding.query, torch.ones(N), False)
    code = dpq_mapping.training_codes(embedding.query, weights, "euclidean").t().long()
    chosen = embedding.value[torch.arange(3), code].detach()  # [N, 3, D / 3]
    wanted = torch.zeros_like(embedding.value)
    for group in range(3):
        pull = 2 * (chosen[:, group] - embedding.query[:, group * D // 3 : (group + 1) * D // 3]) / (N * D)
        wanted[group].index_add_(0, code[:, group], pull.detach())
    compared, find = [], dpq_mapping.training_codes
    monkeypatch.setattr(
        dpq_mapping, "training_codes", lambda query, *rest: compared.append(len(query)) or find(query, *rest)
    )
    monkeypatch.setattr(logits_module, "_BLOCK_ELEMENTS", 20 * D)
    logits = TiedOutput(embedding)(torch.randn(2, D, requires_grad=True))
    (logits.sum() + embedding.regularization_loss()).backward()
    assert compared == [20, 20, 10]
    torch.testing.assert_close(embedding.value.grad, wanted)


def test_bias_option_creates_or_shares_parameter():
    assert TiedOutput(make("ant")).bias is None
    assert torch.equal(TiedOutput(make("ant"), bias=True).bias, torch.zeros(N))
    with pytest.raises(BadInputError, match=rf"bias: got shape \[3\], expected \[{N}\]"):
        TiedOutput(make("ant"), bias=torch.zeros(3))


@pytest.mark.parametrize("bias", [True, False])
def test_sizes_match_those_of_linear_layer(bias):
    output_layer, dense = TiedOutput(make("ant"), bias), nn.Linear(D, N, bias)
    assert (output_layer.in_features, output_layer.out_features) == (dense.in_features, dense.out_features)
    assert output_layer.extra_repr() == dense.extra_repr()


def test_inputs_that_do_not_fit_output_layer_are_refused():
    with pytest.raises(BadInputError, match=r"got a Embedding, expected a compressed embedding layer"):
        TiedOutput(nn.Embedding(3, 4))
    for training in (True, False):
        output_layer = TiedOutput(make("tt")).train(training)
        with pytest.raises(BadInputError, match=rf"\[\*, {D}\], the width of the table: got \[2, 5\]"):
            output_layer(torch.randn(2, 5))
        with pytest.raises(BadInputError, match=r"must be a float tensor, got torch.int64"):
            output_layer(torch.zeros(2, D, dtype=torch.int64))


@pytest.mark.parametrize("method", METHODS)
def test_mixed_precision_gives_dtype_of_hidden_states(method):
    """Hidden states have another type than the table, as under autocast."""
    output_layer = TiedOutput(make(method))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = output_layer(nn.Linear(D, D)(torch.randn(2, D)))
    logits.float().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in output_layer.parameters() if parameter.grad is not None)
    for dtype in (torch.float16, torch.float64):
        for training in (True, False):
            assert output_layer.train(training)(torch.randn(2, D, dtype=dtype)).dtype == dtype


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("state", ["training", "eval", "frozen"])
def test_logits_under_autocast_match_linear_layer(method, state):
    """The number of blocks and the float type of the hidden states do not matter."""
    embedding = make(method).train(state == "training")
    if state == "frozen":
        embedding.freeze()
    output_layer = TiedOutput(embedding, bias=torch.arange(float(N)))
    with torch.no_grad():
        dense = embedding(torch.arange(N))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        hidden = torch.randn(3, D, dtype=dtype)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits, best, expected = (
                output_layer(hidden),
                output_layer.topk(hidden, 2),
                functional.linear(hidden, dense, output_layer.bias),
            )
        assert logits.dtype == best.values.dtype == expected.dtype == torch.bfloat16
        # Rows of trains are sums of bfloat16 products, of 8 bits each.
        torch.testing.assert_close(logits, expected, rtol=0, atol=2**-6 * float(expected.detach().abs().max()))
    if state == "training":
        logits.sum().backward()
        assert all(p.grad.isfinite().all() for p in output_layer.parameters() if p.grad is not None)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("method", ["ant", "tt"])
def test_bias_of_another_dtype_keeps_dtype_of_hidden_states(method, training):
    output_layer = TiedOutput(make(method), bias=True).train(training)
    for dtype in (torch.bfloat16, torch.float64):
        assert output_layer(torch.randn(2, D, dtype=dtype)).dtype == dtype


def test_compiled_output_layer_under_autocast_matches_eager():
    output_layer, hidden = TiedOutput(make("ant"), bias=True).eval(), torch.randn(2, D)
    compiled = torch.compile(output_layer, fullgraph=True, backend="eager")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(compiled(hidden), output_layer(hidden))
    assert compiled(hidden).dtype == torch.float32


def test_rotated_rows_keep_their_dtype_under_autocast():
    layer = rotated(make("dpq-vq").eval(), torch.eye(D))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(torch.arange(3)).dtype == nn.Embedding(3, D)(torch.arange(3)).dtype == torch.float32


def test_bias_given_as_parameter_stays_same_object():
    bias = nn.Parameter(torch.zeros(N))
    assert TiedOutput(make("tt"), bias).bias is bias
    for wrong in ([0.0] * N, 1, torch.zeros(N, dtype=torch.int64)):
        with pytest.raises(BadInputError, match="expected a float tensor, True or None"):
            TiedOutput(make("tt"), wrong)
