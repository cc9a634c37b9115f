"""Run as a program of its own: what a session takes in a fresh process, from before it is made to after its first run.

    python resident_worker.py MODEL LIBRARY INPUTS.npz  ->  {"resident": ..., "peak": ..., "open_seconds": ..., ...}

Nothing of this package is imported here, so that only the runtime's own memory is seen. Pages of mapped files
count as soon as they are touched. The model may be in the page cache; the process is new.
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
    """Resident memory of this process; ``VmHWM`` is the most that it was."""
    found = re.search(rf"^{line}:\s+(\d+) kB$", STATUS.read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"{STATUS} has no line {line}")
    return 1024 * int(found[1])


def main(model: str, library: str, inputs: str) -> None:
    """Measure and print."""
    import numpy as np  # noqa: PLC0415
    import onnxruntime as ort  # noqa: PLC0415

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.register_custom_ops_library(library)
    feeds = dict(np.load(inputs))
    with suppress(OSError):  # without it the peak of the imports may hide ours
        _CLEAR.write_text("5")
    before, start = resident_bytes(), time.perf_counter()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    opened = time.perf_counter()
    session.run(None, feeds)
    ran = time.perf_counter()
    found = {
        "resident": max(0, resident_bytes() - before),
        "peak": max(0, resident_bytes("VmHWM") - before),
        "open_seconds": opened - start,
        "first_call_seconds": ran - opened,
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
