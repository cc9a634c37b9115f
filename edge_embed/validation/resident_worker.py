"""Worker program: measures a session in a fresh process, from before its creation to after its first run.

    python resident_worker.py MODEL INPUTS.npz [LIBRARY]  ->  {"resident": ..., "private": ..., "peak": ..., ...}

Nothing of this package is imported, so that only the memory of the runtime counts. Pages of mapped files are resident
as soon as they are read, and never private. The model may be in the page cache; the process is new.
"""

import json
import re
import sys
import time
from contextlib import suppress
from pathlib import Path

STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def resident_bytes(line: str = "VmRSS") -> int:
    """Return the resident memory of this process; ``VmHWM`` is its maximum, and ``RssAnon`` the part in no file."""
    found = re.search(rf"^{line}:\s+(\d+) kB$", STATUS.read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"{STATUS} has no line {line}")
    return 1024 * int(found[1])


def main(model: str, inputs: str, library: str | None = None) -> None:
    """Measure a session and print the results."""
    import numpy as np  # noqa: PLC0415
    import onnxruntime as ort  # noqa: PLC0415

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if library is not None:
        options.register_custom_ops_library(library)
    feeds = dict(np.load(inputs))
    with suppress(OSError):  # without it the peak of the imports may hide that of the session
        _CLEAR.write_text("5")
    before, start = _memory(), time.perf_counter()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    opened, at_open = time.perf_counter(), _memory()
    called = time.perf_counter()
    results = session.run(None, feeds)
    ran, at_call = time.perf_counter(), _memory()
    del results  # outputs are part of the memory after the call
    found = {
        "resident": max(0, at_call[0] - before[0]),
        "peak": max(0, resident_bytes("VmHWM") - before[0]),
        "open_seconds": opened - start,
        "first_call_seconds": ran - called,
        "private": max(0, at_call[1] - before[1]),
        "opened_resident": max(0, at_open[0] - before[0]),
        "opened_private": max(0, at_open[1] - before[1]),
    }
    sys.stdout.write(json.dumps(found))


def _memory() -> tuple[int, int]:
    """Return the resident bytes and, of them, the private ones."""
    return resident_bytes(), resident_bytes("RssAnon")


if __name__ == "__main__":
    main(*sys.argv[1:])
