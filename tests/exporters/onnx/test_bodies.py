"""The portable bodies of all methods and uses are the packed forms: in ONNX Runtime and in the reference evaluator."""

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from torch import nn

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.export import METHODS
from edge_embed.exporters.onnx.names import DOMAIN, DOMAIN_VERSION, IR_VERSION, OPSET
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.bag import ANTEmbeddingBag, DPQEmbeddingBag, TTEmbeddingBag
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.tied_output import TiedOutput
from edge_embed.layers.tt import TTEmbedding
from edge_embed.lowering.graph import METHODS as LOWERING
from edge_embed.packed.ant import PackedANT
from edge_embed.packed.bag import bag
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_values import quantized
from edge_embed.packed.logits import logits
from edge_embed.packed.tt import PackedTT
from edge_embed.targets.reference import open_reference

LEVELS = ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL")
ONNX = {method.name: method for method in METHODS}
ARGUMENTS = {method.name: method.arguments for method in LOWERING}

# ---------------------------------------------------------------------------------------------------------------------
# Tables, and models of one node or several.


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


TABLES = {"dpq": dpq, "ant": ant, "tt": tt}


def node_of(packed: Any, use: str, inputs: list[str], *outputs: str, prefix: str = "", **leading: Any) -> Any:
    """The node, and the packed tensors as initializers, as an export has them."""
    method, tensors = ONNX[packed.method], packed.tensors()
    operator = method.operator(use)
    first = {"rows": ["ids"], "bag": ["ids", "offsets", leading.get("weights"), leading.get("mode", "sum")],
             "logits": ["hidden"], "topk": ["hidden", leading.get("bias"), leading.get("k")]}[use]  # fmt: skip
    attributes = operator.attributes(*first, *ARGUMENTS[packed.method](packed, list(tensors.values())))
    names = [prefix + name for name in tensors]
    node = helper.make_node(operator.op_type, [*inputs, *names], outputs, domain=DOMAIN, **attributes)
    stored = [numpy_helper.from_array(array, name) for name, array in zip(names, tensors.values(), strict=True)]
    return node, stored, [(method.operator("rows"), len(tensors)), (operator, len(tensors))]  # callees first


def model_of(nodes: list[Any], feeds: dict[str, Any], outputs: dict[str, tuple[Any, int]]) -> onnx.ModelProto:
    """A model of such nodes, with the bodies that they need; dimensions of inputs and outputs are dynamic."""
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


def session(model: onnx.ModelProto, level: str = "ENABLE_ALL", path: str = "") -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
    options.optimized_model_filepath = path
    return ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def results(model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Any]:
    """What ONNX Runtime without any library of ours, and the reference evaluator, make of it."""
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
    """Within 4 eps of the magnitude of the sum, and half of the smallest number, of the coarsest type in between."""
    assert got.shape == expected.shape, note
    kind = np.finfo(got.dtype if kind is None else kind)
    margin = 4 * float(kind.eps) * magnitude + float(kind.smallest_subnormal) / 2
    assert np.all(np.abs(got.astype(np.float64) - expected) <= margin), note


def check_rows(packed: Any, ids: Any) -> None:
    for way, got in results(rows_model(packed, ids), {"ids": ids}).items():
        expected = packed.rows(ids)
        assert got.dtype == expected.dtype, way
        if packed.method == "dpq":
            assert (got.shape, got.tobytes()) == (expected.shape, expected.tobytes()), way
        else:
            assert_close(got, packed.rows_float64(ids), packed.magnitudes(ids), way)
            padding = got[ids == packed.padding_idx]
            assert not padding.any(), way
            if way == "runtime":  # numpy gives 0 * -1 = -0.0 where a sum has one term
                assert not padding.view(np.uint8).any(), way


# ---------------------------------------------------------------------------------------------------------------------
# Rows.

SHAPES = ((), (1,), (7,), (0,), (2, 3), (0, 4), (3, 0), (2, 1, 3), (1200,))
shape_of_ids = st.one_of(st.sampled_from(SHAPES), st.just((1200,)))
id_types = st.sampled_from(["int32", "int64"])
value_types = st.sampled_from(["float32", "float16"])
dpq_value_types = st.sampled_from(["float32", "float16", "int8"])


def ids_of(packed: Any, shape: tuple[int, ...], dtype: str = "int64", seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, packed.num_embeddings, shape, dtype=dtype)


def padding_of(data: st.DataObject, n: int) -> int | None:
    return data.draw(st.sampled_from([None, 0, n - 1]), "padding")


def draw_dpq(data: st.DataObject) -> PackedDPQ:
    codes = data.draw(st.sampled_from([2, 3, 4, 5, 8, 11, 16, 17, 64, 100, 128, 200, 256, 257, 1000, 4096]), "K")
    groups, width = data.draw(st.integers(1, 20), "D"), data.draw(st.integers(1, 4), "s")
    n = data.draw(st.sampled_from([1, 2, 19]), "n")
    return dpq(n, codes, groups, width, data.draw(st.booleans(), "shared"), data.draw(dpq_value_types, "type"),
               padding_of(data, n))  # fmt: skip


def draw_ant(data: st.DataObject) -> PackedANT:
    n, anchors = data.draw(st.sampled_from([1, 2, 19]), "n"), data.draw(st.sampled_from([1, 2, 9, 300]), "A")
    weights = data.draw(st.sampled_from(["float32", "float16", "int8"]), "weights")
    density = data.draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]), "density")
    return ant(n, anchors, data.draw(st.integers(1, 9), "d"), data.draw(value_types, "type"), weights, density,
               padding_of(data, n))  # fmt: skip


def draw_tt(data: st.DataObject) -> PackedTT:
    count = data.draw(st.integers(2, 6), "cores")
    rows = tuple(data.draw(st.lists(st.integers(1, 4), min_size=count, max_size=count), "I"))
    columns = tuple(data.draw(st.lists(st.integers(1, 3), min_size=count, max_size=count), "J"))
    n = data.draw(st.integers(1, int(np.prod(rows))), "n")
    return tt(n, rows, columns, data.draw(st.integers(1, 4), "R"), data.draw(st.sampled_from([1, 1, 2, 3]), "ring"),
              data.draw(value_types, "type"), padding_of(data, n))  # fmt: skip


def types_of(method: str) -> st.SearchStrategy[str]:
    return dpq_value_types if method == "dpq" else value_types


DRAW = {"dpq": draw_dpq, "ant": draw_ant, "tt": draw_tt}


@pytest.mark.parametrize("method", DRAW)
@settings(max_examples=20)
@given(st.data())
def test_rows_are_those_of_the_packed_form(method, data):
    packed = DRAW[method](data)
    check_rows(packed, ids_of(packed, data.draw(shape_of_ids, "shape"), data.draw(id_types, "ids")))


@pytest.mark.slow
@pytest.mark.parametrize("method", DRAW)
@settings(max_examples=400)
@given(st.data())
def test_rows_are_those_of_the_packed_form_in_many_examples(method, data):
    test_rows_are_those_of_the_packed_form.hypothesis.inner_test(method, data)


@pytest.mark.parametrize("shared", [False, True])
def test_codes_of_two_bytes(shared):
    packed = dpq(n=6, codes=65536, groups=3, width=1, shared=shared, padding_idx=2)
    check_rows(packed, np.arange(6).reshape(2, 3))


@pytest.mark.parametrize("padding_idx", [None, 3])
@pytest.mark.parametrize(("groups", "width"), [(8, 1), (8, 2), (3, 4), (8, 5)])
@pytest.mark.parametrize("codes", [2, 3, 4, 13, 16, 60, 200, 256])
def test_small_and_large_batches_take_different_ways_to_the_same_rows(codes, groups, width, padding_idx):
    """From 512 ids on, bytes are looked up whole, and element by element where they stand for few values."""
    for dtype in ("float32", "int8"):
        packed = dpq(n=40, codes=codes, groups=groups, width=width, padding_idx=padding_idx, dtype=dtype)
        for shape in ((511,), (512,), (513,), (16, 64)):
            check_rows(packed, ids_of(packed, shape))


@pytest.mark.parametrize(("codes", "padding_idx", "kept"), [(256, None, 0), (200, None, 1), (256, 3, 1), (200, 3, 2)])
def test_a_session_drops_what_a_table_does_not_need(codes, padding_idx, kept, tmp_path):
    """No code is clamped where every byte is one, and no zeros are scattered where there is no padding."""
    path = tmp_path / "optimized.onnx"
    session(rows_model(dpq(codes=codes, padding_idx=padding_idx), np.arange(2)), "ENABLE_BASIC", str(path))
    names = [(node.op_type, node.output[0].rpartition("Embedding_")[2]) for node in onnx.load(path).graph.node]
    assert sum(name in [("Min", "code"), ("ScatterND", "padded_rows")] for name in names) == kept


def test_tables_of_different_bits_share_a_body():
    """One function a node type, for all tables in a file: what differs comes from attributes and shapes."""
    tables = [dpq(codes=codes, groups=8, padding_idx=codes % 7, seed=codes) for codes in (3, 16, 100, 300)]
    ids = ids_of(tables[0], (2, 300))
    nodes = [node_of(table, "rows", ["ids"], f"rows_{at}", prefix=f"{at}.") for at, table in enumerate(tables)]
    model = model_of(nodes, {"ids": ids}, {f"rows_{at}": (np.float32, 3) for at in range(4)})
    assert len(model.functions) == 1
    onnx.checker.check_model(model, full_check=True)
    for runner in (session(model), open_reference(model)):
        for rows, table in zip(runner.run(None, {"ids": ids}), tables, strict=True):
            assert rows.tobytes() == table.rows(ids).tobytes()


@pytest.mark.parametrize("use", ["rows", "bag", "logits"])
@pytest.mark.parametrize(("method", "dtype"), [*itertools.product(TABLES, ["float32", "float16"]), ("dpq", "int8")])
def test_every_level_gives_the_rows_and_the_checker_accepts(method, use, dtype):
    packed = TABLES[method](dtype=dtype, padding_idx=1)
    for feeds, model, expected in uses_of(packed)[use]:
        onnx.checker.check_model(model, full_check=True)
        for level in LEVELS:
            assert_close(session(model, level).run(None, feeds)[0], *expected, level)


def uses_of(packed: Any) -> dict[str, list[Any]]:
    """Feeds, a model and what it should give, by use."""
    random = np.random.default_rng(1)
    many = ids_of(packed, (600,))
    feeds = bag_feeds(packed, many, [0, 0, 10, 600])
    hidden = random.standard_normal((3, packed.embedding_dim)).astype(feeds["sample_weights"].dtype)
    return {
        "rows": [
            ({"ids": ids}, rows_model(packed, ids), (packed.rows_float64(ids), packed.magnitudes(ids)))
            for ids in (many, many[:6].reshape(2, 3))
        ],
        "bag": [
            (feeds, bag_model(packed, feeds, mode), bag(packed, many, feeds["offsets"], mode))
            for mode in ("sum", "mean", "max")
        ],
        "logits": [({"hidden": hidden}, logits_model(packed, hidden), logits(packed, hidden))],
    }


# ---------------------------------------------------------------------------------------------------------------------
# Bags and heads.


@pytest.mark.parametrize("method", TABLES)
@settings(max_examples=20)
@given(st.data())
def test_bags_are_those_of_the_packed_form(method, data):
    packed = TABLES[method](
        dtype=data.draw(types_of(method), "type"), padding_idx=data.draw(st.sampled_from([None, 3]))
    )
    sizes = data.draw(st.lists(st.sampled_from([0, 1, 2, 5, 30]), max_size=6), "sizes")
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    ids = ids_of(packed, (int(offsets[-1]),), data.draw(id_types, "ids"), data.draw(st.integers(0, 99), "seed"))
    mode, weights = data.draw(st.sampled_from(["sum", "mean", "max"]), "mode"), None
    if mode == "sum" and data.draw(st.booleans(), "weighted"):
        weights = np.random.default_rng(0).standard_normal(len(ids)).astype(packed.row_type)
    feeds = bag_feeds(packed, ids, offsets, weights)
    expected = bag(packed, ids, offsets, mode, weights)
    for way, got in results(bag_model(packed, feeds, mode, weights), feeds).items():
        assert_close(got, *expected, way)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("method", TABLES)
def test_bags_of_padding_alone_are_zero(method, mode):
    packed = TABLES[method](padding_idx=3)
    feeds = bag_feeds(packed, np.array([3, 3, 4, 3]), [0, 2, 2, 4])
    for way, got in results(bag_model(packed, feeds, mode), feeds).items():
        assert not got[:2].view(np.uint8).any(), way  # all padding; empty
        assert_close(got[2], packed.rows_float64(4), packed.magnitudes(4), way)  # padding is neither counted nor seen


@pytest.mark.parametrize(
    "offsets",
    [[0, 3, 2, 4], [1, 4], [0, 3], [0, 5], [-1, 4], [0, -1, 4], [0, 9, 4], [0, 2**62, 4], [-4, 4], [-1, 5], []],
    ids=str,
)
@pytest.mark.parametrize("mode", ["sum", "max"])
def test_wrong_offsets_are_errors(offsets, mode):
    packed = ant()
    feeds = bag_feeds(packed, np.arange(4), offsets)
    model = bag_model(packed, feeds, mode)
    with pytest.raises(Exception, match=r"(?i)ind(ex|ices)|bound|start"):
        session(model).run(None, feeds)
    with pytest.raises(Exception, match=r"(?i)ind(ex|ices)|bound|start|broadcast|empty"):
        open_reference(model).run(None, feeds)


@pytest.mark.parametrize("method", TABLES)
@settings(max_examples=20)
@given(st.data())
def test_logits_are_those_of_the_packed_form(method, data):
    packed = TABLES[method](
        dtype=data.draw(types_of(method), "type"), padding_idx=data.draw(st.sampled_from([None, 3]))
    )
    shape = (*data.draw(st.sampled_from([(), (1,), (5,), (0,), (2, 3), (2, 0)]), "shape"), packed.embedding_dim)
    hidden = np.random.default_rng(0).standard_normal(shape).astype(data.draw(value_types, "hidden"))
    expected, magnitude = logits(packed, hidden)
    for way, got in results(logits_model(packed, hidden), {"hidden": hidden}).items():
        assert got.dtype == hidden.dtype
        assert_close(got, expected, magnitude, way, min(hidden.dtype, np.dtype(packed.row_type)))


@pytest.mark.parametrize("n", [1, 1023, 1024, 1025, 3000])
def test_logits_over_several_blocks(n):
    """524,288 numbers a block: of 1,024 rows here, and the last one is rarely full."""
    packed = dpq(n, codes=16, groups=4, width=128, padding_idx=n - 1)
    hidden = np.random.default_rng(0).standard_normal((2, 512)).astype(np.float32)
    expected = logits(packed, hidden)
    for way, got in results(logits_model(packed, hidden), {"hidden": hidden}).items():
        assert_close(got, *expected, way)


# ---------------------------------------------------------------------------------------------------------------------
# Bad input.


@pytest.mark.parametrize("use", ["rows", "bag"])
@pytest.mark.parametrize("method", TABLES)
@pytest.mark.parametrize("count", [4, 600])
def test_ids_out_of_range_are_errors(method, use, count):
    """From 20 to 23 too, for which there are tensor-train slices."""
    packed = TABLES[method](n=20)
    ids = np.full(count, 3)
    feeds = {"ids": ids} if use == "rows" else bag_feeds(packed, ids, [0, 2, count])
    model = rows_model(packed, ids) if use == "rows" else bag_model(packed, feeds, "sum")
    for runner in (session(model), session(model, "DISABLE_ALL"), open_reference(model)):
        for bad in (-1, 20, 23, 24, 25, -20, -(2**63), 2**63 - 1):
            ids[2] = bad
            with pytest.raises(Exception, match=r"(?i)ind(ex|ices).*bound"):
                runner.run(None, feeds)


@pytest.mark.parametrize("bad", [-1, 20, -(2**31), 2**31 - 1])
@pytest.mark.parametrize("method", TABLES)
def test_narrow_ids_out_of_range_are_errors(method, bad):
    packed = TABLES[method](n=20)
    ids = np.array([3, bad, 4], np.int32)
    with pytest.raises(Exception, match=r"(?i)ind(ex|ices).*bound"):
        session(rows_model(packed, ids)).run(None, {"ids": ids})


def damaged(packed: Any, ids: Any, **arrays: Any) -> onnx.ModelProto:
    model = rows_model(packed, ids)
    for tensor in model.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))
    return model


@pytest.mark.parametrize("count", [20, 600])
@pytest.mark.parametrize("codes", [3, 5, 11, 200, 300])
def test_hostile_codes_read_the_last_code_of_their_group(codes, count):
    packed = dpq(codes=codes, groups=8)
    ids = ids_of(packed, (count,))
    model = damaged(packed, ids, codes=np.full_like(packed.codes, 255))
    expected = np.tile(packed.values[:, -1].reshape(-1), (count, 1))
    for way, got in results(model, {"ids": ids}).items():
        assert got.tobytes() == expected.tobytes(), way


def test_hostile_anchor_ids_read_the_last_anchor():
    packed = ant(padding_idx=0)
    ids = np.arange(20)
    model = damaged(packed, ids, anchor_ids=np.full_like(packed.anchor_ids, 255))
    weights = np.add.reduceat(np.append(packed.weights.astype(np.float64), 0), packed.row_offsets[:-1])
    weights[np.diff(packed.row_offsets) == 0] = 0
    for way, got in results(model, {"ids": ids}).items():  # float32 sums of a few weights of one sign
        np.testing.assert_allclose(got, weights[:, None] * packed.anchors[-1], rtol=1e-5, err_msg=way)


@pytest.mark.parametrize("value", [-1, -(2**31), 10_000, 2**31 - 1])
@pytest.mark.parametrize("at", [0, 5, 20])
def test_hostile_row_offsets_are_refused_or_bounded(value, at):
    """No read outside and no huge allocation: an error, or some finite rows."""
    packed = ant()
    offsets = packed.row_offsets.copy()
    offsets[at] = value
    ids = np.arange(20)
    try:
        rows = session(damaged(packed, ids, row_offsets=offsets)).run(None, {"ids": ids})[0]
    except Exception as error:
        assert "bounds" in str(error)  # noqa: PT017
    else:
        assert np.isfinite(rows).all()


def test_padding_wins_over_damaged_entries():
    """The padding row of ANT is empty; where a file says otherwise, it is zero all the same."""
    packed = ant(padding_idx=None, density=1.0)
    node, stored, uses = node_of(packed, "rows", ["ids"], "rows")
    (attribute,) = [item for item in node.attribute if item.name == "padding_idx"]
    attribute.i = 4
    ids = np.array([4, 5])
    model = model_of([(node, stored, uses)], {"ids": ids}, {"rows": (np.float32, 2)})
    for way, got in results(model, {"ids": ids}).items():
        assert not got[0].any(), way
        assert got[1].any(), way


# ---------------------------------------------------------------------------------------------------------------------
# Size and memory of an open session.


def constants(graph: onnx.GraphProto) -> int:
    """Bytes of all initializers and constants, those of inner graphs too."""
    total = sum(numpy_helper.to_array(tensor).nbytes for tensor in graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            total += numpy_helper.to_array(attribute.t).nbytes if attribute.HasField("t") else 0
            total += constants(attribute.g) if attribute.HasField("g") else 0
    return total


LARGE = {
    "dpq, 4 bits": lambda: dpq(1_000, 16, 64, 1),
    "dpq, 6 bits": lambda: dpq(20_000, 64, 15, 4),
    "dpq, 8 bits": lambda: dpq(20_000, 256, 16, 4),
    "dpq, 8 bits, float16": lambda: dpq(20_000, 256, 16, 4, dtype="float16"),
    "dpq, 4 bits, int8": lambda: dpq(1_000, 16, 64, 16, dtype="int8"),
    "dpq, 12 bits, int8": lambda: dpq(20_000, 4096, 16, 8, dtype="int8"),
    "ant": lambda: ant(10_000, 100, 64, density=0.04),
    "ant, float16": lambda: ant(10_000, 100, 64, "float16", "int8", density=0.04),
    "tt": lambda: tt(3_000, (20, 15, 10), (4, 4, 4), 16),
    "tt, float16": lambda: tt(3_000, (20, 15, 10), (4, 4, 4), 16, dtype="float16"),
}


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("name", LARGE)
def test_an_open_session_holds_a_table_of_all_uses_once(name, static, tmp_path):
    """A table that is embedding, bag and both heads of a model, at every level: nothing is unfolded or kept twice.

    With inputs of static shapes too, of which a session knows more.
    """
    packed = LARGE[name]()
    kind = packed.rows(np.zeros(1, np.int64)).dtype
    ids, offsets = ids_of(packed, (600,)), np.array([0, 600])
    hidden = np.zeros((2, packed.embedding_dim), kind)
    feeds = {"ids": ids, "offsets": offsets, "sample_weights": np.zeros(0, kind), "hidden": hidden}
    feeds["bias"] = np.zeros(packed.num_embeddings, kind)
    nodes = [
        node_of(packed, "rows", ["ids"], "rows"),
        node_of(packed, "bag", ["ids", "offsets", "sample_weights"], "bags", mode="mean"),
        node_of(packed, "logits", ["hidden"], "logits"),
        node_of(packed, "topk", ["hidden", "bias"], "best", "best_ids", bias="bias", k=5),
    ]
    outputs = {"rows": (kind, 2), "bags": (kind, 2), "logits": (kind, 2), "best": (kind, 2), "best_ids": (np.int64, 2)}
    model = model_of(nodes, feeds, outputs)
    if static:
        for value in model.graph.input:
            for size, dim in zip(feeds[value.name].shape, value.type.tensor_type.shape.dim, strict=True):
                dim.dim_value = size
    stored = sum(array.nbytes for array in packed.tensors().values())
    for level in ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_ALL"):
        path = tmp_path / f"{level}.onnx"
        session(model, level, str(path)).run(None, feeds)
        assert constants(onnx.load(path).graph) <= 1.05 * stored + 4096, level


_HEAVY = """
import sys, numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = 1
session = ort.InferenceSession(sys.argv[1], options, ["CPUExecutionProvider"])
ids = np.arange(4096) if sys.argv[2] == "all" else np.zeros(0, np.int64)
session.run(None, {"ids": ids})
import resource
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_one_row_of_all_anchors_costs_no_memory(tmp_path):
    """4,096 ids, one of them with 2,000 entries: 32 MB of transform, not 2 GB of gathered anchors."""
    random = np.random.default_rng(0)
    transform = np.zeros((4096, 2000), np.float32)
    transform[np.arange(4096), random.integers(0, 2000, 4096)] = 1
    transform[77] = 1
    packed = PackedANT.from_dense(transform, random.standard_normal((2000, 64)).astype(np.float32))
    path = tmp_path / "heavy.onnx"
    path.write_bytes(rows_model(packed, np.arange(4096)).SerializeToString())
    peaks = [
        int(subprocess.run([sys.executable, "-c", _HEAVY, str(path), which], capture_output=True, check=True).stdout)
        for which in ("none", "all")
    ]
    assert peaks[1] - peaks[0] < 120 << 10  # KiB
    check_rows(packed, np.arange(60, 80))


# ---------------------------------------------------------------------------------------------------------------------
# What an export makes of it.


class Head(nn.Module):
    """Reads words and scores all of them, by one table."""

    def __init__(self, embedding: nn.Module, bias: bool = False) -> None:
        super().__init__()
        self.embedding, self.output = embedding, TiedOutput(embedding, bias)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.output(torch.tanh(self.embedding(ids)))


class Best(Head):
    """Reads words and names the likeliest ones."""

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.output.topk(torch.tanh(self.embedding(ids)), 4)


OFFSETS = torch.tensor([0, 2, 4])
FACTORS = torch.tensor([0.5, -1.0, 2.0, 1.0, 3.0])
EXPORTS = {
    "ANTEmbedding": (lambda: ANTEmbedding(20, 12, 6), ()),
    "ANTEmbeddingBag": (lambda: ANTEmbeddingBag(20, 12, 6, mode="max", padding_idx=0), (OFFSETS,)),
    "ANTLogits": (lambda: Head(ANTEmbedding(20, 12, 6, padding_idx=0)), ()),
    "ANTTopK": (lambda: Best(ANTEmbedding(20, 12, 6, padding_idx=0)), ()),
    "DPQEmbeddingBag": (lambda: DPQEmbeddingBag(20, 12, 16, 3, mode="sum"), (OFFSETS, FACTORS)),
    "DPQLogits": (lambda: Head(DPQEmbedding(20, 12, 5, 3)), ()),
    "DPQEmbedding": (lambda: DPQEmbedding(20, 12, 5, 3, padding_idx=0).freeze("int8"), ()),
    "DPQTopK": (lambda: Best(DPQEmbedding(20, 12, 5, 3), bias=True), ()),
    "TTEmbedding": (lambda: TTEmbedding(20, 12, 3, padding_idx=0), ()),
    "TTEmbeddingBag": (lambda: TTEmbeddingBag(20, 12, 3, mode="mean"), (OFFSETS,)),
    "TTLogits": (lambda: Head(TTEmbedding(20, 12, 3)), ()),
    "TTTopK": (lambda: Best(TTEmbedding(20, 12, 3)), ()),
}


@pytest.mark.parametrize("op_type", EXPORTS)
def test_an_exported_use_is_one_node_with_all_bodies_it_needs(export, op_type):
    make, others = EXPORTS[op_type]
    inputs = (torch.tensor([1, 2, 0, 19, 5]), *others)
    exported = export(make(), inputs if others else inputs[0])
    model = onnx.load(exported.path)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node].count(op_type) == 1
    rows = op_type.removesuffix("Bag").replace("Logits", "Embedding").replace("TopK", "Embedding")
    assert [function.name for function in model.functions] == list(dict.fromkeys([rows, op_type]))
    for way in ("portable", "reference"):  # float32 on both sides; a wrong row or term is off by 1e-2 and more
        for got, expected in zip(exported.run(way, *inputs), exported.trained(*inputs), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6, err_msg=way)


def test_int8_values_in_some_tables_alone_are_refused(export, add_up):
    layers = [DPQEmbedding(20, 12, 16, 3).freeze(value_type) for value_type in ("int8", "float32")]
    with pytest.raises(
        BadInputError, match=r"some of 2 and some of 3 tensors, .*: freeze all tables with value_type i"
    ):
        export(add_up(*layers))


def test_tables_of_different_numbers_of_cores_are_refused(export, add_up):
    layers = [TTEmbedding(20, 12, 3, num_cores=cores) for cores in (2, 3, 2)]
    with pytest.raises(BadInputError, match="some of 2 and some of 3 cores, expected one number of cores"):
        export(add_up(*layers))
