"""Sessions of ONNX Runtime for exported ONNX files, with or without the operator library."""

from pathlib import Path

import onnxruntime as ort

from edge_embed.errors import BadInputError
from edge_embed.runtime.extensions import get_extensions_path, needs_extensions
from edge_embed.runtime.library import get_library_path

_FATAL_ONLY = 4  # errors are raised as exceptions; the runtime would print them too


def create_session(
    path: str | Path, portable: bool = False, options: ort.SessionOptions | None = None
) -> ort.InferenceSession:
    """Open an exported model in ONNX Runtime on the CPU.

    Args:
        path: the ``.onnx`` file; its external data must be beside it. For a file with a tokenizer, the library of
            onnxruntime-extensions is registered as well.
        portable: whether to leave the operator library out and run the function bodies of standard operators instead.
        options: your own session options; the libraries are registered in them.

    Returns:
        An inference session with ``CPUExecutionProvider``.

    Raises:
        BadInputError: if the file is missing, damaged or not an ONNX model, or the operator library does not fit.
        EdgeEmbedError: if the file has a tokenizer, and onnxruntime-extensions is not installed.
    """
    path = Path(path)
    if not path.is_file():
        raise BadInputError(f"{path}: no such file")
    _check_kind(path)
    if options is None:
        options = ort.SessionOptions()
        options.log_severity_level = _FATAL_ONLY
    if not portable:
        options.register_custom_ops_library(str(get_library_path()))
    if needs_extensions(path):
        options.register_custom_ops_library(str(get_extensions_path()))
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime's exceptions have no common base class
        raise BadInputError(f"{path}: ONNX Runtime {ort.__version__} cannot open it: {error}") from error


def _check_kind(path: Path) -> None:
    """Raise `BadInputError` for files of which ONNX Runtime would speak as damaged."""
    with path.open("rb") as file:
        start = file.read(8)
    expected = "expected an .onnx file"
    if start.startswith(b"PK"):
        raise BadInputError(f"{path}: got a saved model or another archive, {expected}; edge-embed export writes one")
    if start[4:] == b"TFL3":
        raise BadInputError(f"{path}: got a TFLite file, {expected}; use LiteRT for this file")
