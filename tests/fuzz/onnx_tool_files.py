"""Fuzz target: tables in the forms of ONNX tools: sparse, quantised, in functions and scans, for one-hot rows."""

import random
from collections.abc import Callable

import numpy as np
import onnx
from driver import Reader
from onnx import NodeProto, helper, numpy_helper
from onnx.helper import make_node, make_tensor_value_info
from onnx_files import compressing

_ROWS, _COLUMNS = 40, 8
_OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1), helper.make_opsetid("com.microsoft", 1)]


def compressed(mutant_of: Callable[[bytes], Callable[[random.Random], bytes]]) -> Reader:
    """Return the reader of `onnx_files.compressed` with other files."""
    model = _sound()
    onnx.checker.check_model(model)
    sound = model.SerializeToString()
    return compressing(mutant_of(sound), sound)


def _sound() -> onnx.ModelProto:
    random_ = np.random.default_rng(0)
    table = random_.integers(-4, 5, (6, _ROWS, _COLUMNS)).astype(np.float32)
    tensors = {
        "hot.weight": table[0].T,
        "bias": np.arange(_COLUMNS, dtype=np.float32),
        "codes": table[1].astype(np.int8),
        "scale": np.float32(0.5),
        "zero": np.int8(1),
        "scan.weight": table[2],
        "both.weight": np.concatenate([table[3], table[4]]),
        "counts": np.array([_ROWS, _ROWS]),
        "flat": np.array([-1]),
    }
    nodes = [
        make_node("Reshape", ["ids", "flat"], ["each"], "flatten"),
        make_node("Find", ["each"], ["found"], "call", domain="own"),
        make_node("Constant", [], ["depth"], value_int=_ROWS),
        make_node("Constant", [], ["off_on"], value_floats=[0.0, 1.0]),
        make_node("OneHot", ["each", "depth", "off_on"], ["hot"], "hot"),
        make_node("Gemm", ["hot", "hot.weight", "bias"], ["product"], "product", transB=1, alpha=0.5, beta=2.0),
        make_node("DequantizeLinear", ["codes", "scale", "zero"], ["words"], "dequantise", domain="com.microsoft"),
        make_node("Gather", ["words", "each"], ["rows"], "look_up"),
        make_node("Gather", ["sparse.weight", "each"], ["others"], "look_up_sparse"),
        make_node("Split", ["both.weight", "counts"], ["one", "two"], "split", axis=0),
        make_node("Gather", ["one", "each"], ["first"], "look_up_first"),
        make_node("Gather", ["two", "each"], ["second"], "look_up_second"),
        make_node("Scan", ["ids"], ["scanned"], "scan", num_scan_inputs=1, body=_scanned()),
        make_node("Sum", ["found", "product", "rows", "others", "first", "second"], ["sum"], "add_up"),
    ]
    graph = helper.make_graph(
        nodes,
        "tools",
        [make_tensor_value_info("ids", onnx.TensorProto.INT64, ["batch", "sequence"])],
        [make_tensor_value_info("sum", 1, ["n", _COLUMNS]), make_tensor_value_info("scanned", 1, None)],
        [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in tensors.items()],
        sparse_initializer=[_sparse(np.where(table[5] > 0, table[5], 0), "sparse.weight")],
    )
    graph.output[1].type.tensor_type.shape.SetInParent()
    return helper.make_model(graph, opset_imports=_OPSETS, ir_version=8, functions=[_function(table[0] + 1)])


def _scanned() -> onnx.GraphProto:
    return helper.make_graph(
        [make_node("Gather", ["scan.weight", "some"], ["some_rows"], "look_up_scanned")],
        "body",
        [make_tensor_value_info("some", onnx.TensorProto.INT64, ["sequence"])],
        [make_tensor_value_info("some_rows", 1, ["sequence", _COLUMNS])],
    )


def _function(table: np.ndarray) -> onnx.FunctionProto:
    gather = make_node("Gather", ["w", "i"], ["g"])
    leaky = make_node("LeakyRelu", ["g"], ["r"])
    for node, name, other, kind in ((gather, "axis", "along", "INT"), (leaky, "alpha", "slope", "FLOAT")):
        node.attribute.add(name=name, ref_attr_name=other, type=getattr(onnx.AttributeProto, kind))
    constant = make_node("Constant", [], ["w"], value=numpy_helper.from_array(table))
    nodes: list[NodeProto] = [constant, gather, leaky]
    defaults = [helper.make_attribute("along", 0), helper.make_attribute("slope", 0.5)]
    return helper.make_function("own", "Find", ["i"], ["r"], nodes, _OPSETS[:1], attribute_protos=defaults)


def _sparse(array: np.ndarray, name: str) -> onnx.SparseTensorProto:
    places = np.flatnonzero(array)
    values = numpy_helper.from_array(array.reshape(-1)[places], name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(places, f"{name}.places"), array.shape)
