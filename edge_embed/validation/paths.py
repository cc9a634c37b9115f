"""The paths that a model runs on: names, sessions, and reasons why a path cannot run."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edge_embed.errors import BadInputError, EdgeEmbedError
from edge_embed.runtime.library import get_library_path
from edge_embed.runtime.session import create_session
from edge_embed.steps import step
from edge_embed.targets.target import NotRunError

TRAINING = "training form"
ORACLE = "packed oracle"
REFERENCE = "ONNX reference evaluator"
PORTABLE = "portable body"
CUSTOM = "custom op"

_FATAL_ONLY = 4  # errors are raised as exceptions; the runtime would print them too


def missing_library() -> str:
    """Return the reason why the operator library cannot run, or an empty string.

    Raises:
        BadInputError: the library that was named or found is not ours, or has another version.
    """
    try:
        get_library_path()
    except BadInputError:
        raise
    except EdgeEmbedError as error:
        return str(error)
    return ""


def open_session(path: Path, portable: bool, options: ort.SessionOptions | None = None) -> ort.InferenceSession:
    """Open a session of ONNX Runtime, with the operator library or without.

    Raises:
        NotRunError: there is no operator library.
        BadInputError: the file cannot be opened.
    """
    if not portable and (reason := missing_library()):
        raise NotRunError(reason)
    with step(f"{PORTABLE if portable else CUSTOM}: {path.name} is opened"):
        return create_session(path, portable, options or quiet_options())


def run_session(
    session: ort.InferenceSession, names: Sequence[str] | None, feeds: Mapping[str, NDArray[Any]], what: str
) -> list[NDArray[Any]]:
    """Run a session within the time limit.

    Args:
        session: a session of ONNX Runtime.
        names: names of the outputs, None for all.
        feeds: its inputs.
        what: description of the step, for the message at the time limit.

    Raises:
        TimeLimitError: it took too long.
    """
    options = ort.RunOptions()
    with step(what, partial(setattr, options, "terminate", True)):
        return list(map(_array, session.run(names, dict(feeds), options)))


def _array(result: Any) -> NDArray[Any]:
    """Convert a result to one array, including the contents of sequences and maps, whose keys are in the file."""
    if not isinstance(result, list):
        return np.asarray(result)
    parts = [np.asarray([one[key] for key in sorted(one)] if isinstance(one, dict) else one) for one in result]
    if len({part.shape for part in parts}) > 1:
        return np.concatenate([part.reshape(-1) for part in parts])
    return np.asarray(parts)


def quiet_options(threads: int = 0) -> ort.SessionOptions:
    """Return session options that print nothing; with ``threads`` 0 the runtime chooses the number."""
    options = ort.SessionOptions()
    options.log_severity_level = _FATAL_ONLY
    options.intra_op_num_threads = threads
    return options
