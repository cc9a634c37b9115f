"""Sessions of exported files: kernels with the library, portable bodies without it, and errors for files and ids."""

import re
from pathlib import Path

import onnxruntime as ort
import pytest
import torch

import edge_embed


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    layer = edge_embed.DPQEmbedding(50, 8, num_codes=4, num_groups=2)
    edge_embed.export(layer, "onnx", tmp_path / "out.onnx", torch.tensor([1, 2]))
    return tmp_path / "out.onnx"


def nodes_that_run(path: Path, portable: bool, folder: Path) -> set[str]:
    """Return the names of the operators that run after optimisation, from the profile of one run."""
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    session = edge_embed.create_session(path, portable=portable, options=options)
    session.run(None, {"ids": torch.tensor([3]).numpy()})
    text = Path(session.end_profiling()).read_text()
    return {name for name in ("DPQEmbedding", "Gather") if f'"op_name" : "{name}"' in text}


def test_session_runs_kernel_with_library_and_body_without(exported: Path, tmp_path: Path) -> None:
    assert nodes_that_run(exported, portable=False, folder=tmp_path) == {"DPQEmbedding"}
    assert nodes_that_run(exported, portable=True, folder=tmp_path) == {"Gather"}


def test_session_of_missing_or_damaged_file_names_it(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(edge_embed.BadInputError, match=r"missing\.onnx"):
        edge_embed.create_session(tmp_path / "missing.onnx")
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(exported.read_bytes()[:-40])
    with pytest.raises(edge_embed.BadInputError, match=r"cut\.onnx"):
        edge_embed.create_session(cut)


def test_kernel_error_names_id_and_bound(exported: Path) -> None:
    session = edge_embed.create_session(exported)
    for wrong in (-1, 50):
        with pytest.raises(Exception, match=rf"got id {wrong} at position 1 .* < 50"):
            session.run(None, {"ids": torch.tensor([0, wrong]).numpy()})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04 a model.pt", "got a saved model or another archive, expected an .onnx file; edge-embed export"),
        (b"\x1c\0\0\0TFL3 a model.tflite", "got a TFLite file, expected an .onnx file; use LiteRT for this file"),
    ],
)
def test_session_of_another_kind_of_file_is_refused_with_remedy(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(edge_embed.BadInputError, match=re.escape(message)):
        edge_embed.create_session(path)
