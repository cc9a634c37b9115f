"""Runs models for the JVM: one question and one answer a line, as JSON; values of tensors are base64."""

import base64
import json
import sys
from typing import Any

import numpy as np
import onnxruntime as ort

_SESSIONS: list[ort.InferenceSession] = []


def _open(question: dict[str, Any]) -> dict[str, Any]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    if question["library"]:
        options.register_custom_ops_library(question["library"])
    _SESSIONS.append(ort.InferenceSession(question["open"], options, providers=["CPUExecutionProvider"]))
    return {"session": len(_SESSIONS) - 1}


def _run(question: dict[str, Any]) -> dict[str, Any]:
    session = _SESSIONS[question["run"]]
    feeds = {
        name: np.frombuffer(base64.b64decode(tensor["bytes"]), tensor["dtype"]).reshape(tensor["shape"])
        for name, tensor in question["inputs"].items()
    }
    names = [output.name for output in session.get_outputs()]
    return {
        "outputs": {
            name: {"dtype": str(value.dtype), "shape": value.shape, "bytes": base64.b64encode(value).decode()}
            for name, value in zip(names, session.run(names, feeds), strict=True)
        }
    }


for line in sys.stdin:
    content = json.loads(line)
    try:
        answer = _open(content) if "open" in content else _run(content)
    except Exception as error:  # the runtime's exceptions have no common base class
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
