"""Run as a program of its own: how much memory a session takes, from before it is made to after its first run.

    python resident.py MODEL LIBRARY INPUTS.npz  ->  {"bytes": ...}

Nothing of this package is imported here, so that only the runtime's own memory is seen. Pages of mapped files
count as soon as they are touched.
"""

import json
import re
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def resident_bytes() -> int:
    """Resident memory of this process (VmRSS)."""
    found = re.search(r"^VmRSS:\s+(\d+) kB$", STATUS.read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"{STATUS} has no line VmRSS")
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
    before = resident_bytes()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    session.run(None, feeds)
    sys.stdout.write(json.dumps({"bytes": max(0, resident_bytes() - before)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
