"""Compressed transformers models after `save_pretrained` and `from_pretrained`: equal results, small files."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import edge_embed
from edge_embed import workflow
from edge_embed.errors import BadInputError
from edge_embed.lowering.graph import lower_program

transformers = pytest.importorskip("transformers", reason="transformers is missing: pip install 'edge-embed[dev]'")

IDS = torch.tensor([[5, 17, 399, 1, 8]])
SIZES = {"vocab_size": 400, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
DECODER = {**SIZES, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
TABLE = "model.embed_tokens"
DPQ = {"method": "dpq", "num_codes": 16, "num_groups": 8}
AGAIN = """
import sys, edge_embed.transformers, torch, transformers
for folder in sys.argv[1:]:
    model, loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(loaded.values()), loaded
    ids = torch.tensor([[5, 17, 399, 1, 8]])
    generated = model.generate(ids, max_new_tokens=12, do_sample=False)
    torch.save({"logits": model(ids).logits, "generated": generated}, folder + ".results")
"""


def llama(**options: Any) -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**DECODER, **options))


def qwen() -> Any:
    config = transformers.Qwen3Config(**DECODER, tie_word_embeddings=True)
    return transformers.Qwen3ForCausalLM(config).to(torch.bfloat16)


def bert() -> Any:
    return transformers.BertForMaskedLM(transformers.BertConfig(**SIZES, num_attention_heads=2))


def t5() -> Any:
    config = transformers.T5Config(vocab_size=400, d_model=32, d_kv=16, d_ff=32, num_layers=1, num_heads=2)
    return transformers.T5ForConditionalGeneration(config)


def saved(make: Callable[[], Any], folder: Path, **how: Any) -> Any:
    """Save a compressed model in a folder, and return it; the dense one is in ``dense`` beside it."""
    torch.manual_seed(0)
    dense = folder.with_name(f"{folder.name}-dense")
    made = make()
    made.save_pretrained(dense)
    small, _ = edge_embed.compress(type(made).from_pretrained(dense), **how)
    small.save_pretrained(folder)
    return small


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a Llama-shaped model with a tied table."""
    path: Path = tmp_path_factory.mktemp("llama") / "small"
    saved(lambda: llama(tie_word_embeddings=True), path, **DPQ)
    return path


@pytest.fixture
def damaged(folder: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder that a test may change."""
    return Path(shutil.copytree(folder, tmp_path / "damaged"))


def load(folder: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder)


@pytest.mark.slow
def test_saved_model_in_new_process_computes_and_generates_equally(tmp_path: Path) -> None:
    made = {
        "llama": saved(lambda: llama(tie_word_embeddings=True), tmp_path / "llama", **DPQ),
        "qwen": saved(qwen, tmp_path / "qwen", method="opq", num_codes=16, num_groups=8),
    }
    subprocess.run([sys.executable, "-c", AGAIN, *(str(tmp_path / name) for name in made)], check=True)
    for name, model in made.items():
        results = torch.load(tmp_path / f"{name}.results", weights_only=True)
        assert torch.equal(results["logits"], model(IDS).logits)
        assert torch.equal(results["generated"], model.generate(IDS, max_new_tokens=12, do_sample=False))


@pytest.mark.parametrize(
    ("make", "how"),
    [
        (lambda: llama(tie_word_embeddings=False), {"method": "tt", "rank": 4, "modules": [TABLE, "lm_head"]}),
        (qwen, {"method": "rows", "bits": 4}),
        (bert, {"method": "ant", "num_anchors": 300, "nonzeros": 2}),  # anchor ids of 16 bits, an output bias
        (t5, {**DPQ, "value_type": "int8"}),  # three lookups and the output layer share one table
    ],
    ids=["untied", "bfloat16 rows", "bert", "t5"],
)
def test_loaded_model_equals_saved_one_and_saves_equal_files(
    make: Callable[[], Any], how: dict[str, Any], tmp_path: Path
) -> None:
    model = saved(make, tmp_path / "small", **how)
    again = type(model).from_pretrained(tmp_path / "small")
    inputs = {"input_ids": IDS} | ({"decoder_input_ids": IDS} if model.config.is_encoder_decoder else {})
    assert torch.equal(again(**inputs).logits, model(**inputs).logits)
    again.tie_weights()
    again.save_pretrained(tmp_path / "again")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "small" / name).read_bytes()


def test_loaded_layers_share_one_frozen_table(folder: Path) -> None:
    model = load(folder)
    layer = model.get_input_embeddings()
    assert isinstance(layer, edge_embed.DPQEmbedding)
    assert layer.frozen
    assert model.get_output_embeddings().embedding is layer


def test_saved_files_hold_packed_bytes_in_place_of_dense_ones(folder: Path) -> None:
    dense, small = (load_file(each / "model.safetensors") for each in (folder.with_name("small-dense"), folder))
    packed = load(folder).get_input_embeddings().to_packed()
    assert packed.compression_ratio > 5
    sizes = [sum(tensor.nbytes for tensor in tensors.values()) for tensors in (dense, small)]
    assert sizes[0] - sizes[1] == dense[f"{TABLE}.weight"].nbytes - packed.nbytes
    assert {path.suffix for path in folder.iterdir()} == {".json", ".safetensors"}


def test_base_model_of_saved_folder_has_its_table(folder: Path) -> None:
    model = transformers.AutoModel.from_pretrained(folder)
    whole = load(folder)
    assert torch.equal(model(IDS).last_hidden_state, whole.model(IDS).last_hidden_state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "xyz"}, "method: got 'xyz', expected one of"),
        ({"num_embeddings": 300}, r"got sizes \[300, 32\], expected \[400, 32\] of layer model.embed_tokens"),
        ({"attributes": {"bits": 4, "num_codes": 16, "num_groups": 4, "share_subspaces": False}}, r"got U8 \[400, 4\]"),
        ({"attributes": {}}, "attributes"),
        ({"layers": [TABLE, "head"]}, "expected layers of LlamaForCausalLM"),
        ({"layers": []}, r"layers: got \[\], expected the names"),
        ({"rotated": True}, "got no tensor 'model.embed_tokens.rotation'"),
        ({"colour": 3}, "unknown keys .'colour'"),
    ],
    ids=str,
)
def test_damaged_table_in_config_is_refused(damaged: Path, change: dict[str, Any], message: str) -> None:
    _change(damaged, lambda content: content["tables"][TABLE].update(change))
    with pytest.raises(BadInputError, match=message):
        load(damaged)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 2}, "format_version: got 2, expected 1; another release of edge_embed may read it"),
        ({"tables": {}}, "expected an object with at least one table"),
        ({"tables": {TABLE: 7}}, "got 7, expected an object"),
        ({"stored_tables": 4, "self": 1}, r"got the keys \['self', 'stored_tables'\]"),
    ],
    ids=str,
)
def test_damaged_quantization_config_is_refused(damaged: Path, change: dict[str, Any], message: str) -> None:
    _change(damaged, lambda content: content.update(change))
    for read in (load, workflow.load):
        with pytest.raises(BadInputError, match=message):
            read(damaged)


@pytest.mark.parametrize("tensor", ["codes", "values"])
def test_damaged_tensor_is_refused(damaged: Path, tensor: str) -> None:
    path = damaged / "model.safetensors"
    tensors = load_file(path)
    tensors[f"{TABLE}.{tensor}"][3] += 1
    save_file(tensors, path, {"format": "pt"})
    with pytest.raises(BadInputError, match=f"tensor '{tensor}': its hash is .* it is damaged"):
        load(damaged)


def _change(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "config.json"
    content = json.loads(path.read_text())
    change(content["quantization_config"])
    path.write_text(json.dumps(content))


@pytest.mark.slow
def test_saved_folder_is_program_with_equal_results(folder: Path) -> None:
    program = workflow.load(folder, cache=False)
    logits = load(folder)(IDS, attention_mask=torch.ones_like(IDS)).logits
    torch.testing.assert_close(program.run(IDS, torch.ones_like(IDS))[0], logits)
    for each in (program, workflow.load(folder)):
        assert lower_program(each).tables.keys() == {TABLE}


def test_own_layer_is_saved_after_freeze_and_attach(tmp_path: Path) -> None:
    from edge_embed.transformers import attach_quantizer

    torch.manual_seed(0)
    model = llama(tie_word_embeddings=False).eval()
    model.set_input_embeddings(edge_embed.DPQEmbedding(400, 32, 16, 8).eval())
    with pytest.raises(BadInputError, match="got a trainable DPQEmbedding, expected a frozen layer: call freeze"):
        attach_quantizer(model)
    model.get_input_embeddings().freeze()
    attach_quantizer(model)
    model.save_pretrained(tmp_path / "own")
    assert torch.equal(load(tmp_path / "own")(IDS).logits, model(IDS).logits)


def test_quantizer_without_compressed_layers_is_refused(folder: Path) -> None:
    from edge_embed.transformers import EdgeEmbedConfig, attach_quantizer

    with pytest.raises(BadInputError, match=r"got no compressed layer, expected at least one: compress the model"):
        attach_quantizer(llama())
    with pytest.raises(BadInputError, match="expected a PreTrainedModel"):
        attach_quantizer(edge_embed.DPQEmbedding(40, 8, 4, 2).freeze())
    dense = folder.with_name("small-dense")
    with pytest.raises(BadInputError, match="got a model with dense tables, expected a compressed one"):
        transformers.AutoModelForCausalLM.from_pretrained(dense, quantization_config=EdgeEmbedConfig())
