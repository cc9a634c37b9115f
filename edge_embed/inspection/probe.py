"""The smallest model that only the operator library can run: one node, no portable body."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edge_embed.exporters.onnx.names import DOMAIN, DOMAIN_VERSION, IR_VERSION, OPSET
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.manifest import FORMAT_VERSION


def probe_table() -> PackedDPQ:
    """Seven rows of 3 groups, K = 5 (codes of 3 bits cross bytes), row 2 padding."""
    codes = np.arange(21).reshape(7, 3) * 3 % 5  # [n, D]
    values = np.linspace(-1, 1, 3 * 5 * 2, dtype=np.float32).reshape(3, 5, 2)  # [D, K, s]
    return PackedDPQ.from_codes(codes, values, padding_idx=2)


def probe_model(table: PackedDPQ) -> onnx.ModelProto:
    """``ids`` int64 [batch, sequence] -> ``rows``, over the table."""
    node = helper.make_node(
        "DPQEmbedding",
        ["ids", "codes", "values"],
        ["rows"],
        domain=DOMAIN,
        format_version=FORMAT_VERSION,
        bits=table.bits,
        num_codes=table.num_codes,
        num_groups=table.num_groups,
        padding_idx=-1 if table.padding_idx is None else table.padding_idx,
    )
    graph = helper.make_graph(
        [node],
        "probe",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"])],
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(table.codes, "codes"), numpy_helper.from_array(table.values, "values")],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, DOMAIN_VERSION)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
