"""Folders whose configuration, weights and tokenizer disagree: the message names the part."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.importers.transformers_folder import load_model

transformers = pytest.importorskip("transformers", reason="transformers is missing: pip install 'edge-embed[dev]'")

ROWS, SMALL = 60, {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
Weights = dict[str, Tensor]
EMBED, HEAD = "model.embed_tokens.weight", "lm_head.weight"


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("llama") / "tied"
    config = transformers.LlamaConfig(vocab_size=ROWS, **SMALL, tie_word_embeddings=True)
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    return path


@pytest.fixture
def folder(tied: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tied, tmp_path / "model"))


def set_config(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def change_weights(folder: Path, change: Callable[[Weights], Any]) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    change(weights)
    save_file(weights, path, metadata={"format": "pt"})


def with_head(change: Callable[[Tensor], Tensor]) -> Callable[[Weights], None]:
    return lambda weights: weights.update({HEAD: change(weights[EMBED].clone())})


def one_bit(weight: Tensor) -> Tensor:
    weight.view(torch.int32)[3, 4] ^= 1
    return weight


class TestTies:
    def test_head_of_equal_bytes_is_tied(self, folder: Path) -> None:
        change_weights(folder, with_head(lambda weight: weight))
        model: Any = load_model(folder)
        assert model.lm_head.weight is model.model.embed_tokens.weight

    @pytest.mark.parametrize("change", [one_bit, lambda weight: -weight])
    def test_head_of_other_bytes_is_named(self, folder: Path, change: Callable[[Tensor], Tensor]) -> None:
        change_weights(folder, with_head(change))
        message = f"tie_word_embeddings: got true, but {HEAD} and {EMBED} differ: set it to false, or remove {HEAD}"
        with pytest.raises(BadInputError, match=message):
            load_model(folder)
        set_config(folder, tie_word_embeddings=False)
        model: Any = load_model(folder)
        assert model.lm_head.weight is not model.model.embed_tokens.weight

    def test_head_that_is_missing_and_not_tied_is_named(self, folder: Path) -> None:
        set_config(folder, tie_word_embeddings=False)
        with pytest.raises(BadInputError, match=f"weights are missing: {HEAD}"):
            load_model(folder)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_hidden_layers": 1}, r"config.json: got 1 of model.layers, but the files have model.layers.1.\w+"),
        ({"num_hidden_layers": 0}, r"config.json: got 0 of model.layers, but the files have model.layers.0.\w+"),
        ({"num_hidden_layers": 3}, r"weights are missing: model.layers.2.\w+"),
        ({"model_type": "qwen3"}, "model class LlamaForCausalLM of model_type 'llama', but model_type 'qwen3'"),
        (
            {"architectures": ["Qwen3ForCausalLM"]},
            "model class Qwen3ForCausalLM of model_type 'qwen3', but model_type ",
        ),
    ],
)
def test_configuration_of_another_model_is_named(folder: Path, values: dict[str, Any], message: str) -> None:
    set_config(folder, **values)
    with pytest.raises(BadInputError, match=message):
        load_model(folder)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_weights_of_integers_are_named(folder: Path, dtype: torch.dtype) -> None:
    """Converted to floats, quantised numbers would be wrong without their scales."""
    change_weights(folder, lambda weights: weights.update({EMBED: (weights[EMBED] * 100).to(dtype)}))
    with pytest.raises(BadInputError, match=f"{EMBED}: got integers, expected floats"):
        load_model(folder)


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (
            {"model": {"vocab": {"a": 0, "b": ROWS}}},
            f"config.json: vocab_size: got {ROWS} rows, expected more than the",
        ),
        ({"added_tokens": [{"id": ROWS + 5, "content": "new"}]}, f"largest id {ROWS + 5} of tokenizer.json .'new'"),
    ],
)
def test_tokenizer_with_more_tokens_than_rows_is_named(folder: Path, tokenizer: Any, message: str) -> None:
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(BadInputError, match=message):
        load_model(folder)


def test_damaged_tokenizer_is_named(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(BadInputError, match=r"tokenizer\.json: is not valid JSON"):
        load_model(folder)


def test_special_token_without_row_or_role_is_a_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    token = {"id": ROWS, "content": "<image>", "special": True}
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": [token]}))
    with caplog.at_level(logging.WARNING):
        load_model(folder)
    assert f"'<image>' has id {ROWS}, and the model {ROWS} rows" in caplog.text


def test_folder_of_onnx_files_names_the_file_to_give(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model.onnx")
    with pytest.raises(BadInputError, match=r"has no \.safetensors file, but model\.onnx: give that file"):
        load_model(folder)
