"""Tables as other tools write them, with rows that two bits represent exactly: compressed files give equal results."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.helper import make_node, make_tensor_value_info

import edge_embed
from edge_embed.errors import BadInputError

from .foreign_models import model, run

ROWS, COLUMNS = 300, 16
IDS = np.array([3, 0, ROWS - 1])
Tensors = dict[str, Any]


def exact(seed: int = 0, scale: float = 1.5, dtype: Any = np.float32) -> np.ndarray:
    """Return a table of three numbers."""
    random = np.random.default_rng(seed)
    numbers = random.integers(-1, 2, (ROWS, COLUMNS))
    numbers[:, 0] = 1
    return (numbers * scale).astype(dtype)


W, V = exact(), exact(1)


def compress(made: onnx.ModelProto, folder: Path, **wanted: Any) -> Any:
    source = folder / "model.onnx"
    source.write_bytes(made.SerializeToString())
    return edge_embed.compress(source, "rows", bits=2, output=folder / "small.onnx", **wanted).report


def same(made: onnx.ModelProto, folder: Path, feeds: dict[str, Any] | None = None, **wanted: Any) -> Any:
    """Compress the model, assert that both speeds give the file's results, and return the packed tables."""
    report = compress(made, folder, **wanted)
    feeds = {"ids": IDS} if feeds is None else feeds
    for portable in (True, False):
        expected = ort.InferenceSession(folder / "model.onnx").run(None, feeds)
        for got, right in zip(run(folder / "small.onnx", feeds, portable=portable), expected, strict=True):
            assert (got.dtype, got.shape) == (right.dtype, right.shape)
            np.testing.assert_allclose(got, right, rtol=1e-6, atol=1e-7)
    return [table.name for table in report.tables if not table.reason]


def written(nodes: list[NodeProto], tensors: Tensors, opset: int = 18, **more: Any) -> onnx.ModelProto:
    dense = {name: array for name, array in tensors.items() if isinstance(array, np.ndarray | np.generic)}
    inputs = more.pop("inputs", {"ids": ["n"]})
    made = model(nodes, dense, {"y": None}, inputs=inputs, opset=opset, **more)
    made.graph.sparse_initializer.extend(array for name, array in tensors.items() if name not in dense)
    made.opset_import.extend([helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("own", 1)])
    return made


def gather(table: str = "w", y: str = "y", ids: str = "ids", **attributes: int) -> NodeProto:
    return make_node("Gather", [table, ids], [y], f"look_up_{y}", **attributes)


def _hot() -> list[NodeProto]:
    return [
        make_node("Constant", [], ["depth"], value_int=ROWS),
        make_node("Constant", [], ["off_on"], value_floats=[0.0, 1.0]),
        make_node("OneHot", ["ids", "depth", "off_on"], ["hot"]),
    ]


BIAS = np.arange(COLUMNS, dtype=np.float32)
SCALED = {"alpha": 0.5, "beta": 2.0}


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("given", [{}, SCALED])
def test_gemm_of_one_hot_rows_with_bias_gives_same_rows(turned: int, given: dict[str, float], tmp_path: Path) -> None:
    node = make_node("Gemm", ["hot", "w", "bias"], ["y"], transB=turned, **given)
    tensors = {"w": np.ascontiguousarray(W.T) if turned else W, "bias": BIAS}
    assert same(written([*_hot(), node], tensors), tmp_path) == ["w"]


def test_gemm_of_one_hot_rows_with_transposed_table_gives_same_rows(tmp_path: Path) -> None:
    node = make_node("Gemm", ["hot", "w"], ["y"], transB=1)
    assert same(written([*_hot(), node], {"w": np.ascontiguousarray(W.T)}), tmp_path) == ["w"]


OUTPUT_LAYERS = {
    "Gemm": make_node("Gemm", ["h", "w", "bias"], ["y"], transB=1, **SCALED),
    "FusedMatMul": make_node("FusedMatMul", ["h", "w"], ["y"], transB=1, alpha=0.5, domain="com.microsoft"),
}


@pytest.mark.parametrize("case", OUTPUT_LAYERS)
def test_output_layer_scaled_follows_its_table(case: str, tmp_path: Path) -> None:
    nodes = [gather(y="h"), OUTPUT_LAYERS[case]]
    assert same(written(nodes, {"w": W, "bias": np.arange(ROWS, dtype=np.float32)}), tmp_path) == ["w"]


@pytest.mark.parametrize("narrow", [True, False])
def test_output_layer_in_another_type_follows_its_table(narrow: bool, tmp_path: Path) -> None:
    to = TensorProto.FLOAT16 if narrow else TensorProto.FLOAT
    nodes = [
        gather(y="rows"),
        make_node("Cast", ["rows"], ["h"], to=to),
        make_node("Cast", ["w"], ["other"], to=to),
        make_node("Transpose", ["other"], ["t"], perm=[1, 0]),
        make_node("MatMul", ["h", "t"], ["logits"]),
        make_node("Cast", ["logits"], ["y"], to=1),
    ]
    table = W if narrow else W.astype(np.float16)
    assert same(written(nodes, {"w": table}), tmp_path) == ["w"]


def _call(**attributes: Any) -> NodeProto:
    return make_node("Find", ["ids", "w"], ["y"], domain="own", **attributes)


def _find(opset: int) -> onnx.FunctionProto:
    """Return a function with a Gather axis and a LeakyRelu slope; their defaults differ from the operators'."""
    nodes = [make_node("Gather", ["t", "i"], ["g"]), make_node("LeakyRelu", ["g"], ["r"])]
    nodes[0].attribute.add(name="axis", ref_attr_name="along", type=AttributeProto.INT)
    nodes[1].attribute.add(name="alpha", ref_attr_name="slope", type=AttributeProto.FLOAT)
    defaults = [helper.make_attribute("along", 1), helper.make_attribute("slope", 0.5)]
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_function("own", "Find", ["i", "t"], ["r"], nodes, opsets, attribute_protos=defaults)


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("given", [{}, {"along": 1}, {"slope": 0.25}])
def test_function_attribute_defaults_stay(given: dict[str, Any], opset: int, tmp_path: Path) -> None:
    made = written([_call(**given)], {"w": np.ascontiguousarray(W.T)}, opset, functions=[_find(opset)])
    assert same(made, tmp_path) == ["w"]


def test_function_default_omitted_by_outer_function_stays(tmp_path: Path) -> None:
    call = make_node("Find", ["i", "t"], ["r"], domain="own")
    call.attribute.add(name="slope", ref_attr_name="given", type=AttributeProto.FLOAT)
    outer = helper.make_function("own", "Outer", ["i", "t"], ["r"], [call], [helper.make_opsetid("own", 1)], ["given"])
    node = make_node("Outer", ["ids", "w"], ["y"], domain="own", given=0.25)
    made = written([node], {"w": np.ascontiguousarray(W.T)}, functions=[outer, _find(18)])
    assert same(made, tmp_path) == ["w"]


def test_function_defined_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"functions Find: cannot be inlined: .*multiple"):
        compress(written([_call()], {"w": W}, functions=[_find(18), _find(18)]), tmp_path)


def test_gather_without_ids_is_no_lookup(tmp_path: Path) -> None:
    made = written([make_node("Find", ["", "w"], ["y"], domain="own")], {"w": W}, functions=[_find(18)])
    with pytest.raises(BadInputError, match="no table to compress: no constant is looked up by"):
        compress(made, tmp_path)


def test_table_of_scan_is_packed(tmp_path: Path) -> None:
    body = helper.make_graph(
        [gather(ids="some", y="rows")], "body", [make_tensor_value_info("some", TensorProto.INT64, ["s"])],
        [make_tensor_value_info("rows", 1, None)], [numpy_helper.from_array(W, "w")],
    )  # fmt: skip
    made = written([make_node("Scan", ["ids"], ["y"], num_scan_inputs=1, body=body)], {}, inputs={"ids": ["b", "s"]})
    assert same(made, tmp_path, {"ids": np.array([[3, -1], [0, 7]])}) == ["w"]


CODES, SCALE, ZERO = exact(scale=100, dtype=np.int8), np.float32(0.25), np.int8(0)
DEQUANTISE = ("DequantizeLinear", ["q", "s", "z"])


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.parametrize("before", [True, False])
def test_dequantised_tables_of_older_opsets_are_read(domain: str, opset: int, before: bool, tmp_path: Path) -> None:
    nodes = [make_node(*DEQUANTISE, ["t"], domain=domain), gather("t")]
    if not before:
        nodes = [gather("q", y="t"), make_node("DequantizeLinear", ["t", "s", "z"], ["y"], domain=domain)]
    assert same(written(nodes, {"q": CODES, "s": SCALE, "z": ZERO}, opset), tmp_path) == ["q"]


@pytest.mark.parametrize("takers", [1, 2])
def test_bfloat16_tables_are_read(takers: int, tmp_path: Path) -> None:
    casts = [make_node("Cast", ["rows"], [f"wide_{at}"], to=1) for at in range(takers)]
    made = written([gather(y="rows"), *casts, make_node("Sum", [node.output[0] for node in casts], ["y"])], {})
    made.graph.initializer.append(helper.make_tensor("w", TensorProto.BFLOAT16, W.shape, W.flatten().tolist()))
    assert same(made, tmp_path) == ["w"]


def sparse(array: np.ndarray, flat: bool = True) -> onnx.SparseTensorProto:
    places = np.flatnonzero(array) if flat else np.argwhere(array)
    values = numpy_helper.from_array(array[array != 0], "w")
    return helper.make_sparse_tensor(values, numpy_helper.from_array(places, "w.places"), array.shape)


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("inside", [True, False])
def test_sparse_tables_are_read(inside: bool, opset: int, tmp_path: Path) -> None:
    constant = make_node("Constant", [], ["w"], sparse_value=sparse(W))
    nodes = [*([constant] if inside else []), gather()]
    assert same(written(nodes, {} if inside else {"w": sparse(W)}, opset), tmp_path) == ["w"]


def test_sparse_table_with_index_outside_shape_is_refused(tmp_path: Path) -> None:
    made = written([gather()], {"w": sparse(W, flat=False)})
    made.graph.sparse_initializer[0].dims[0] = ROWS // 2
    with pytest.raises(BadInputError, match="sparse tensor 'w': has indices outside its shape"):
        compress(made, tmp_path)


def test_constant_value_floats_are_read_as_table(tmp_path: Path) -> None:
    nodes = [
        make_node("Constant", [], ["flat"], value_floats=W.flatten().tolist()),
        make_node("Constant", [], ["sizes"], value_ints=[ROWS, COLUMNS]),
        make_node("Reshape", ["flat", "sizes"], ["w"]),
        gather(),
    ]
    assert same(written(nodes, {}), tmp_path) == ["flat"]


def test_table_computed_by_formula_leaves_others_compressible(tmp_path: Path) -> None:
    nodes = [
        make_node("Constant", [], ["sizes"], value_ints=[ROWS, COLUMNS]),
        make_node("ConstantOfShape", ["sizes"], ["ones"], value=helper.make_tensor("v", 1, [1], [1.0])),
        make_node("Mul", ["ones", "column"], ["made"]),
        gather("made", "a"), gather("w", "b"), make_node("Add", ["a", "b"], ["y"]),
    ]  # fmt: skip
    report = compress(written(nodes, {"w": W, "column": W[:, :1].copy()}), tmp_path)
    assert [(table.name, table.reason[:17]) for table in report.tables] == [("column", "operators compute"), ("w", "")]


def _cut(*, by: str) -> list[NodeProto]:
    ends = [("Split", ["w", "counts"], ["one", "two"])]
    if by == "Slice":
        ends = [("Slice", ["w", "zero", "half"], ["one"]), ("Slice", ["w", "half", "end"], ["two"])]
    nodes = [make_node(op_type, given, made) for op_type, given, made in ends]
    return [*nodes, gather("one", "a"), gather("two", "b"), make_node("Sub", ["a", "b"], ["y"])]


PLACES = {"zero": np.array([0]), "half": np.array([ROWS]), "end": np.array([2 * ROWS]), "counts": np.array([ROWS] * 2)}


@pytest.mark.parametrize("by", ["Split", "Slice"])
def test_tables_cut_from_one_constant_are_compressed_together(by: str, tmp_path: Path) -> None:
    made = written(_cut(by=by), {"w": np.concatenate([W, V]), **PLACES})
    assert same(made, tmp_path) == ["w", "w_1"]
    assert not any(tensor.name == "w" for tensor in onnx.load(tmp_path / "small.onnx").graph.initializer)
    with pytest.raises(BadInputError, match="w: shares the constant 'w' with w_1: name all of them"):
        compress(made, tmp_path, modules=["w"], force=True)


OTHERS = {
    "dead": [gather(), make_node("Neg", ["w"], ["dead"]), make_node("Relu", ["dead"], ["deader"])],
    "sizes": [
        gather(y="rows"), make_node("Shape", ["w"], ["sizes"], start=1), make_node("Cast", ["sizes"], ["f"], to=1),
        make_node("Mul", ["rows", "f"], ["y"]),
    ],
    "a part that nobody takes": [make_node("Split", ["w", "counts"], ["one", "two"]), gather("one")],
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS)
def test_shape_nodes_do_not_keep_a_dense_table(case: str, tmp_path: Path) -> None:
    made = written(OTHERS[case], {"w": W, "counts": np.array([ROWS - 10, 10])})
    assert same(made, tmp_path, {"ids": np.array([3, 0, 7])}) == ["w"]
    assert not any(tensor.name == "w" for tensor in onnx.load(tmp_path / "small.onnx").graph.initializer)


def test_table_that_stays_is_described_with_remedy(tmp_path: Path) -> None:
    made = written([gather(), make_node("Neg", ["w"], ["z"], "negate")], {"w": W})
    made.graph.output.append(make_tensor_value_info("z", 1, None))
    message = (
        r"w: it is an output of the model, through Neg 'negate': remove that output "
        r"\(float32 \[300, 16\] of 19,200 bytes"
    )
    with pytest.raises(BadInputError, match=rf"{message}, used by Gather 'look_up_y'\)"):
        compress(made, tmp_path)


def test_file_of_other_operators_only_is_read(tmp_path: Path) -> None:
    codes = np.full((ROWS, COLUMNS // 2), 0x99, np.uint8)
    node = make_node("GatherBlockQuantized", ["w", "ids", "s"], ["y"], domain="com.microsoft", block_size=16, bits=4,
                     quantize_axis=1)  # fmt: skip
    made = written([node], {"w": codes, "s": np.full((ROWS, 1), 0.5, np.float32)})
    del made.opset_import[0]
    assert same(made, tmp_path) == ["w"]


@pytest.mark.parametrize("version", [0, 2])
def test_opset_import_of_edge_embed_without_nodes_is_accepted(version: int, tmp_path: Path) -> None:
    made = written([gather()], {"w": W})
    made.opset_import.append(helper.make_opsetid("edge_embed", version))
    assert same(made, tmp_path) == ["w"]


@pytest.mark.parametrize("opset", [13, 16])
def test_opset_before_18_optimised_by_onnx_runtime_is_raised(opset: int, tmp_path: Path) -> None:
    nodes = [
        gather(y="rows"),
        make_node("LayerNormalization", ["rows", "bias", "bias"], ["normed"], axis=-1),  # 17 in onnx, 1 there
        make_node("FastGelu", ["normed"], ["y"], domain="com.microsoft"),
    ]
    assert same(written(nodes, {"w": W, "bias": BIAS}, opset), tmp_path) == ["w"]


@pytest.mark.parametrize("name", ["a/b.c weight:0", "表.weight", "..", "   "])
def test_constants_may_have_any_name(name: str, tmp_path: Path) -> None:
    assert len(same(written([make_node("Gather", [name, "ids"], ["y"], "")], {name: W}), tmp_path)) == 1
