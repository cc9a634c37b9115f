"""Runs the model builder of ONNX Runtime GenAI, offline, on random models: ``build_folders.py FOLDER``.

Writes ``FOLDER/SHAPE-FORM`` for four shapes and four forms.
"""

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    Phi3Config,
    PreTrainedTokenizerFast,
    Qwen3Config,
)

SHAPES = {"llama": LlamaConfig, "qwen3": Qwen3Config, "gemma3": Gemma3TextConfig, "phi3": Phi3Config}
FORMS = ("tied-fp32", "tied-fp16", "tied-int4", "untied-fp32")
ROWS = 1024
SIZES = {
    "vocab_size": ROWS,
    "hidden_size": 128,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
CHAT = "{% for message in messages %}<{{ message['role'] }}> {{ message['content'] }}{% endfor %}"


def config_of(shape: str, is_tied: bool) -> Any:
    """Return the configuration of a small model of a shape."""
    more: dict[str, Any] = {"qwen3": {"head_dim": 32}, "gemma3": {"head_dim": 32, "sliding_window": 64}}.get(shape, {})
    if shape == "phi3":
        more = {"original_max_position_embeddings": SIZES["max_position_embeddings"]}
    return SHAPES[shape](**SIZES, **more, tie_word_embeddings=is_tied)


def write_model(folder: Path, shape: str, is_tied: bool) -> None:
    """Write a model whose next token depends on all tokens before: layers that outweigh the rows."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config_of(shape, is_tied))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed" in name or "lm_head" in name:
                weight.normal_(0, 0.05)
            elif weight.ndim > 1:
                weight.normal_(0, 0.2)
    model.save_pretrained(folder)
    if shape == "gemma3":
        _flatten_angles(folder / "config.json")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>", "<pad>"])
    tokenizer.add_tokens(sorted(pre_tokenizers.ByteLevel.alphabet()))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    fast.chat_template = CHAT
    fast.save_pretrained(folder)


def _flatten_angles(path: Path) -> None:
    """Add the keys of one kind of layers, which the builder reads, to the angles of both kinds."""
    config = json.loads(path.read_text())
    config["rope_parameters"] |= config["rope_parameters"]["full_attention"]
    path.write_text(json.dumps(config))


def build(source: Path, output: Path, precision: str) -> None:
    """Run the builder as its command line does."""
    sys.argv = ["builder", "-i", str(source), "-o", str(output), "-p", precision, "-e", "cpu", "-c", str(source)]
    runpy.run_module("onnxruntime_genai.models.builder", run_name="__main__")


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    # The builder reads this from a configuration of Gemma as transformers 4 has it.
    Gemma3TextConfig.rope_local_base_freq = property(lambda config: 10_000.0)
    folder = Path(sys.argv[1])
    for shape in SHAPES:
        for is_tied in (True, False):
            write_model(folder / "models" / f"{shape}-{is_tied}", shape, is_tied)
        for form in FORMS:
            tied, precision = form.split("-")
            build(folder / "models" / f"{shape}-{tied == 'tied'}", folder / f"{shape}-{form}", precision)
