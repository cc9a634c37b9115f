"""Sessions of ONNX Runtime on one or a few nodes, whose tensors stay in the memory of numpy.

Tensors are passed as external ones in memory, because a protobuf model is limited to 2 GB.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from edge_embed.errors import BadInputError, one_line
from edge_embed.exporters.onnx.names import DOMAIN, DOMAIN_VERSION, IR_VERSION, OPSET
from edge_embed.runtime.library import get_library_path
from edge_embed.validation.paths import quiet_options
from edge_embed.validation.timing import BoundSession, Feeds

_INLINE_BYTES = 1024  # small enough that a shape computed from it can be folded

Bind = Callable[[Feeds, int], BoundSession]


def bind_nodes(
    nodes: Sequence[NodeProto],
    tensors: Mapping[str, NDArray[Any]],
    inputs: Mapping[str, tuple[type, int]],
    threads: int,
    *,
    functions: Sequence[onnx.FunctionProto] = (),
    library: bool = False,
) -> Bind:
    """Open a session from inputs, by type and rank, to the outputs of the last node; it is bound to inputs later."""
    external = {name: array for name, array in tensors.items() if array.nbytes > _INLINE_BYTES}
    graph = helper.make_graph(
        nodes,
        "bench",
        [_value(name, kind, rank) for name, (kind, rank) in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in nodes[-1].output],  # their types follow from the nodes
        [
            _stub(name, array) if name in external else numpy_helper.from_array(array, name)
            for name, array in tensors.items()
        ],
    )
    domains = {"": OPSET, DOMAIN: DOMAIN_VERSION, "com.microsoft": 1}
    imports = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
    model = helper.make_model(graph, ir_version=IR_VERSION, opset_imports=imports, functions=functions)
    options = quiet_options(threads)
    # Threads that spin while they wait for the next call would take time from the other contenders.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if library:
        options.register_custom_ops_library(str(get_library_path()))
    values = [ort.OrtValue.ortvalue_from_numpy(array) for array in external.values()]
    options.add_external_initializers(list(external), values)
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception as error:  # the runtime's exceptions share no base class
        raise BadInputError(
            f"{nodes[-1].op_type}: ONNX Runtime {ort.__version__} cannot open it: {one_line(error)}"
        ) from error
    return lambda feeds, calls: BoundSession(session, feeds, calls)


def _value(name: str, kind: type, rank: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), [None] * rank)


def _stub(name: str, array: NDArray[Any]) -> TensorProto:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor = TensorProto(name=name, dims=array.shape, data_type=kind, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="memory")
    return tensor
