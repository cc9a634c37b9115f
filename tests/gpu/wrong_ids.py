"""Looks up an id out of range on a device: ``python -m tests.gpu.wrong_ids WAY ID DEVICE MODEL.onnx``."""

import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch

import edge_embed
from tests.gpu.layers import LAYERS, ROWS, WIDTH


def look_up(way: str, wrong: int, device: str, model: Path) -> str:
    """Return the rows of the id, as a text."""
    ids = torch.tensor([[1, wrong]])
    if way.startswith("onnxruntime"):
        rows = _session(way, device, model).run(None, {"ids": ids.numpy()})[0]
    else:
        layer = torch.nn.Embedding(ROWS, WIDTH) if way == "nn.Embedding" else LAYERS["DPQ, SX"]()
        layer = layer.to(device)
        rows = (layer.freeze() if way == "frozen layer" else layer)(ids.to(device)).detach().cpu().numpy()
    return f"returns numbers, the largest {np.abs(rows[0, 1]).max():.2g}"


def _session(way: str, device: str, model: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    if way.endswith("library"):
        options.register_custom_ops_library(str(edge_embed.get_library_path()))
    providers = ["CPUExecutionProvider"] if device == "cpu" else ["CUDAExecutionProvider", "CPUExecutionProvider"]
    session = ort.InferenceSession(str(model), options, providers=providers)
    assert session.get_providers()[0] == providers[0], "ONNX Runtime found no usable GPU"
    return session


if __name__ == "__main__":
    way, wrong, device, model = sys.argv[1:]
    try:
        print(look_up(way, int(wrong), device, Path(model)))
    except Exception as error:  # it is the result
        print(f"raises {type(error).__name__}: {str(error).strip().splitlines()[0]:.140}")
