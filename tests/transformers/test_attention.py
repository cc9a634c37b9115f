"""Sparse attention in transformers models: names of the interface, masks, learned alphas and their files."""

from functools import partial

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="the extra `transformers` has it")


import edge_embed  # noqa: E402
from edge_embed.errors import BadInputError  # noqa: E402
from edge_embed.transformers import attention as sparse  # noqa: E402

SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
IDS = torch.randint(1, 40, (2, 9), generator=torch.Generator().manual_seed(0))
PADDED = torch.ones_like(IDS).masked_fill(torch.arange(9) < torch.tensor([[3], [0]]), 0)


def llama(**options):
    config = transformers.LlamaConfig(**SIZES, num_key_value_heads=2, intermediate_size=32, **options)
    return transformers.LlamaForCausalLM(config).eval()


def bert():
    return transformers.BertModel(transformers.BertConfig(**SIZES, intermediate_size=32)).eval()


def gpt2():
    config = transformers.GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2LMHeadModel(config).eval()


def mistral():
    config = transformers.MistralConfig(**SIZES, num_key_value_heads=2, intermediate_size=32, sliding_window=3)
    return transformers.MistralForCausalLM(config).eval()


def t5():
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=40, **sizes)).eval()


def bart():
    parts = ("encoder", "decoder")
    sizes = {f"{part}_{name}": size for part in parts for name, size in (("layers", 2), ("attention_heads", 4))}
    sizes |= {f"{part}_ffn_dim": 32 for part in parts}
    return transformers.BartForConditionalGeneration(transformers.BartConfig(vocab_size=40, d_model=16, **sizes)).eval()


def vit():
    config = transformers.ViTConfig(**SIZES | {"vocab_size": None}, intermediate_size=32, image_size=8, patch_size=4)
    return transformers.ViTModel(config).eval()


def first(output):
    return output[0]


@pytest.mark.parametrize("build", [llama, bert, gpt2, mistral])
def test_alpha_of_1_equals_eager_attention_of_the_model(build):
    torch.manual_seed(0)
    model = build()
    model.set_attn_implementation("eager")
    expected = first(model(IDS, attention_mask=PADDED))
    model.set_attn_implementation(sparse.register_attention(1))
    found = first(model(IDS, attention_mask=PADDED))
    torch.testing.assert_close(found[PADDED == 1], expected[PADDED == 1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("build", [llama, bert, mistral])
def test_sparse_names_give_the_entmax_of_eager_scores(build, monkeypatch):
    torch.manual_seed(0)
    model = build()
    for name, alpha in (("entmax15", 1.5), ("sparsemax", 2.0), (sparse.register_attention(1.25), 1.25)):
        with monkeypatch.context() as patch:
            patch.setattr(
                torch.nn.functional, "softmax", lambda x, dim, dtype=None, a=alpha: edge_embed.entmax(x, a, dim)
            )
            model.set_attn_implementation("eager")
            expected = first(model(IDS, attention_mask=PADDED))
        model.set_attn_implementation(name)
        for grad in (torch.enable_grad, torch.no_grad):
            with grad():
                found = first(model(IDS, attention_mask=PADDED))
            torch.testing.assert_close(found[PADDED == 1], expected[PADDED == 1], atol=1e-5, rtol=1e-4)


def test_generation_with_cache_equals_one_call():
    torch.manual_seed(0)
    model = llama(attn_implementation="sparsemax")
    ids = model.generate(IDS, max_new_tokens=4, do_sample=False, pad_token_id=0)
    assert torch.equal(first(model(ids[:, :-1]))[:, -1].argmax(-1), ids[:, -1])


def test_learned_alphas_are_trained_saved_and_loaded(tmp_path):
    torch.manual_seed(0)
    model = llama()
    names = sparse.learn_alphas(model, 1.3)
    assert names == ["model.layers.0.self_attn", "model.layers.1.self_attn"]
    model(IDS, labels=IDS).loss.backward()
    logits = [model.get_submodule(name).alpha_logit for name in names]
    assert all(logit.shape == (4,) and (logit.grad != 0).any() for logit in logits)
    with torch.no_grad():
        logits[1].copy_(torch.tensor([-2.0, 0, 1, 3]))
        expected = first(model(IDS))
    model.save_pretrained(tmp_path)
    loaded = transformers.LlamaForCausalLM.from_pretrained(tmp_path).eval()
    assert sparse.load_alphas(loaded, tmp_path) == names
    with torch.no_grad():
        torch.testing.assert_close(first(loaded(IDS)), expected)
    base = transformers.LlamaModel.from_pretrained(tmp_path).eval()
    assert sparse.load_alphas(base, tmp_path) == [name.removeprefix("model.") for name in names]


def test_model_with_sparse_attention_is_exported_by_torch():
    torch.manual_seed(0)
    model = bert()
    sparse.learn_alphas(model)
    program = torch.export.export(model, (), {"input_ids": IDS, "attention_mask": PADDED}, strict=False)
    with torch.no_grad():
        expected = first(model(IDS, attention_mask=PADDED))
        found = program.module()(input_ids=IDS, attention_mask=PADDED)[0]
    torch.testing.assert_close(found[PADDED == 1], expected[PADDED == 1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("mask", [None, PADDED])
@pytest.mark.parametrize("build", [t5, bart])
def test_decoder_with_context_attention_equals_eager_attention(build, mask):
    """T5 adds position biases to the scores."""
    torch.manual_seed(0)
    model = build()
    inputs = {"input_ids": IDS, "attention_mask": mask, "decoder_input_ids": IDS[:, :4]}
    model.set_attn_implementation("eager")
    expected = first(model(**inputs))
    model.set_attn_implementation(sparse.register_attention(1))
    torch.testing.assert_close(first(model(**inputs)), expected, atol=1e-5, rtol=1e-4)
    assert len(sparse.learn_alphas(model)) == 6
    ids = [model.generate(IDS, max_new_tokens=4, do_sample=False, use_cache=use) for use in (True, False)]
    assert torch.equal(*ids)
    first(model(**inputs)).square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters() if "bias" in name}
    assert all(gradient.abs().sum() > 0 for name, gradient in gradients.items() if "relative_attention" in name)


def test_attention_of_images_equals_eager_attention():
    torch.manual_seed(0)
    model, images = vit(), torch.randn(2, 3, 8, 8)
    model.set_attn_implementation("eager")
    expected = first(model(images))
    model.set_attn_implementation(sparse.register_attention(1))
    torch.testing.assert_close(first(model(images)), expected, atol=1e-5, rtol=1e-4)
    with pytest.raises(BadInputError, match=r"example_inputs: got model\.dummy_inputs, with which ViTModel fails"):
        sparse.learn_alphas(model)
    assert len(sparse.learn_alphas(model, example_inputs={"pixel_values": images})) == 2


@pytest.mark.parametrize("build", [gpt2, llama, bert])
def test_probabilities_are_returned_on_request(build):
    model = build()
    model.set_attn_implementation("sparsemax")
    found = model(IDS, output_attentions=True).attentions
    assert [each.shape for each in found] == [(2, 4, 9, 9)] * 2
    torch.testing.assert_close(found[0].sum(-1), torch.ones(2, 4, 9))


def test_names_of_near_alphas_differ():
    names = {sparse.register_attention(alpha) for alpha in (1.1234567, 1.12345678, 1.25, 2)}
    assert len(names) == 4
    assert {"entmax-1.25", "entmax-2.0"} < names


def test_alphas_of_a_model_with_other_attention_heads_are_refused(tmp_path):
    small = transformers.BertModel(transformers.BertConfig(**SIZES | {"num_attention_heads": 2}, intermediate_size=32))
    sparse.learn_alphas(small)
    small.save_pretrained(tmp_path)
    with pytest.raises(BadInputError, match=r"alpha_logit \[2\], expected .*one for each of its attention heads"):
        sparse.load_alphas(bert(), tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(BadInputError, match="got a damaged file"):
        sparse.load_alphas(small, tmp_path)


def test_wrong_alphas_models_and_folders_are_named(tmp_path):
    with pytest.raises(BadInputError, match=r"alpha: got 0\.5, expected a number from 1"):
        sparse.register_attention(0.5)
    with pytest.raises(BadInputError, match=r"alpha: got 2\.0, expected more than 1 and less than 2 for learned"):
        sparse.learn_alphas(bert(), 2.0)
    with pytest.raises(BadInputError, match=r"got no tensors named \*.alpha_logit"):
        sparse.load_alphas(bert(), tmp_path)
    model = llama()
    model.set_attn_implementation("entmax")
    with pytest.raises(BadInputError, match=r"LlamaAttention has no learned alphas: call .*learn_alphas"):
        model(IDS)
    with pytest.raises(BadInputError, match="passes softcap, which sparse attention does not support"):
        partial(sparse._attend, 1.5)(model, *torch.zeros(3, 1, 1, 1, 4), None, softcap=30.0)
