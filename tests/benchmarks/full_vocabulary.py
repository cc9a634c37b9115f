"""Folders of a model with the vocabulary and width of Qwen2-0.5B, and 4 layers: ``full_vocabulary.py FOLDER``.

Writes FOLDER/fp32 and FOLDER/int4 with the model builder of ONNX Runtime GenAI, offline, and FOLDER/model. The weights
are random. It takes 4 GB of memory, and 1.6 GB on the disk.
"""

import os
import runpy
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

SIZES = {
    "vocab_size": 151_936,
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 4,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
}


def write_model(folder: Path) -> None:
    """Write a model with a tied table, and a tokenizer of bytes."""
    torch.manual_seed(0)
    Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True)).save_pretrained(folder)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.add_tokens(sorted(pre_tokenizers.ByteLevel.alphabet()))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>").save_pretrained(folder)


def main(folder: Path) -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    model = str(folder / "model")
    write_model(Path(model))
    for precision in ("fp32", "int4"):
        sys.argv = ["builder", "-i", model, "-o", str(folder / precision), "-p", precision, "-e", "cpu", "-c", model]
        runpy.run_module("onnxruntime_genai.models.builder", run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
