"""Memory of a session and its time until the first answer, measured in a separate process."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.steps import step_limit
from edge_embed.targets.process import run_tool
from edge_embed.targets.script import script_command
from edge_embed.targets.target import NotRunError
from edge_embed.text_arrays import without_objects
from edge_embed.validation import resident_worker


@dataclass(frozen=True)
class Fresh:
    """A session in a fresh process, on one thread.

    Attributes:
        resident: growth of resident memory from before the session to after its first run, in bytes.
        peak: growth of resident memory to its maximum in that time, in bytes.
        open_seconds: wall time to create the session.
        first_call_seconds: wall time of the first run.
        private: growth of private memory, in no file, from before the session to after its first run, in bytes.
        opened_resident: growth of resident memory from before the session to before its first run, in bytes.
        opened_private: growth of private memory in that time, in bytes.
    """

    resident: int
    peak: int
    open_seconds: float
    first_call_seconds: float
    private: int
    opened_resident: int
    opened_private: int


def measure_fresh(path: Path, library: Path | None, feeds: Mapping[str, NDArray[Any]]) -> Fresh:
    """Run a model once, with an operator library or without one, in a separate process.

    Raises:
        NotRunError: the measurement is impossible here, or the process failed or took too long.
    """
    if not resident_worker.STATUS.exists():
        raise NotRunError(f"{resident_worker.STATUS} exists on Linux only")
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        np.savez(inputs, allow_pickle=False, **{name: without_objects(value) for name, value in feeds.items()})
        command = script_command(resident_worker.__file__, path, inputs, *([] if library is None else [library]))
        done = run_tool(command, step_limit(), what="the measuring process")
    return Fresh(**json.loads(done.printed))
