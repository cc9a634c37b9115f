"""Opens an exported ONNX file in ONNX Runtime, with the operator library or without."""

from pathlib import Path

import onnxruntime as ort

from edge_embed.errors import BadInputError
from edge_embed.runtime.extensions import get_extensions_path, needs_extensions
from edge_embed.runtime.library import get_library_path

_FATAL_ONLY = 4  # what goes wrong comes back as an exception; the runtime would print it too


def create_session(
    path: str | Path, portable: bool = False, options: ort.SessionOptions | None = None
) -> ort.InferenceSession:
    """Open an exported model on the CPU.

    Args:
        path: the ``.onnx`` file; its external data lies beside it. If there is a tokenizer in it, the library of
            onnxruntime-extensions is registered as well.
        portable: leave the operator library out, so that the body of standard operators runs instead.
        options: session options of your own; the libraries are registered in them.

    Raises:
        BadInputError: if the file is missing, damaged or no ONNX model, or the library does not fit.
        EdgeEmbedError: if the file has a tokenizer, and onnxruntime-extensions is not installed.
    """
    path = Path(path)
    if not path.is_file():
        raise BadInputError(f"{path}: no such file")
    if options is None:
        options = ort.SessionOptions()
        options.log_severity_level = _FATAL_ONLY
    if not portable:
        options.register_custom_ops_library(str(get_library_path()))
    if needs_extensions(path):
        options.register_custom_ops_library(str(get_extensions_path()))
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime's exceptions share no base class
        raise BadInputError(f"{path}: ONNX Runtime {ort.__version__} cannot open it: {error}") from error
