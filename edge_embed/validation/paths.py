"""The paths that a model runs on, and how one is opened: names, sessions, reasons why one cannot run."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from edge_embed.errors import BadInputError, EdgeEmbedError
from edge_embed.runtime.library import get_library_path
from edge_embed.runtime.session import create_session

TRAINING = "training form"
ORACLE = "packed oracle"
REFERENCE = "ONNX reference evaluator"
PORTABLE = "portable body"
CUSTOM = "custom op"

_FATAL_ONLY = 4  # errors come back as exceptions; the runtime would print them too


class NotRunError(Exception):
    """A path cannot run here; the message says why. Never counts as passed."""


def missing_library() -> str:
    """Why the custom op cannot run, empty if it can.

    Raises:
        BadInputError: a library was named or found, but is not ours or of another version.
    """
    try:
        get_library_path()
    except BadInputError:
        raise
    except EdgeEmbedError as error:
        return str(error)
    return ""


def open_session(path: Path, portable: bool, options: ort.SessionOptions | None = None) -> ort.InferenceSession:
    """A session of ONNX Runtime, with the operator library or without.

    Raises:
        NotRunError: if there is no operator library.
        BadInputError: if the file cannot be opened.
    """
    if not portable and (reason := missing_library()):
        raise NotRunError(reason)
    return create_session(path, portable, options or quiet_options())


class GatherElements(OpRun):
    """The operator of the reference evaluator fails on more than 64 entries (onnx 1.23): it calls ``np.choose``."""

    def _run(self, data: Any, indices: Any, axis: int) -> tuple[Any]:
        return (np.take_along_axis(data, indices, axis),)


class Evaluator(ReferenceEvaluator):
    """The base class gives operators of ours to a graph, but not to the functions in a file."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options | {"new_ops": [GatherElements]})


def open_reference(model: Path | onnx.ModelProto) -> ReferenceEvaluator:
    """The reference evaluator of the onnx package; it holds all weights in memory.

    Raises:
        NotRunError: if it lacks an operator of the model.
    """
    try:
        return Evaluator(str(model) if isinstance(model, Path) else model)
    except NotImplementedError as error:
        raise NotRunError(one_line(error)) from error


def quiet_options(threads: int = 0) -> ort.SessionOptions:
    """Session options that print nothing; ``threads`` 0 leaves their number to the runtime."""
    options = ort.SessionOptions()
    options.log_severity_level = _FATAL_ONLY
    options.intra_op_num_threads = threads
    return options


def one_line(error: BaseException) -> str:
    """The type and first line of an error, for a report."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text:.300}" if text else type(error).__name__
