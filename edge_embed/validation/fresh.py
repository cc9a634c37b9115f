"""What a session takes in a process of its own: memory, and the time until the first answer."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.targets.target import NotRunError
from edge_embed.validation import resident

_TIMEOUT = 600


@dataclass(frozen=True)
class Fresh:
    """A session in a fresh process, on one thread.

    Attributes:
        resident: growth of resident memory, from before the session to after its first run, bytes.
        peak: the same, of the most that it was on the way.
        open_seconds: to make the session, wall time.
        first_call_seconds: of the first run, wall time.
    """

    resident: int
    peak: int
    open_seconds: float
    first_call_seconds: float


def measure_fresh(path: Path, library: Path, feeds: Mapping[str, NDArray[Any]]) -> Fresh:
    """Run a model once, with an operator library, in a process of its own.

    Raises:
        NotRunError: it cannot be measured here, or the process failed.
    """
    if not resident.STATUS.exists():
        raise NotRunError(f"{resident.STATUS} is only there on Linux")
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        np.savez(inputs, allow_pickle=False, **feeds)
        command = [sys.executable, "-P", resident.__file__, str(path), str(library), str(inputs)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT)
        except subprocess.TimeoutExpired as error:
            raise NotRunError(f"the measuring process took more than {_TIMEOUT} s") from error
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise NotRunError(f"the measuring process ended with {done.returncode}: {last:.200}")
    return Fresh(**json.loads(done.stdout))
