"""Runs of ONNX files under Wine with onnxruntime.dll, the operator library, and a C program (`run_onnx.c`)."""

import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from edge_embed.targets.cache import fetch_once
from edge_embed.targets.pinned import PIP, Pinned, pip_options

_VERSION, _SHA256 = "1.31.1", "c3d91b5de31e2fc82d71bd65b2b22bddee8b49057a3a36338e9a868e0ea90c05"
_TYPES = {np.dtype(np.int64): 7, np.dtype(np.float32): 1}  # of ONNX
_SECONDS = 300


@dataclass(frozen=True)
class Job:
    """A model, its inputs, and the types of its outputs."""

    name: str
    model: onnx.ModelProto
    inputs: Mapping[str, np.ndarray]
    outputs: Sequence[type] = (np.float32,)


def windows_runtime() -> Path:
    """Return the folder with onnxruntime.dll of the wheel for Windows, downloaded once."""

    def fill(folder: Path) -> None:
        wanted = Pinned("onnxruntime", _VERSION, (_SHA256,))
        with tempfile.TemporaryDirectory() as temporary, pip_options([wanted]) as chosen:
            where = ["--platform", "win_amd64", "--python-version", "3.11", "--dest", temporary]
            subprocess.run([*PIP, "download", *chosen, *where], check=True)
            (wheel,) = Path(temporary).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                (folder / "onnxruntime.dll").write_bytes(archive.read("onnxruntime/capi/onnxruntime.dll"))

    return fetch_once(f"onnxruntime-{_VERSION}-windows-x64", fill)


def run_jobs(
    program: Path, library: Path, jobs: Sequence[Job], folder: Path, isa: str
) -> dict[str, list[np.ndarray] | str]:
    """Return the outputs of every job, or the message of its error."""
    folder.mkdir()
    shutil.copy2(library, folder)
    lines = []
    for job in jobs:
        (folder / f"{job.name}.onnx").write_bytes(job.model.SerializeToString())
        words = [f"{job.name}.onnx", f"{job.name}.out", str(len(job.outputs)), str(len(job.inputs))]
        for name, value in job.inputs.items():
            file = f"{job.name}.{name}"
            (folder / file).write_bytes(value.tobytes())
            words += [name, str(_TYPES[value.dtype]), str(value.ndim), *map(str, value.shape), file]
        lines.append(" ".join(words))
    (folder / "jobs.txt").write_text("\n".join(lines) + "\n")
    runtime = f"Z:{windows_runtime() / 'onnxruntime.dll'}".replace("/", "\\")
    done = subprocess.run(
        ["wine", program, runtime, library.name, "jobs.txt"],
        cwd=folder,
        env={
            **os.environ,
            "WINEDEBUG": "-all",
            "WINEPREFIX": str(program.parent / "wine"),
            "EDGE_EMBED_FORCE_ISA": isa,
        },
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert "done" in done.stdout, f"status {done.returncode}: {done.stdout} {done.stderr}"
    return {job.name: _result((folder / f"{job.name}.out").read_bytes(), job) for job in jobs}


def _result(data: bytes, job: Job) -> list[np.ndarray] | str:
    if data.startswith(b"error: "):
        return data.decode()
    if len(job.outputs) == 1:
        return [np.frombuffer(data, job.outputs[0])]
    count = len(data) // sum(np.dtype(kind).itemsize for kind in job.outputs)
    values = np.frombuffer(data[: 4 * count], job.outputs[0])
    return [values, np.frombuffer(data[4 * count :], job.outputs[1])]
