"""Messages for modules that cannot be traced, in terms of user code: torch's own are pages about its internals."""

import linecache
import re
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

_PACKAGE = str(Path(__file__).parents[1])
_OTHERS = (str(Path(torch.__file__).parent), _PACKAGE, "<")
_LONGEST_LINE = 80
_VALUES = (
    "the computation depends on values of a tensor, which are unknown before the model runs. Replace a "
    "branch by torch.where(condition, a, b), and a length or loop that depends on values by a mask"
)
_NO_TENSOR = re.compile(r"Found <class '([^']+)'> in output")
_OPERATOR = re.compile(r"\b(?:aten|prims)\.(\w+)\.\w+|'(?:aten|prims)::(\w+)'")
_SIZE = re.compile(r"L\['(\w+)'\]\.size\(\)\[(\d+)\]")


def explained(error: BaseException, model: str, is_shaped: bool, empty: str = "") -> str:
    """Return one or two sentences about an error of tracing.

    Args:
        error: error of torch, or of the user's own code.
        model: class name of the model.
        is_shaped: whether the user gave dynamic shapes, which may cause the error.
        empty: result of `empty_example`: torch's own text does not mention a size of 0.
    """
    text = str(error)
    place = _place(error)
    at = f" at {place}" if place else ""
    if type(error).__name__ == "GuardOnDataDependentSymNode" or "data-dependent" in text:
        return f"{model} cannot be traced{at}: {_VALUES}"
    if found := _NO_TENSOR.search(text):
        kind = found[1].rpartition(".")[2]
        remedy = (
            "set use_cache = False first, in model.config and those of its parts"
            if kind.endswith("Cache")
            else "return its fields"
        )
        return (
            f"{model} cannot be traced: its forward returns a {kind}, expected tensors in a tuple, list, mapping "
            f"or named tuple: {remedy}"
        )
    if ".numpy()" in text:
        return f"{model} cannot be traced{at}: exported models do not support numpy: compute with torch"
    if "device" in text and ("two different devices" in text or "same device" in text):
        return f"{model} cannot be traced{at}: its weights and its inputs are on different devices: call model.cpu()"
    if is_shaped and not place and not empty:
        given = "with these dynamic dimensions (dynamic_shapes, or names in --input)"
        return (
            f"{model} cannot be traced {given}: {_shapes(text)}. By default, all dimensions are dynamic that the "
            "model supports"
        )
    if type(error).__name__ in ("UnsupportedOperatorException", "NotImplementedError") and (
        op := _OPERATOR.search(text)
    ):
        return f"{model} cannot be traced{at}: {_unknown(op[1] or op[2])}"
    if place and _innermost(error) == place:
        return f"{model} cannot be traced: its forward raises {type(error).__name__}{at}: {_first_line(error)}"
    if empty:
        return f"{model} cannot be traced{at}: {empty}"
    return (
        f"{model} cannot be traced with these example inputs{at}: {_first_line(error)}. Check that "
        "model(*example_inputs) runs"
    )


def empty_example(inputs: Iterable[Any]) -> str:
    """Return the remedy for the first example input without elements; empty if there is none."""
    shapes = (list(leaf.shape) for leaf in inputs if isinstance(leaf, torch.Tensor) and not leaf.numel())
    shape = next(shapes, None)
    if shape is None:
        return ""
    return f"an example input has shape {shape}, expected at least 1 in every dimension: give a larger example"


def place_in(stack_trace: str) -> str:
    """Return the innermost line of the user's own code in a stack trace of torch; empty if there is none."""
    found = re.findall(r'File "([^"]+)", line (\d+)', stack_trace)
    lines = [(file, int(line)) for file, line in found if _is_theirs(file)]
    return _spelled(*lines[-1]) if lines else ""


def _place(error: BaseException) -> str:
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_theirs(frame.filename)]
    return _spelled(lines[-1].filename, lines[-1].lineno or 0) if lines else ""


def _innermost(error: BaseException) -> str:
    """Return the line that raised, if it is the user's own; calls of torch pass through a mode of this package."""
    frames = traceback.extract_tb(error.__traceback__)
    return _spelled(frames[-1].filename, frames[-1].lineno or 0) if frames else ""


def _is_theirs(file: str) -> bool:
    return not file.startswith(_OTHERS)


def _spelled(file: str, line: int) -> str:
    code = linecache.getline(file, line).strip()
    return f"{Path(file).name}:{line}" + (f" ({code[:_LONGEST_LINE]})" if code else "")


def _first_line(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0]
    return (
        re.split(r" (?:For more information|Maybe try|Consider|See https?:)", text)[0].rstrip(".")
        or type(error).__name__
    )


def _unknown(operator: str) -> str:
    kind = next((kind for kind in ("sparse", "nested", "quantize") if kind in operator), "")
    of = {"sparse": "sparse tensors", "nested": "nested tensors", "quantize": "quantised numbers"}.get(kind)
    if of:
        return f"exported models do not support {of} ({operator}): compute with dense tensors, padded and masked"
    return f"the operator {operator} cannot be traced: replace it by other operators"


def _shapes(text: str) -> str:
    """Return torch's message about dynamic shapes, without its advice."""
    points = [line.strip(" -") for line in text.splitlines() if line.startswith("  - ")]
    message = " ".join(points) or text.strip().partition("\n")[0]
    message = _SIZE.sub(r"dimension \2 of \1", message)
    message = re.sub(r"\w+ = (dimension)", r"\1", message)
    message = re.split(r" (?:If you're using|For more information|Alternatively)", message)[0]
    known: Mapping[str, Any] = {"list assignment index out of range": "a dynamic dimension is missing in an input"}
    return str(known.get(message, message)).rstrip(".")
