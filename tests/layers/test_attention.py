"""Attention with entmax: equal to nn.MultiheadAttention under softmax, and the kernel equal to torch."""

import copy
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import prune

import edge_embed
from edge_embed import SparseMultiheadAttention, use_sparse_attention
from edge_embed.errors import BadInputError
from edge_embed.ops import training_library
from edge_embed.ops.attention import attention

E, H, T, S = 8, 2, 5, 6
ACTIVATIONS = ("entmax15", "sparsemax", 1.25, "learned")


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def pair(activation="softmax", **options):
    """Return nn.MultiheadAttention and ours with the same parameters, whose biases are not 0."""
    torch.manual_seed(0)
    dense = nn.MultiheadAttention(E, H, **options).eval()
    for parameter in dense.parameters():
        nn.init.normal_(parameter, std=0.3)
    ours = SparseMultiheadAttention(E, H, **options, activation=activation).eval()
    ours.load_state_dict(dense.state_dict(), strict=activation != "learned")
    return dense, ours


@st.composite
def calls(draw):
    flag = st.booleans()
    options = {name: draw(flag) for name in ("bias", "add_bias_kv", "add_zero_attn", "batch_first")}
    options |= {"kdim": draw(st.sampled_from([None, 3])), "vdim": draw(st.sampled_from([None, 7]))}
    is_self = options["kdim"] is None and options["vdim"] is None and draw(flag)
    keys, is_batched, kind = T if is_self else S, draw(flag), draw(st.sampled_from([bool, float]))
    batch = 3 if is_batched else 1
    masks = {}
    seed = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    if draw(flag):
        shape = (T, keys) if draw(flag) else (batch * H, T, keys)
        masks["attn_mask"] = torch.rand(shape, generator=seed) < 0.4
        masks["attn_mask"][..., 0] = False  # of rows without any key, nn.MultiheadAttention makes NaN
    if draw(flag):
        masks["key_padding_mask"] = torch.rand((batch, keys), generator=seed) < 0.4
        masks["key_padding_mask"][:, 0] = False
        if not is_batched:
            masks["key_padding_mask"] = masks["key_padding_mask"][0]
    if kind is float:
        masks = {
            name: torch.rand(each.shape, generator=seed).masked_fill(each, -torch.inf) for name, each in masks.items()
        }
    masks |= {"need_weights": draw(flag), "average_attn_weights": draw(flag)}
    inputs = [random(batch, T, E, seed=1)]
    if not is_self:
        inputs += [random(batch, keys, options["kdim"] or E, seed=2), random(batch, keys, options["vdim"] or E, seed=3)]
    if not is_batched:
        inputs = [each[0] for each in inputs]
    elif not options["batch_first"]:
        inputs = [each.transpose(0, 1) for each in inputs]
    return options, inputs, masks


def outputs_and_gradients(module, inputs, masks):
    leaves = [each.detach().clone().requires_grad_() for each in inputs]
    out, weights = module(*(leaves * 3 if len(leaves) == 1 else leaves), **masks)
    (out * random(*out.shape, seed=5)).sum().backward()
    gradients = [*(leaf.grad for leaf in leaves), *(p.grad for p in module.parameters())]
    module.zero_grad()
    return [out, weights, *gradients]


@settings(max_examples=40, deadline=None)
@given(calls())
def test_softmax_attention_equals_that_of_torch_with_gradients(call):
    options, inputs, masks = call
    found, expected = (outputs_and_gradients(each, inputs, masks) for each in reversed(pair(**options)))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@settings(max_examples=30, deadline=None)
@given(calls(), st.sampled_from(ACTIVATIONS))
def test_kernel_in_inference_equals_torch(call, activation):
    options, inputs, masks = call
    _, ours = pair(activation, **options)
    inputs = inputs * 3 if len(inputs) == 1 else inputs
    expected = ours(*inputs, **masks)  # with gradients, torch computes
    with torch.no_grad():
        torch.testing.assert_close(ours(*inputs, **masks), expected, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("activation", ["softmax", *ACTIVATIONS])
def test_query_without_keys_gives_zero_and_finite_gradients(activation):
    _, ours = pair(activation, batch_first=True)
    x, mask = random(2, T, E).requires_grad_(), torch.zeros(2, T, dtype=torch.bool)
    mask[0] = True
    for need_weights in (True, False):
        out, weights = ours(x, x, x, key_padding_mask=mask, need_weights=need_weights)
        torch.testing.assert_close(out[0], ours.out_proj.bias.expand(T, E))
        assert weights is None or (weights[0] == 0).all()
        out.sum().backward()
        assert x.grad.isfinite().all()
        with torch.no_grad():
            torch.testing.assert_close(ours(x, x, x, mask, need_weights)[0], out)


def test_kernel_reads_no_value_of_a_zero(monkeypatch):
    q, k, v = random(1, H, T, 4, seed=1) * 9, random(1, H, 40, 4, seed=2), random(1, H, 40, 4, seed=3)
    with torch.no_grad():
        expected, p = attention(q, k, v, 2.0, need_weights=True)
        unused = (p == 0).all(2)  # [1, H, S]
        assert unused.any()
        v[unused] = torch.nan
        assert torch.equal(attention(q, k, v, 2.0)[0], expected)
        monkeypatch.setattr(training_library, "library", lambda: None)
        assert attention(q, k, v, 2.0)[0].isnan().any()


def test_kernel_splits_rows_over_threads(monkeypatch):
    q, k, v = random(3, H, 65, 16, seed=1), random(3, 1, 200, 16, seed=2), random(3, 1, 200, 16, seed=3)
    with torch.no_grad():
        expected = attention(q, k, v, 1.5)[0]
        monkeypatch.setattr("edge_embed.ops.attention_kernels._LEAST_WORK", 1000)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 5)
        torch.testing.assert_close(attention(q, k, v, 1.5)[0], expected, atol=1e-6, rtol=1e-6)


def test_learned_alphas_change_and_have_exact_gradients():
    _, ours = pair("learned", batch_first=True)
    x = random(2, T, E)
    (ours(x, x, x)[0] * random(2, T, E, seed=4)).sum().backward()
    assert set(ours.state_dict()) == {*nn.MultiheadAttention(E, H).state_dict(), "activation.alpha_logit"}
    logit = ours.activation.alpha_logit
    ours.double()
    assert torch.autograd.gradcheck(
        lambda a: torch.func.functional_call(ours, {"activation.alpha_logit": a}, (x.double(),) * 3)[0],
        logit.detach().double().requires_grad_(),
    )
    begun = SparseMultiheadAttention(E, H, activation=edge_embed.Entmax(1.2, num_heads=H))
    torch.testing.assert_close(begun.activation.alpha, torch.full((H,), 1.2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtypes_and_autocast_are_near_float32(dtype):
    _, ours = pair("learned", batch_first=True)
    x = random(2, T, E)
    expected, p = ours(x, x, x)
    found, q = copy.deepcopy(ours).to(dtype)(*[x.to(dtype)] * 3)
    assert found.dtype == q.dtype == dtype
    torch.testing.assert_close((found.float(), q.float()), (expected, p), atol=0.05, rtol=0.05)
    if dtype == torch.bfloat16:
        with torch.autocast("cpu", dtype):
            torch.testing.assert_close(ours(x, x, x)[0].float(), expected, atol=0.05, rtol=0.05)


def test_dropout_keeps_the_mean_in_training():
    _, ours = pair("entmax15", dropout=0.5, batch_first=True)
    x = random(1, T, E).expand(4000, T, E)
    expected = ours(x[:1], x[:1], x[:1])[0]
    torch.manual_seed(0)
    torch.testing.assert_close(ours.train()(x, x, x)[0].mean(0, keepdim=True), expected, atol=0.1, rtol=0)


@pytest.mark.slow
def test_attention_is_exported_with_dynamic_lengths():
    _, ours = pair("learned", batch_first=True)
    x = random(2, T, E)
    length = torch.export.Dim("length", min=2, max=50)
    program = torch.export.export(ours, (x, x, x), dynamic_shapes=({1: length},) * 3, strict=False)
    longer = random(2, 9, E)
    torch.testing.assert_close(program.module()(*[longer] * 3), ours(*[longer] * 3), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("option", ["add_bias_kv", "add_zero_attn"])
def test_batch_of_attention_with_added_keys_is_dynamic(option):
    module = pair("entmax15", batch_first=True, **{option: True})[1]
    batch = torch.export.Dim("batch", min=1, max=9)
    x = random(2, T, E)
    program = torch.export.export(
        module, (x, x, x), dynamic_shapes={name: {0: batch} for name in ("query", "key", "value")}
    )
    more = random(5, T, E)
    torch.testing.assert_close(program.module()(more, more, more)[0], module(more, more, more)[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("needs_gradients", [True, False])
@pytest.mark.parametrize("shape", [(2,), (3,), (4, 1), (0,)], ids=str)
def test_alphas_of_other_attention_heads_are_refused(needs_gradients, shape):
    query = random(1, 4, T, E).requires_grad_(needs_gradients)
    with pytest.raises(BadInputError, match=r"alpha: got shape .*, expected \[4\], one for each attention head"):
        attention(query, query, query, torch.full(shape, 1.3))


def test_pruned_attention_is_refused_with_a_remedy():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(E, H, 16, batch_first=True), 1)
    dense = encoder.layers[0].self_attn
    prune.l1_unstructured(dense, "in_proj_weight", 0.5)
    with pytest.raises(BadInputError, match=r"dense: got parameters .*in_proj_weight_orig.*: undo pruning"):
        use_sparse_attention(encoder)
    assert encoder.layers[0].self_attn is dense
    prune.remove(dense, "in_proj_weight")
    assert use_sparse_attention(encoder) == ["layers.0.self_attn"]


def test_module_of_another_kind_is_refused():
    with pytest.raises(BadInputError, match=r"dense: got Linear, expected nn\.MultiheadAttention"):
        SparseMultiheadAttention.from_dense(nn.Linear(2, 2))


def test_nested_tensor_is_refused_by_name():
    nested = torch.nested.nested_tensor([random(2, E), random(3, E)])
    with pytest.raises(BadInputError, match="query: got a Tensor that is no dense tensor"):
        SparseMultiheadAttention(E, H, batch_first=True)(nested, nested, nested)


@pytest.mark.parametrize("dropout", ["a", None, True, -0.1, float("nan")])
def test_dropout_that_is_no_probability_is_refused(dropout):
    with pytest.raises(BadInputError, match=r"dropout: got .*, expected a probability"):
        SparseMultiheadAttention(E, H, dropout=dropout)


def test_compiled_attention_equals_eager():
    _, ours = pair("learned", batch_first=True)
    x = random(2, T, E)
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, x, x), ours(x, x, x), atol=1e-5, rtol=1e-4)


class TestSwap:
    @pytest.mark.parametrize("batch_first", [True, False])
    def test_transformer_with_softmax_is_unchanged(self, batch_first):
        torch.manual_seed(0)
        model = nn.Transformer(E, H, 2, 2, 16, batch_first=batch_first).eval()
        x, y = random(3, T, E), random(3, S, E, seed=1)
        x, y = (x, y) if batch_first else (x.transpose(0, 1), y.transpose(0, 1))
        masks = {"tgt_mask": model.generate_square_subsequent_mask(S), "tgt_is_causal": True}
        with torch.no_grad():
            expected = model(x, y, **masks)
            names = use_sparse_attention(model, "softmax")
            torch.testing.assert_close(model(x, y, **masks), expected, atol=1e-5, rtol=1e-4)
        assert len(names) == 6
        assert names[-1] == "decoder.layers.1.multihead_attn"

    def test_fast_path_of_encoder_is_not_taken(self):
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(E, H, 16, batch_first=True)
        model = nn.TransformerEncoder(layer, 2).eval()
        x, padding = random(2, T, E), torch.arange(T) >= torch.tensor([[3], [T]])
        parameters = dict(model.named_parameters())
        use_sparse_attention(model, "sparsemax")
        expected = model(x, src_key_padding_mask=padding)
        with torch.no_grad():
            torch.testing.assert_close(model(x, src_key_padding_mask=padding), expected, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(model.layers[0](x), model.layers[0].train(False)(x))
        assert all(parameters[name] is each for name, each in model.named_parameters())

    def test_layers_learn_alphas_of_their_own_and_shared_ones_stay_shared(self):
        model = nn.TransformerEncoder(nn.TransformerEncoderLayer(E, H, 16), 2, enable_nested_tensor=False)
        model.again = model.layers[0].self_attn
        use_sparse_attention(model, "learned")
        assert model.again is model.layers[0].self_attn
        assert model.again.activation is not model.layers[1].self_attn.activation
        use_sparse_attention(model, "entmax15")  # once more, with another activation
        assert model.again.activation.alpha == 1.5
        assert [name for name, _ in model.named_parameters() if "alpha" in name] == []

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: use_sparse_attention(nn.Linear(2, 2)), "got Linear without any, expected a model that contains"),
            (
                lambda: use_sparse_attention(nn.MultiheadAttention(4, 2)),
                "got MultiheadAttention itself, expected a model",
            ),
            (lambda: use_sparse_attention("bert"), "model: got 'bert', expected a torch.nn.Module"),
            (
                lambda: use_sparse_attention(nn.Transformer(4, 2, 1, 1, 4), "relu"),
                "activation: got 'relu', expected one of softmax, entmax15, sparsemax, learned, an alpha",
            ),
            (
                lambda: use_sparse_attention(nn.Transformer(4, 2, 1, 1, 4), edge_embed.Entmax(num_heads=2)),
                "which layers would share: use 'learned'",
            ),
        ],
    )
    def test_models_without_attention_and_unknown_activations_are_refused(self, call, message):
        with pytest.raises(BadInputError, match=message):
            call()


X = torch.zeros(2, T, E)


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        ({"embed_dim": 9}, None, "embed_dim: got 9, expected a multiple of num_heads 2"),
        ({"num_heads": 0}, None, "num_heads: got 0, expected an integer of at least 1"),
        ({"dropout": 2}, None, "dropout: got 2, expected a probability"),
        ({"activation": 0.5}, None, "alpha: got 0.5, expected a number from 1"),
        ({"activation": edge_embed.Entmax(num_heads=3)}, None, "num_heads 3, expected dim -1 and num_heads 2 or None"),
        ({}, {"query": X[..., :3]}, r"query: got shape \[2, 5, 3\], expected 8 as the last dimension"),
        ({}, {"key": X[0]}, r"key: got shape \[5, 8\], expected a dense tensor"),
        ({}, {"value": X[:, :4]}, r"value: got key \[2, 5, 8\] and value \[2, 4, 8\], expected equal dimensions"),
        ({}, {"query": X[:1]}, r"key: got query \[1, 5, 8\] and key \[2, 5, 8\], expected equal numbers of sequences"),
        ({}, {"attn_mask": torch.zeros(4, T)}, r"attn_mask: got shape \[4, 5\], expected \[5, 5\] or \[4, 5, 5\]"),
        (
            {},
            {"attn_mask": torch.zeros(T, T, dtype=torch.int64)},
            "attn_mask: got a tensor of torch.int64, expected a bool",
        ),
        ({"dtype": torch.int8}, None, "dtype: got torch.int8, expected a floating-point dtype"),
        ({}, {"value": X.double()}, "value: got torch.float64, expected torch.float32 as the parameters"),
        ({}, {"query": X.long()}, "query: got torch.int64, expected torch.float32 as the parameters"),
        ({}, {"key": X.to_sparse()}, "key: got a Tensor that is no dense tensor, expected a dense tensor"),
        ({}, {"key_padding_mask": torch.zeros(T)}, r"key_padding_mask: got shape \[5\], expected \[2, 5\]"),
    ],
)
def test_wrong_arguments_are_named(options, arguments, message):
    with pytest.raises(BadInputError, match=message):
        module = SparseMultiheadAttention(**{"embed_dim": E, "num_heads": H, "batch_first": True} | options)
        module(**{"query": X, "key": X, "value": X} | (arguments or {}))


def test_causal_hint_without_mask_masks_later_keys():
    for activation, need_weights in itertools.product(("softmax", "sparsemax"), (True, False)):
        _, ours = pair(activation, batch_first=True)
        x, mask = random(2, T, E), torch.ones(T, T, dtype=torch.bool).triu(1)
        found = ours(x, x, x, need_weights=need_weights, is_causal=True)
        torch.testing.assert_close(found, ours(x, x, x, need_weights=need_weights, attn_mask=mask))
