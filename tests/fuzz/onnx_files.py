"""Fuzz target: ONNX files of other tools that `compress` reads and changes."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from driver import Reader
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node, make_tensor_value_info

from edge_embed.compression.job import Job
from edge_embed.compression.onnx.compress import compress_foreign
from edge_embed.compression.onnx.foreign_model import read_foreign
from edge_embed.compression.plan import Plan
from edge_embed.errors import BadInputError, SizeError

_ROWS, _COLUMNS = 40, 4


def _sound() -> onnx.ModelProto:
    """Return a model of two tables, one with a tied output layer, with a branch and an old operator set."""
    numbers = np.random.default_rng(0).standard_normal((2, _ROWS, _COLUMNS)).astype(np.float32)
    branch = helper.make_graph(
        [make_node("Relu", ["logits"], ["chosen"])], "branch", [], [make_tensor_value_info("chosen", 1, None)]
    )
    nodes = [
        make_node("Gather", ["words.weight", "ids"], ["rows"], "look_up"),
        make_node("Gather", ["tags.weight", "ids"], ["others"], "look_up_others", axis=0),
        make_node("Add", ["rows", "others"], ["sum"]),
        make_node("Identity", ["words.weight"], ["same"]),
        make_node("Transpose", ["same"], ["turned"], perm=[1, 0]),
        make_node("MatMul", ["sum", "turned"], ["logits"], "head"),
        make_node("ReduceMean", ["ids_as_floats"], ["mean"], axes=[0, 1], keepdims=0),
        make_node("Cast", ["mean"], ["is_any"], to=TensorProto.BOOL),
        make_node("If", ["is_any"], ["result"], "choose", then_branch=branch, else_branch=branch),
    ]
    nodes.insert(0, make_node("Cast", ["ids"], ["ids_as_floats"], to=TensorProto.FLOAT))
    graph = helper.make_graph(
        nodes,
        "elsewhere",
        [make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"])],
        [make_tensor_value_info("result", TensorProto.FLOAT, ["batch", "sequence", _ROWS])],
        [numpy_helper.from_array(numbers[0], "words.weight"), numpy_helper.from_array(numbers[1], "tags.weight")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=7)


def compressed(mutant_of: Callable[[bytes], Callable[[random.Random], bytes]]) -> Reader:
    """Return the reader of a file that `compress` changes: a model that onnx's checker accepts must stay valid.

    Args:
        mutant_of: returns the function that makes mutants of a valid file.
    """
    model = _sound()
    onnx.checker.check_model(model)
    sound = model.SerializeToString()
    return compressing(mutant_of(sound), sound)


def compressing(mutant: Callable[[random.Random], bytes], sound: bytes) -> Reader:
    """Return the reader of a file that `compress` changes, with its mutants."""
    job = Job(Plan("low_rank", options={"rank": 1}))

    def read(path: Path) -> None:
        file = read_foreign(path)
        was_correct = _is_correct(_with_functions(file.model))
        compress_foreign(file, job)
        if was_correct and not _is_correct(file.model):
            raise AssertionError("what was made of it is no correct model")

    return Reader("model.onnx", read, (BadInputError, SizeError), mutant, sound, passes=is_protobuf)


def is_protobuf(data: bytes) -> bool:
    """Return whether the data parses as an ONNX message."""
    try:
        onnx.load_from_string(data)
    except Exception:
        return False
    return True


def _with_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy with an IR version of at least 8: below that, the checker skips functions."""
    raised = onnx.ModelProto()
    raised.CopyFrom(model)
    raised.ir_version = max(raised.ir_version, 8)
    return raised


def _is_correct(model: onnx.ModelProto) -> bool:
    try:
        onnx.checker.check_model(model)
    except Exception:  # the checker raises errors of many types
        return False
    return True
