"""Worker program: measures a session in a fresh process, from before its creation to after its first run.

    python resident_worker.py MODEL LIBRARY INPUTS.npz  ->  {"resident": ..., "peak": ..., "open_seconds": ..., ...}

Nothing of this package is imported, so that only the memory of the runtime counts. Pages of mapped files
count as soon as they are read. The model may be in the page cache; the process is new.
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
    """Return the resident memory of this process; ``VmHWM`` is its maximum."""
    found = re.search(rf"^{line}:\s+(\d+) kB$", STATUS.read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"{STATUS} has no line {line}")
    return 1024 * int(found[1])


def main(model: str, library: str, inputs: str) -> None:
    """Measure a session and print the results."""
    import numpy as np  # noqa: PLC0415
    import onnxruntime as ort  # noqa: PLC0415

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.register_custom_ops_library(library)
    feeds = dict(np.load(inputs))
    with suppress(OSError):  # without it the peak of the imports may hide that of the session
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
