"""The reference evaluator of the onnx package as a target."""

import warnings

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edge_embed.targets.reference import open_reference


@pytest.mark.parametrize(("operator", "results"), [("Log", [-np.inf, np.nan]), ("Reciprocal", [np.inf, -1])])
def test_reference_evaluator_with_infinite_results_emits_no_warning(operator: str, results: list[float]) -> None:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "graph", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = open_reference(model).run(None, {"x": np.array([0, -1], np.float32)})
    np.testing.assert_array_equal(found, np.array(results, np.float32))
