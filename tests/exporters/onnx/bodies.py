"""Tables, models of their portable bodies, and the results of ONNX Runtime and the reference evaluator."""

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from edge_embed.exporters.onnx.names import DOMAIN, DOMAIN_VERSION, IR_VERSION, OPSET
from edge_embed.packed.ant import PackedANT
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_values import quantized
from edge_embed.packed.tt import PackedTT
from edge_embed.targets.reference import open_reference
from edge_embed.validation.tables import Table

from ...tiered_tables import tiered

LEVELS = ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL")
id_types = st.sampled_from(["int32", "int64"])
value_types = st.sampled_from(["float32", "float16"])
dpq_value_types = st.sampled_from(["float32", "float16", "int8"])


def dpq(n=20, codes=5, groups=4, width=3, shared=False, dtype="float32", padding_idx=None, seed=0):
    random = np.random.default_rng(seed)
    values = random.standard_normal((1 if shared else groups, codes, width))
    values, scales = quantized(values) if dtype == "int8" else (values.astype(dtype), None)
    return PackedDPQ.from_codes(random.integers(0, codes, (n, groups)), values, padding_idx, scales)


def ant(n=20, anchors=7, dim=5, dtype="float32", weights="float32", density=0.4, padding_idx=None, seed=0):
    random = np.random.default_rng(seed)
    transform = random.random((n, anchors)) * (random.random((n, anchors)) < density)
    table = random.standard_normal((anchors, dim)).astype(dtype)
    return PackedANT.from_dense(transform.astype(np.float32), table, padding_idx, weights)


def tt(n=20, rows=(3, 2, 4), columns=(2, 3, 1), rank=3, ring=1, dtype="float32", padding_idx=None, seed=0):
    random = np.random.default_rng(seed)
    ranks = [ring, *[rank] * (len(rows) - 1), ring]
    shapes = [(rows[k], ranks[k], columns[k], ranks[k + 1]) for k in range(len(rows))]
    return PackedTT(tuple(random.standard_normal(shape).astype(dtype) for shape in shapes), n, padding_idx)


def scaled(packed, unused=1, count=3):
    """Return the same codes and values with row scales, without the last columns, or both."""
    random, n = np.random.default_rng(packed.num_embeddings), packed.num_embeddings
    codes = random.integers(0, max(count, 1), n, np.uint8)
    if packed.padding_idx is not None:
        codes[packed.padding_idx] = 0
    scales = random.uniform(0, 2, count).astype(np.float32)
    rows = {"row_scale_codes": codes, "row_scales": scales} if count else {}
    return replace(packed, unused_columns=min(unused, packed.shape.group_width - 1), **rows)


def in_tiers(n=20, dtype="float32", padding_idx=None, seed=0):
    """Return a tiered table of 6 columns; its rows are sorted for an odd seed."""
    sizes = (1 + n // 8, n // 3, n - 1 - n // 8 - n // 3)
    return tiered(sizes=sizes, value_type=dtype, padding_idx=padding_idx, is_sorted=seed % 2 == 1)


def ordered(packed):
    """Return the same cores with a row order."""
    order = np.random.default_rng(packed.num_embeddings).permutation(packed.num_embeddings)
    return replace(packed, row_order=padding_in_place(order, packed.padding_idx).astype(np.int32))


def padding_in_place(order, padding_idx):
    """Return the order with the padding row swapped with the id that has its row now."""
    if padding_idx is not None:
        other = int(np.flatnonzero(order == padding_idx)[0])
        order[[padding_idx, other]] = order[[other, padding_idx]]
    return order


TABLES = {
    "dpq": dpq,
    "scaled dpq": lambda **sizes: scaled(dpq(**sizes)),
    "ant": ant,
    "tt": tt,
    "ordered tt": lambda **sizes: ordered(tt(**sizes)),
    "tiered": in_tiers,
}


def node_of(packed: Any, use: str, inputs: list[str], *outputs: str, prefix: str = "", **leading: Any) -> Any:
    """Return the node, the packed tensors as initializers, and the operators of an export."""
    table, tensors = Table("", packed), packed.tensors()
    operator = table.onnx.operator(use)
    first = {"rows": ["ids"], "bag": ["ids", "offsets", leading.get("weights"), leading.get("mode", "sum")],
             "logits": ["hidden"], "topk": ["hidden", leading.get("bias"), leading.get("k")]}[use]  # fmt: skip
    attributes = operator.attributes(*first, *table.arguments)
    names = [prefix + name for name in tensors]
    node = helper.make_node(operator.op_type, [*inputs, *names], outputs, domain=DOMAIN, **attributes)
    stored = [numpy_helper.from_array(array, name) for name, array in zip(names, tensors.values(), strict=True)]
    return node, stored, [*operator.called(len(tensors)), (operator, len(tensors))]  # callees first


def model_of(nodes: list[Any], feeds: dict[str, Any], outputs: dict[str, tuple[Any, int]]) -> onnx.ModelProto:
    """Return a model of such nodes with the bodies that they need; inputs and outputs have dynamic dimensions."""
    functions = {use.op_type: use.function(count) for _, _, uses in nodes for use, count in uses}

    def value(name: str, dtype: Any, rank: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [None] * rank)

    graph = helper.make_graph(
        [node for node, _, _ in nodes],
        "bodies",
        [value(name, array.dtype, array.ndim) for name, array in feeds.items()],
        [value(name, *described) for name, described in outputs.items()],
        {tensor.name: tensor for _, stored, _ in nodes for tensor in stored}.values(),
    )
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, DOMAIN_VERSION)]
    return helper.make_model(graph, ir_version=IR_VERSION, opset_imports=imports, functions=list(functions.values()))


def session(
    model: onnx.ModelProto, level: str = "ENABLE_ALL", path: str = "", profile: str = ""
) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = bool(profile), profile
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
    options.optimized_model_filepath = path
    return ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def results(model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Any]:
    """Return the results of ONNX Runtime without the operator library and of the reference evaluator."""
    with np.errstate(invalid="ignore"):
        reference = open_reference(model).run(None, feeds)[0]
    return {"runtime": session(model).run(None, feeds)[0], "reference": reference}


def rows_model(packed: Any, ids: Any) -> onnx.ModelProto:
    kind = packed.rows(np.zeros(1, np.int64)).dtype
    return model_of([node_of(packed, "rows", ["ids"], "rows")], {"ids": ids}, {"rows": (kind, ids.ndim + 1)})


def bag_feeds(packed: Any, ids: Any, offsets: Any, weights: Any = None) -> dict[str, Any]:
    kind = packed.rows(np.zeros(1, np.int64)).dtype
    given = np.zeros(0, kind) if weights is None else weights.astype(kind)
    return {"ids": ids, "offsets": np.asarray(offsets, np.int64), "sample_weights": given}


def bag_model(packed: Any, feeds: dict[str, Any], mode: str, weights: Any = None) -> onnx.ModelProto:
    node = node_of(packed, "bag", list(feeds), "bags", mode=mode, weights=weights)
    return model_of([node], feeds, {"bags": (feeds["sample_weights"].dtype, 2)})


def logits_model(packed: Any, hidden: Any) -> onnx.ModelProto:
    node = node_of(packed, "logits", ["hidden"], "logits")
    return model_of([node], {"hidden": hidden}, {"logits": (hidden.dtype, hidden.ndim)})


def topk_model(packed: Any, feeds: dict[str, Any], k: int) -> onnx.ModelProto:
    bias, hidden = "bias" if feeds["bias"].size else None, feeds["hidden"]
    node = node_of(packed, "topk", list(feeds), "top_values", "top_ids", bias=bias, k=k)
    return model_of([node], feeds, {"top_values": (hidden.dtype, hidden.ndim), "top_ids": (np.int64, hidden.ndim)})


def assert_close(got: Any, expected: Any, magnitude: Any, note: Any = "", kind: Any = None) -> None:
    """Assert a margin of 4 eps of the sum's magnitude plus half the smallest number, in the coarsest type used."""
    assert got.shape == expected.shape, note
    kind = np.finfo(got.dtype if kind is None else kind)
    margin = 4 * float(kind.eps) * magnitude + float(kind.smallest_subnormal) / 2
    assert np.all(np.abs(got.astype(np.float64) - expected) <= margin), note


def check_rows(packed: Any, ids: Any) -> None:
    for way, got in results(rows_model(packed, ids), {"ids": ids}).items():
        expected = packed.rows(ids)
        assert got.dtype == expected.dtype, way
        if packed.method in ("dpq", "tiered"):
            assert (got.shape, got.tobytes()) == (expected.shape, expected.tobytes()), way
        else:
            assert_close(got, packed.rows_float64(ids), packed.magnitudes(ids), way)
            padding = got[ids == packed.padding_idx]
            assert not padding.any(), way
            if way == "runtime":  # numpy gives 0 * -1 = -0.0 where a sum has one term
                assert not padding.view(np.uint8).any(), way


def ids_of(packed: Any, shape: tuple[int, ...], dtype: str = "int64", seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, packed.num_embeddings, shape, dtype=dtype)


def types_of(method: str) -> st.SearchStrategy[str]:
    return dpq_value_types if method == "dpq" else value_types
