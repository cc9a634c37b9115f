"""Folders of decoders for ONNX Runtime GenAI: one of standard operators, and those of the model builder."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

ROWS, DIM = 96, 16
CONFIG: dict[str, Any] = {
    "model": {
        "bos_token_id": 0,
        "context_length": 128,
        "decoder": {
            "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
            "filename": "model.onnx",
            "head_size": DIM,
            "hidden_size": DIM,
            "inputs": {
                "input_ids": "input_ids",
                "attention_mask": "attention_mask",
                "past_key_names": "past_key_values.%d.key",
                "past_value_names": "past_key_values.%d.value",
            },
            "outputs": {
                "logits": "logits",
                "present_key_names": "present.%d.key",
                "present_value_names": "present.%d.value",
            },
            "num_attention_heads": 1,
            "num_hidden_layers": 1,
            "num_key_value_heads": 1,
        },
        "eos_token_id": 1,
        "pad_token_id": 1,
        "type": "llama",
        "vocab_size": ROWS,
    },
    "search": {"do_sample": False, "max_length": 128, "past_present_share_buffer": False},
}
TOKENIZER = {"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"a": 0, "b": ROWS - 1}}}
SETTINGS = {"tokenizer_class": "PreTrainedTokenizerFast"}
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_BUILD = Path(__file__).with_name("build_folders.py")


def write_decoder(path: Path, weight: NDArray[np.float32]) -> None:
    """Write a decoder with a tied table [n, d]: its state is the sum of the rows of all tokens so far."""
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["rows"]),  # [b, s, d]
        helper.make_node("Unsqueeze", ["rows", "one"], ["new"]),  # [b, 1, s, d]
        helper.make_node("Concat", ["past_key_values.0.key", "new"], ["present.0.key"], axis=2),
        helper.make_node("Concat", ["past_key_values.0.value", "new"], ["present.0.value"], axis=2),
        helper.make_node("ReduceSum", ["present.0.value", "two"], ["sums"], keepdims=0),  # [b, 1, d]
        helper.make_node("Tanh", ["sums"], ["short"]),
        helper.make_node("Add", ["rows", "short"], ["mixed"]),
        helper.make_node("Mul", ["mixed", "turns"], ["hidden"]),
        helper.make_node("Transpose", ["words"], ["columns"], perm=[1, 0]),
        helper.make_node("MatMul", ["hidden", "columns"], ["logits"]),
    ]
    ids, total, past = ["batch_size", "sequence_length"], "total_sequence_length", "past_sequence_length"
    states = [(f"past_key_values.0.{kind}", ["batch_size", 1, past, DIM]) for kind in ("key", "value")]
    inputs = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT64, ids),
        helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch_size", total]),
        *(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in states),
    ]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [*ids, len(weight)])]
    outputs += [
        helper.make_tensor_value_info(f"present.0.{kind}", TensorProto.FLOAT, ["batch_size", 1, total, DIM])
        for kind in ("key", "value")
    ]
    turns = np.random.default_rng(1).choice(np.array([-1, 1], np.float32), DIM)
    stored = {"words": weight, "one": np.array([1]), "two": np.array([2]), "turns": turns}
    tensors = [numpy_helper.from_array(value, name) for name, value in stored.items()]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=256)


def made_folder(folder: Path, config: dict[str, Any] | None = None) -> Path:
    """Write a folder that generates, with a tokenizer and a chat template."""
    folder.mkdir()
    kinds = np.random.default_rng(0).standard_normal((8, DIM)).astype(np.float32)
    noise = np.random.default_rng(2).standard_normal((ROWS, DIM)).astype(np.float32)
    write_decoder(folder / "model.onnx", kinds[np.arange(ROWS) % 8] + noise)
    (folder / "genai_config.json").write_text(json.dumps(config or CONFIG))
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (folder / "tokenizer_config.json").write_text(json.dumps(SETTINGS))
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    return folder


def build_folders(folder: Path) -> None:
    """Write folders of the model builder, four shapes in four forms, under ``folder``."""
    subprocess.run([sys.executable, str(_BUILD), str(folder)], check=True, capture_output=True, text=True)
