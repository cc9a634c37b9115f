"""Description of the machine that figures were measured on."""

import os
import platform
import re
from pathlib import Path

import onnxruntime as ort


def machine(threads: int) -> dict[str, str]:
    """Return processor, number of cores and threads used, system, and runtime with its version."""
    return {
        "processor": _processor(),
        "cores": f"{os.cpu_count()} cores, {threads} used",
        "system": f"{platform.system()} {platform.machine()}",
        "runtime": f"onnxruntime {ort.__version__}",
    }


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or "unknown processor"
