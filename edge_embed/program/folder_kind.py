"""Recognition of folders of other tools by the names of their files."""

import re
from itertools import islice
from pathlib import Path

from edge_embed.program.kind_of_file import EXPORT, EXPORTED, JOINED, MATRIX, SAVE, FileKind

_MOST_ENTRIES = 1000
_SHOWN = 3
_PART = re.compile(r"-\d{5}-of-\d{5}\.(safetensors|bin|pt)$")
_MODELS = (".pt", ".pt2", ".pth", ".ckpt", ".onnx", ".tflite", ".safetensors", ".bin", ".ftz", ".vec", ".npy", ".npz")
_CONFIG, _WEIGHTS, _GENAI = "config.json", ".safetensors", "genai_config.json"
_OF_NAMES = {
    "saved_model.pb": FileKind("a SavedModel folder of TensorFlow", EXPORTED),
    "keras_metadata.pb": FileKind("a SavedModel folder of Keras", EXPORTED),
    "checkpoint": FileKind("a folder of TensorFlow checkpoints", EXPORTED),
    "adapter_config.json": FileKind(
        "an adapter folder (PEFT) without its base model",
        "merge both (merge_and_unload), save the whole model with its save_pretrained, and give that folder",
    ),
    "_CHECKPOINT_METADATA": FileKind("a checkpoint folder of Orbax (JAX)", MATRIX),
    ".metadata": FileKind("a distributed checkpoint folder of PyTorch", JOINED),
    "Manifest.json": FileKind("a Core ML package (.mlpackage)", f"use the PyTorch model instead: {SAVE}"),
    _GENAI: FileKind(
        "a folder of ONNX Runtime GenAI", "compress, inspect and validate accept it; export requires the PyTorch model"
    ),
}


def folder_kind(folder: Path) -> FileKind | None:
    """Return the kind of a folder, or None if it is unknown."""
    try:
        names = sorted(entry.name for entry in islice(folder.iterdir(), _MOST_ENTRIES))
    except OSError:
        return None
    if not names:
        return FileKind("an empty folder", "give the path of a saved model")
    for name, kind in _OF_NAMES.items():
        if name in names:
            return kind
    if any(_PART.search(name) for name in names):
        remedy = "add the config.json of transformers and the index, or merge the weights into one file"
        return FileKind("a folder with parts of one model, but without their index", remedy)
    if _CONFIG in names and any(name.endswith(_WEIGHTS) for name in names):
        return FileKind("the folder of a transformers model", EXPORT)
    graphs = [name for name in names if name.lower().endswith(".onnx")]
    models = graphs or [name for name in names if name.lower().endswith(_MODELS)]
    if not models:
        return None
    shown = ", ".join(f"{name:.80}" for name in models[:_SHOWN]) + (", ..." if len(models) > _SHOWN else "")
    if graphs:
        lacking = f"{_GENAI} (ONNX Runtime GenAI) and {_WEIGHTS if _CONFIG in names else _CONFIG} (transformers)"
        return FileKind(f"a folder without {lacking}, but with {shown}", "give the ONNX file, or add the missing files")
    remedy = "give one of its files, or a folder with the config.json of transformers"
    return FileKind(f"a folder without {_CONFIG}, but with {shown}", remedy)
