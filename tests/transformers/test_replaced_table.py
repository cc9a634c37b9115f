"""Compressed layers in new transformers models: training, ties, checkpoints of a run, saved and exported files."""

import copy

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="the extra `transformers` has it")

from safetensors.torch import load_file  # noqa: E402

import edge_embed  # noqa: E402
import edge_embed.transformers  # noqa: E402
from edge_embed.errors import BadInputError  # noqa: E402
from edge_embed.layers.regularization import regularization_loss  # noqa: E402
from edge_embed.layers.table import CompressedEmbedding  # noqa: E402
from edge_embed.transformers import attach_quantizer, replace_table  # noqa: E402

WORDS, WIDTH = 60, 16
IDS = torch.randint(3, WORDS, (2, 7), generator=torch.Generator().manual_seed(0))
BERT = {"vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2}
BERT |= {"intermediate_size": 32}
NARROW = {**BERT, "hidden_size": 24, "embedding_size": WIDTH}
MARKS = {"pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2}

# name -> class, sizes, and whether it ties an output layer to the table
MODELS = {
    "BertForMaskedLM": (BERT, True),
    "BertForSequenceClassification": (BERT, False),
    "BertForPreTraining": (BERT, True),
    "BertModel": (BERT, False),
    "RobertaForMaskedLM": (BERT, True),
    "DistilBertForMaskedLM": ({"vocab_size": WORDS, "dim": WIDTH, "n_layers": 1, "n_heads": 2, "hidden_dim": 32}, True),
    "AlbertForMaskedLM": (NARROW, True),
    "ElectraForMaskedLM": (NARROW, True),
    "DebertaV2ForMaskedLM": (BERT, True),
    "ModernBertForMaskedLM": ({**BERT, **MARKS}, True),
    "GPT2LMHeadModel": ({"vocab_size": WORDS, "n_embd": WIDTH, "n_layer": 1, "n_head": 2}, True),
    "LlamaForCausalLM": ({**BERT, "tie_word_embeddings": True}, True),
    "OPTForCausalLM": (
        {key: size for key, size in BERT.items() if key != "intermediate_size"}
        | {"word_embed_proj_dim": WIDTH, "ffn_dim": 32},
        True,
    ),
    "T5ForConditionalGeneration": (
        {"vocab_size": WORDS, "d_model": WIDTH, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2},
        True,
    ),
}


def made(name):
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    return kind(kind.config_class(**MODELS[name][0]))


def table():
    return edge_embed.DPQEmbedding(WORDS, WIDTH, num_codes=8, num_groups=4, variant="vq")


def with_table(name, layer=None):
    model = made(name)
    replace_table(model, table() if layer is None else layer)
    return model


def first_output(model):
    more = {"decoder_input_ids": IDS} if model.config.is_encoder_decoder else {}
    return model(IDS, **more)[0]


@pytest.mark.parametrize("name", MODELS)
def test_replace_table_trains_one_layer_for_input_and_output(name):
    dense, model = made(name), with_table(name)
    layer, output = model.get_input_embeddings(), model.get_output_embeddings()

    first_output(model).square().sum().backward()

    assert layer.query.grad.abs().sum() > 0
    assert isinstance(output, edge_embed.TiedOutput) == MODELS[name][1]
    if MODELS[name][1]:
        assert output.embedding is layer
    saved = sum(tensor.numel() for tensor in dense.parameters()) - sum(tensor.numel() for tensor in model.parameters())
    assert saved == WORDS * WIDTH - sum(tensor.numel() for tensor in layer.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_replace_table_survives_initialisation_and_tying(name):
    model = with_table(name)
    layer, before = model.get_input_embeddings(), copy.deepcopy(model.get_input_embeddings().state_dict())

    model.init_weights()
    model.tie_weights()

    assert model.get_input_embeddings() is layer
    assert isinstance(model.get_output_embeddings(), edge_embed.TiedOutput) == MODELS[name][1]
    assert all(torch.equal(tensor, before[key]) for key, tensor in layer.state_dict().items())


@pytest.mark.parametrize("name", MODELS)
def test_replace_table_model_resumes_from_saved_tensors(name, tmp_path):
    model = with_table(name).eval()
    model.save_pretrained(tmp_path)

    other = with_table(name, table()).eval()
    torch.nn.init.normal_(other.get_input_embeddings().query)
    tensors = load_file(tmp_path / "model.safetensors")
    _, unexpected = other.load_state_dict(tensors, strict=False)

    assert not unexpected
    assert torch.equal(first_output(other), first_output(model))
    assert sum(key.endswith(".query") for key in tensors) == 1


@pytest.mark.parametrize("name", MODELS)
def test_replace_table_model_is_saved_with_its_frozen_layer(name, tmp_path):
    model = with_table(name).eval()
    expected = first_output(model)

    model.get_input_embeddings().freeze()
    attach_quantizer(model)
    model.tie_weights()
    model.save_pretrained(tmp_path)
    loaded, notes = type(model).from_pretrained(tmp_path, output_loading_info=True)

    assert not any(notes.values()), notes
    torch.testing.assert_close(first_output(loaded.eval()), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", ["ant", "tt", "tr", "integers", "tiers"])
def test_replace_table_takes_layers_of_every_method(method):
    layers = {
        "ant": lambda: edge_embed.ANTEmbedding(WORDS, WIDTH, num_anchors=6),
        "tt": lambda: edge_embed.TTEmbedding(WORDS, WIDTH, rank=4),
        "tr": lambda: edge_embed.TREmbedding(WORDS, WIDTH, rank=4),
        "integers": lambda: edge_embed.IntegerEmbedding(WORDS, WIDTH, bits=4),
        "tiers": lambda: edge_embed.TieredEmbedding(
            [edge_embed.IntegerEmbedding(WORDS // 3, WIDTH, bits) for bits in (8, 4, 2)]
        ),
    }
    model = with_table("BertForMaskedLM", layers[method]())
    loss = model(IDS, labels=IDS).loss + regularization_loss(model)
    loss.backward()
    assert torch.isfinite(loss)
    assert any(tensor.grad is not None for tensor in model.get_input_embeddings().parameters())


def test_replace_table_keeps_an_output_layer_that_is_not_tied():
    config = transformers.LlamaConfig(**BERT, tie_word_embeddings=False)
    model = transformers.LlamaForCausalLM(config)
    output, weight = model.lm_head, model.lm_head.weight.clone()
    replace_table(model, table())
    model.tie_weights()
    assert model.get_output_embeddings() is output
    assert torch.equal(output.weight, weight)


def test_replace_table_keeps_the_bias_of_the_output_layer():
    model = made("BertForMaskedLM")
    bias = model.cls.predictions.bias
    replace_table(model, table())
    assert model.get_output_embeddings().bias is bias


@pytest.mark.parametrize("method", ["dpq", "opq"])
def test_compress_trainable_model_is_tied_and_saved(method, tmp_path):
    model, _ = edge_embed.compress(made("BertForMaskedLM"), method, num_codes=8, num_groups=4, trainable=True)
    expected = model.eval()(IDS).logits

    model.tie_weights()
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    missing, unexpected = model.load_state_dict(tensors, strict=False)

    assert not unexpected
    assert all(key.startswith("cls.predictions.decoder") for key in missing)
    assert torch.equal(model(IDS).logits, expected)

    for layer in {each for each in model.modules() if isinstance(each, CompressedEmbedding)}:
        layer.freeze()
    attach_quantizer(model)
    model.save_pretrained(tmp_path / "frozen")
    loaded, notes = type(model).from_pretrained(tmp_path / "frozen", output_loading_info=True)
    assert not any(notes.values()), notes
    torch.testing.assert_close(loaded.eval()(IDS).logits, expected, rtol=0, atol=1e-5)


def test_replace_table_in_a_masked_language_model_exports(tmp_path):
    model = with_table("BertForMaskedLM").eval()
    edge_embed.save(model, tmp_path / "bert.pt", {"input_ids": IDS})
    edge_embed.export(tmp_path / "bert.pt", "onnx", tmp_path / "bert.onnx")
    assert edge_embed.validate(tmp_path / "bert.pt", tmp_path / "bert.onnx", iterations=2).passed


def scaled():
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    return transformers.BartModel(transformers.BartConfig(vocab_size=WORDS, d_model=WIDTH, **sizes))


def images():
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8], depths=[1])
    return transformers.ResNetModel(config)


def parts():
    return transformers.EncoderDecoderModel(encoder=made("BertModel"), decoder=decoder())


def decoder():
    config = transformers.BertConfig(**BERT, is_decoder=True, add_cross_attention=True)
    return transformers.BertLMHeadModel(config)


@pytest.mark.parametrize("training", [True, False])
def test_replace_table_keeps_the_mode_of_the_model(training):
    model = made("BertModel").train(training)
    replace_table(model, table())
    assert all(module.training == training for module in model.modules())


def test_tied_output_names_what_replaces_its_weight():
    output = with_table("BertForMaskedLM").get_output_embeddings()
    with pytest.raises(AttributeError, match="TiedOutput has no dense weight: call the layer, or save the dense model"):
        _ = output.weight


@pytest.mark.parametrize(
    ("model", "layer", "message"),
    [
        (lambda: torch.nn.Embedding(WORDS, WIDTH), table, "model: got a Embedding, expected a PreTrainedModel"),
        (lambda: made("BertModel"), lambda: torch.nn.Embedding(WORDS, WIDTH), "layer: got a Embedding"),
        (
            lambda: made("BertModel"),
            lambda: edge_embed.DPQEmbeddingBag(WORDS, WIDTH, num_codes=8, num_groups=4, variant="vq"),
            "layer: got a DPQEmbeddingBag, expected a compressed layer of rows",
        ),
        (
            lambda: made("BertModel"),
            lambda: edge_embed.DPQEmbedding(WORDS + 1, WIDTH, num_codes=8, num_groups=4),
            r"layer: got sizes \[61, 16\], expected \[60, 16\] of the input table",
        ),
        (scaled, table, "input table of BartModel: got a BartScaledWordEmbedding, expected nn.Embedding"),
        (images, table, "input table of ResNetModel: got a NoneType, expected nn.Embedding"),
        (lambda: made("BertModel").bfloat16(), table, "layer: got torch.float32, expected torch.bfloat16 of the input"),
        (lambda: made("BertModel"), lambda: table().to("meta"), "layer: got tensors on the device meta"),
        (parts, table, "model: got a EncoderDecoderModel, expected one with a table of its own"),
        (lambda: with_table("BertModel"), table, "input table of BertModel: got a DPQEmbedding, expected nn.Embedding"),
    ],
)
def test_replace_table_refuses_what_does_not_fit(model, layer, message):
    given = model()
    before = dict(given.named_modules())
    with pytest.raises(BadInputError, match=message):
        replace_table(given, layer())
    assert dict(given.named_modules()) == before
