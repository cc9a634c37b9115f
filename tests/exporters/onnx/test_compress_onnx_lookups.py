"""Lookups by any operator: a compressed file with exact codes gives the results of the original file."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.helper import make_node, make_tensor_value_info

import edge_embed
from edge_embed.compression.onnx.block_quantized import _dequantised
from edge_embed.exporters.onnx.model_file import tensors_of
from edge_embed.inspection.inspect import inspect_file

from .foreign_models import model, packed_tables, run

ROWS, COLUMNS, CENTRES = 300, 16, 12
DPQ = {"num_codes": 32, "num_groups": 4}
IDS = np.array([[3, 0, 7], [ROWS - 1, 5, 41]])
BOTH_ENDS = np.array([[3, 0, -1], [ROWS - 1, -ROWS, 7]])
OUTSIDE = np.array([[3, ROWS, -1], [-ROWS - 1, 5, 2**40]])
MICROSOFT = [helper.make_opsetid("com.microsoft", 1)]
Tensors = dict[str, np.ndarray]


def few(seed: int = 0, rows: int = ROWS, columns: int = COLUMNS) -> np.ndarray:
    """Return a table of a few different rows."""
    random = np.random.default_rng(seed)
    return random.standard_normal((CENTRES, columns)).astype(np.float32)[random.integers(0, CENTRES, rows)]


def few_codes(dtype: Any, low: int, high: int, seed: int = 0, columns: int = COLUMNS) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.integers(low, high, (CENTRES, columns)).astype(dtype)[_kinds(seed)]


def _kinds(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + 99).integers(0, CENTRES, ROWS)


def of_rows(seed: int = 0) -> np.ndarray:
    """Return one number a row, the same for equal rows of `few_codes`."""
    return np.random.default_rng(seed + 7).uniform(0.01, 0.1, CENTRES).astype(np.float32)[_kinds(seed)]


def look(source: Path, *feeds: Mapping[str, np.ndarray], refused: np.ndarray | None = None, **wanted: Any) -> Any:
    """Compress a file, assert that its results stay with and without the library, and return the report."""
    small = source.with_name("small.onnx")
    _, report = edge_embed.compress(source, "dpq", output=small, force=True, **{**DPQ, **wanted})
    dense = ort.InferenceSession(source)
    for feed in feeds:
        expected = dense.run(None, dict(feed))
        is_correct(small, [array.ndim for array in expected])
        for portable in (True, False):
            for got, right in zip(run(small, feed, portable=portable), expected, strict=True):
                assert (got.dtype, got.shape) == (right.dtype, right.shape)
                np.testing.assert_allclose(got, right, rtol=0, atol=2e-3 if got.dtype == np.float16 else 2e-5)
    if refused is not None:
        with pytest.raises(Exception, match=r"."):
            dense.run(None, {"ids": refused})
        for portable in (True, False):
            with pytest.raises(Exception, match=r"(?i)out of|bounds|range|ids|indices"):
                run(small, {"ids": refused}, portable=portable)
    assert inspect_file(small, verify=True).exit_code == 0
    assert sum(tensor_bytes(small)) < sum(tensor_bytes(source))
    return report


def is_correct(path: Path, ranks: list[int]) -> None:
    """Run the checker of onnx, after each output got the rank that the checker requires."""
    made = onnx.load(path)
    for value, rank in zip(made.graph.output, ranks, strict=True):
        value.CopyFrom(make_tensor_value_info(value.name, value.type.tensor_type.elem_type, [None] * rank))
    onnx.checker.check_model(made, full_check=not any(node.op_type in ("If", "Loop") for node in made.graph.node))


def tensor_bytes(path: Path) -> list[int]:
    return [tensor.ByteSize() for tensor in tensors_of(onnx.load(path))]


def written(nodes: list[NodeProto], tensors: Tensors, folder: Path, opset: int = 21, **more: Any) -> Path:
    """Write a model with one output ``y`` of any shape."""
    made = model(nodes, tensors, {"y": more.pop("kind", None)}, opset=opset, ir_version=10, **more)
    made.opset_import.extend(MICROSOFT)
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    return folder / "model.onnx"


def gather(table: str = "w", ids: str = "ids", y: str = "y", **attributes: int) -> NodeProto:
    return make_node("Gather", [table, ids], [y], f"look_up_{y}", **attributes)


AXES: dict[str, tuple[NodeProto, tuple[int, ...]]] = {
    "columns": (gather(axis=1), (COLUMNS, ROWS)),
    "last axis": (gather(axis=-1), (COLUMNS, ROWS)),
    "one in front": (gather(axis=1), (1, ROWS, COLUMNS)),
    "three axes": (gather(), (ROWS, 4, 4)),
    "in the middle": (gather(axis=-2), (2, ROWS, 8)),
    "behind two": (gather(axis=2), (2, 4, ROWS, 2)),
    "one number a row": (gather(axis=1), (COLUMNS, ROWS, 1)),
}


@pytest.mark.parametrize("case", AXES)
def test_gather_along_any_axis_of_any_rank_gives_same_rows(case: str, tmp_path: Path) -> None:
    node, shape = AXES[case]
    axis = next(iter(item.i for item in node.attribute), 0) % len(shape)
    rest = [size for at, size in enumerate(shape) if at != axis]
    table = np.moveaxis(few().reshape(ROWS, *rest), 0, axis)
    source = written([node], {"w": np.ascontiguousarray(table)}, tmp_path)
    empty = np.zeros((0, 3), np.int64)
    report = look(source, {"ids": BOTH_ENDS}, {"ids": empty}, refused=np.array([[ROWS]]))
    assert [(one.name, one.num_embeddings, one.embedding_dim) for one in report.tables] == [("w", ROWS, COLUMNS)]


def _column(ids: str = "ids") -> list[NodeProto]:
    return [make_node("Constant", [], ["last"], value_ints=[-1]), make_node("Unsqueeze", [ids, "last"], ["column"])]


def _one_hot(off: float = 0, on: float = 1, **attributes: int) -> list[NodeProto]:
    values = numpy_helper.from_array(np.array([off, on], np.float32))
    return [
        make_node("Constant", [], ["depth"], value_int=ROWS),
        make_node("Constant", [], ["values"], value=values),
        make_node("OneHot", ["ids", "depth", "values"], ["hot"], "hot", **attributes),
    ]


def _equal() -> list[NodeProto]:
    return [*_column(), make_node("Equal", ["column", "classes"], ["is"]), make_node("Cast", ["is"], ["hot"], to=1)]


def _scatter() -> list[NodeProto]:
    return [
        *_column(),
        make_node("Constant", [], ["classes_count"], value_ints=[ROWS]),
        make_node("Shape", ["ids"], ["size"]),
        make_node("Concat", ["size", "classes_count"], ["sizes"], axis=0),
        make_node("ConstantOfShape", ["sizes"], ["zeros"]),
        make_node("Shape", ["column"], ["ones_size"]),
        make_node("ConstantOfShape", ["ones_size"], ["ones"], value=helper.make_tensor("v", 1, [1], [1.0])),
        make_node("ScatterElements", ["zeros", "column", "ones"], ["hot"], axis=-1),
    ]


CLASSES = {"classes": np.arange(ROWS)}
PRODUCTS: dict[str, tuple[list[NodeProto], Tensors, np.ndarray]] = {
    "OneHot": ([*_one_hot(), make_node("MatMul", ["hot", "w"], ["y"])], {}, OUTSIDE),
    "OneHot along the last axis": ([*_one_hot(axis=2), make_node("MatMul", ["hot", "w"], ["y"])], {}, OUTSIDE),
    "OneHot turned": (
        [*_one_hot(), make_node("Transpose", ["w"], ["t"]), make_node("Transpose", ["t"], ["u"]),
         make_node("MatMul", ["hot", "u"], ["y"])], {}, OUTSIDE),
    "Equal": ([*_equal(), make_node("MatMul", ["hot", "w"], ["y"])], CLASSES, OUTSIDE),
    "ScatterElements": ([*_scatter(), make_node("MatMul", ["hot", "w"], ["y"])], {}, BOTH_ENDS),
}  # fmt: skip


@pytest.mark.parametrize("case", PRODUCTS)
def test_matmul_of_one_hot_rows_gives_same_rows(case: str, tmp_path: Path) -> None:
    nodes, tensors, ids = PRODUCTS[case]
    source = written(nodes, {"w": few(), **tensors}, tmp_path)
    look(source, {"ids": IDS}, {"ids": ids}, {"ids": np.zeros((2, 0), np.int64)})
    assert {"MatMul", "OneHot", "Equal", "ScatterElements"}.isdisjoint(
        node.op_type for node in onnx.load(tmp_path / "small.onnx").graph.node
    )


def test_product_with_one_hot_of_other_values_is_refused(tmp_path: Path) -> None:
    source = written([*_one_hot(on=2), make_node("MatMul", ["hot", "w"], ["y"])], {"w": few()}, tmp_path)
    message = r"OneHot and MatMul.*the largest of its .* are 'w' float32 \[300, 16\] of 19,200 bytes, used by MatMul"
    with pytest.raises(edge_embed.errors.BadInputError, match=message):
        look(source)


GATHERS: dict[str, list[NodeProto]] = {
    "GatherND": [*_column(), make_node("GatherND", ["w", "column"], ["y"])],
    "GatherElements": [
        make_node("Constant", [], ["one_column"], value_ints=[-1, 1]),
        make_node("Reshape", ["ids", "one_column"], ["column"]),
        make_node("Constant", [], ["wide"], value_ints=[1, COLUMNS]),
        make_node("Expand", ["column", "wide"], ["places"]),
        make_node("GatherElements", ["w", "places"], ["y"], axis=0),
    ],
}


@pytest.mark.parametrize("case", GATHERS)
def test_gather_variants_give_same_rows(case: str, tmp_path: Path) -> None:
    look(written(GATHERS[case], {"w": few()}, tmp_path), {"ids": BOTH_ENDS}, refused=np.array([[ROWS]]))


def test_gather_nd_with_unit_axis_and_three_table_axes_gives_same_rows(tmp_path: Path) -> None:
    node = make_node("GatherND", ["w", "ids"], ["y"])
    source = written([node], {"w": few().reshape(ROWS, 2, 8)}, tmp_path, inputs={"ids": ["b", "s", 1]})
    look(source, {"ids": BOTH_ENDS[..., None]})


def _dequantise(x: str, scale: str, zero: str = "", y: str = "dense", **attributes: int) -> NodeProto:
    return make_node("DequantizeLinear", [x, scale, *([zero] if zero else [])], [y], f"dequantise_{y}", **attributes)


def _int4(array: np.ndarray, kind: int) -> onnx.TensorProto:
    return helper.make_tensor("q", kind, array.shape, array.flatten().tolist())


BLOCKS = np.repeat(of_rows()[:, None], 2, 1) * np.array([1, 2], np.float32)
DEQUANTISED: dict[str, tuple[Any, Tensors, dict[str, int]]] = {
    "int8 one scale": (np.int8, {"s": np.float32(0.02), "z": np.int8(3)}, {}),
    "uint8 of rows": (np.uint8, {"s": of_rows(), "z": np.full(ROWS, 128, np.uint8)}, {"axis": 0}),
    "int8 of columns": (np.int8, {"s": of_rows()[:COLUMNS]}, {"axis": 1}),
    "int8 of columns from the end": (np.int8, {"s": of_rows()[:COLUMNS]}, {"axis": -1}),
    "uint8 of blocks": (np.uint8, {"s": BLOCKS, "z": np.full((ROWS, 2), 7, np.uint8)}, {"axis": 1, "block_size": 8}),
    "int8 to float16": (np.int8, {"s": np.float16(0.02)}, {}),
    "int4 one scale": (TensorProto.INT4, {"s": np.float32(0.2)}, {}),
    "uint4 of blocks": (TensorProto.UINT4, {"s": BLOCKS}, {"axis": 1, "block_size": 8}),
    "float8": (TensorProto.FLOAT8E4M3FN, {"s": np.float32(0.02)}, {}),
}


BEFORE = [(case, True) for case in DEQUANTISED]
AFTER = [(case, False) for case in DEQUANTISED if not case.startswith(("int4", "uint4", "float8", "uint8 of rows"))]


@pytest.mark.parametrize(("case", "before"), BEFORE + AFTER)
def test_quantised_tables_match_dequantised_rows_of_file(case: str, before: bool, tmp_path: Path) -> None:
    kind, tensors, attributes = DEQUANTISED[case]
    out = TensorProto.FLOAT16 if "float16" in case else TensorProto.FLOAT
    signed = kind in (np.int8, TensorProto.INT4)
    small = kind in (TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT8E4M3FN)
    codes = few_codes(
        np.int32, *((-8, 8) if small and signed else (0, 15) if small else (-90, 90) if signed else (0, 255))
    )
    if before:
        nodes = [_dequantise("q", "s", "z" if "z" in tensors else "", **attributes), gather("dense")]
    else:
        blocks = [
            gather(name, y=f"{name}_rows") for name in ("s", "z") if "block_size" in attributes and name in tensors
        ]
        names = [name + "_rows" if "block_size" in attributes else name for name in tensors]
        axis = {} if "axis" not in attributes else {"axis": -1}
        nodes = [gather("q", y="codes"), *blocks, _dequantise("codes", *names, y="y", **{**attributes, **axis})]
    source = written(nodes, tensors, tmp_path, kind=(out, None))
    made = onnx.load(source)
    made.graph.initializer.append(_int4(codes, kind) if isinstance(kind, int) else
                                  numpy_helper.from_array(codes.astype(kind), "q"))  # fmt: skip
    onnx.save(made, source)
    report = look(source, {"ids": BOTH_ENDS}, num_codes=16, num_groups=2)
    (found,) = report.tables
    held = codes.size // (2 if "int4" in case else 1) + sum(np.asarray(array).nbytes for array in tensors.values())
    assert (found.name, found.reason, found.fidelity.dense_bytes) == ("q", "", held)


def test_row_scales_may_be_looked_up_beside_rows(tmp_path: Path) -> None:
    codes, scales = few_codes(np.int8, -90, 90), of_rows()[:, None]
    nodes = [
        gather("q", y="codes"),
        gather("s", y="scales"),
        make_node("Cast", ["codes"], ["wide"], to=TensorProto.FLOAT),
        make_node("Mul", ["wide", "scales"], ["y"], "scale"),
    ]
    look(written(nodes, {"q": codes, "s": scales}, tmp_path), {"ids": BOTH_ENDS})
    flat = [gather("q", y="codes"), gather("s", y="scales"), _dequantise("codes", "scales", y="y", axis=0)]
    source = written(flat, {"q": codes, "s": of_rows()}, tmp_path, inputs={"ids": ["n"]})
    look(source, {"ids": BOTH_ENDS[0]})


def _computed() -> dict[str, tuple[list[NodeProto], Tensors]]:
    parts = few()
    return {
        "Concat": ([make_node("Concat", ["w", "more"], ["t"], axis=0)], {"w": parts[:250], "more": parts[250:]}),
        "Cast": ([make_node("Cast", ["w"], ["t"], to=1)], {"w": parts.astype(np.float16)}),
        "Mul of a norm": ([make_node("Mul", ["w", "g"], ["t"])], {"w": parts, "g": np.float32([[2]])}),
        "Reshape": ([make_node("Reshape", ["w", "n"], ["t"])], {"w": parts.flatten(), "n": np.array([ROWS, -1])}),
        "Slice": ([make_node("Slice", ["w", "a", "b"], ["t"])],
                  {"w": np.concatenate([parts, parts[:9]]), "a": np.array([0]), "b": np.array([ROWS])}),
        "Transpose": ([make_node("Transpose", ["w"], ["t"], perm=[1, 0])], {"w": np.ascontiguousarray(parts.T)}),
        "a chain": ([make_node("Sub", ["w", "g"], ["u"]), make_node("Squeeze", ["u", "n"], ["t"])],
                    {"w": parts[None], "g": np.float32(1), "n": np.array([0])}),
    }  # fmt: skip


@pytest.mark.parametrize("case", _computed())
def test_tables_computed_from_constants_are_compressed(case: str, tmp_path: Path) -> None:
    nodes, tensors = _computed()[case]
    report = look(written([*nodes, gather("t")], tensors, tmp_path), {"ids": BOTH_ENDS})
    assert [one.name for one in report.tables] == ["w"]


def _blocks(bits: int, zeros: bool, columns: int = 32) -> Tensors:
    codes, per_byte = few_codes(np.uint8, 0, 2**bits, columns=columns), 8 // bits
    parts = codes.reshape(ROWS, -1, per_byte) << (np.arange(per_byte, dtype=np.uint8) * np.uint8(bits))
    packed = np.bitwise_or.reduce(parts, axis=2).astype(np.uint8)
    scales = np.repeat(of_rows()[:, None], columns // 16, 1)
    return {"w": packed, "s": scales} | (
        {"z": np.full((ROWS, max(1, columns // 16 * bits // 8)), 3, np.uint8)} if zeros else {}
    )


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [True, False])
def test_gather_block_quantized_gives_same_rows(bits: int, zeros: bool, tmp_path: Path) -> None:
    tensors = _blocks(bits, zeros)
    names = ["w", "ids", *[name for name in tensors if name != "w"]]
    node = make_node("GatherBlockQuantized", names, ["y"], "blocks", domain="com.microsoft", block_size=16, bits=bits,
                     quantize_axis=1)  # fmt: skip
    report = look(written([node], tensors, tmp_path), {"ids": BOTH_ENDS}, {"ids": OUTSIDE[:, 1:]})
    assert [(one.name, one.embedding_dim) for one in report.tables] == [("w", 32)]


@pytest.mark.parametrize("zeros", [True, False])
def test_output_layer_of_same_blocks_follows_its_table(zeros: bool, tmp_path: Path) -> None:
    tensors = _blocks(4, zeros)
    given = [name for name in tensors if name != "w"]
    nodes = [
        make_node("GatherBlockQuantized", ["w", "ids", *given], ["h"], domain="com.microsoft", block_size=16, bits=4,
                  quantize_axis=1),
        make_node("Constant", [], ["sizes"], value_ints=[ROWS, 2, 8]),
        make_node("Reshape", ["w", "sizes"], ["blocks"]),
        make_node("MatMulNBits", ["h", "blocks", *given], ["y"], "head", domain="com.microsoft", block_size=16, bits=4,
                  K=32, N=ROWS),
    ]  # fmt: skip
    report = look(written(nodes, tensors, tmp_path), {"ids": BOTH_ENDS})
    assert [one.uses for one in report.tables] == [2]


def embed_node(*inputs: str, outputs: tuple[str, ...] = ("y", "m", "e"), **attributes: Any) -> NodeProto:
    return make_node("EmbedLayerNormalization", [*inputs], [*outputs], "embed", domain="com.microsoft", **attributes)


EMBEDS = {
    "all": embed_node("ids", "seg", "w", "p", "k", "g", "b", "mask", "at"),
    "mask": embed_node("ids", "seg", "w", "p", "k", "g", "b", "mask", epsilon=1e-5),
    "no mask": embed_node("ids", "seg", "w", "p", "k", "g", "b"),
    "no segments": embed_node("ids", "", "w", "p", "", "g", "b", "mask", outputs=("y", "m")),
}


@pytest.mark.parametrize("case", EMBEDS)
def test_embed_layer_normalization_is_expanded_around_its_table(case: str, tmp_path: Path) -> None:
    node, shape = EMBEDS[case], ["b", "s"]
    tensors = {"w": few(), "p": few(1, 64), "k": few(2, 2), "g": few(3, 1)[0], "b": few(4, 1)[0]}
    used = {name: array for name, array in tensors.items() if name in node.input}
    types = {"y": TensorProto.FLOAT, "m": TensorProto.INT32, "e": TensorProto.FLOAT}
    given = [name for name in ("ids", "seg", "mask", "at") if name in node.input]
    graph = helper.make_graph(
        [node], "bert", [make_tensor_value_info(name, TensorProto.INT32, shape) for name in given],
        [make_tensor_value_info(name, types[name], None) for name in node.output],
        [numpy_helper.from_array(array, name) for name, array in used.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), *MICROSOFT], ir_version=8)
    source = tmp_path / "bert.onnx"
    source.write_bytes(made.SerializeToString())
    feeds = {"ids": IDS.astype(np.int32), "seg": IDS.astype(np.int32) % 2, "at": IDS.astype(np.int32)[:, ::-1] % 64,
             "mask": np.array([[1, 1, 0], [1, 0, 0]], np.int32)}  # fmt: skip
    look(source, {name: feeds[name] for name in given}, modules=["w"])
    small, dense = tmp_path / "small.onnx", ort.InferenceSession(source)
    for wrong in (-1, ROWS):
        bad = {name: feeds[name] for name in given} | {"ids": np.full((2, 3), wrong, np.int32)}
        with pytest.raises(Exception, match=r"."):
            dense.run(None, bad)
        for portable in (True, False):
            with pytest.raises(Exception, match=r"."):
                run(small, bad, portable=portable)


def _branch(name: str, *nodes: NodeProto, tensors: Tensors | None = None, y: str = "z") -> onnx.GraphProto:
    given = [numpy_helper.from_array(array, key) for key, array in (tensors or {}).items()]
    return helper.make_graph([*nodes], name, [], [make_tensor_value_info(y, TensorProto.FLOAT, [None] * 3)], given)


@pytest.mark.parametrize("inside", [True, False])
def test_tables_of_branches_are_packed(inside: bool, tmp_path: Path) -> None:
    tensors = {"w": few()}
    then = _branch("then", gather(y="z"), tensors=tensors if inside else None)
    other = _branch("other", gather("v", y="u"), make_node("Neg", ["u"], ["z"]), tensors={"v": few(3)})
    nodes = [
        make_node("Cast", ["flag"], ["is"], to=9),
        make_node("If", ["is"], ["y"], "choose", then_branch=then, else_branch=other),
    ]
    source = written(nodes, {} if inside else tensors, tmp_path, inputs={"ids": ["b", "s"], "flag": []})
    report = look(source, *({"ids": BOTH_ENDS, "flag": np.array(flag, np.float32)} for flag in (0, 1)))
    assert sorted(one.name for one in report.tables) == ["v", "w"]


def test_table_of_loop_and_outer_graph_is_packed_once(tmp_path: Path) -> None:
    body = helper.make_graph(
        [gather(y="z"), make_node("Add", ["total", "z"], ["sum"]), make_node("Identity", ["go"], ["on"])], "body",
        [make_tensor_value_info("i", TensorProto.INT64, []), make_tensor_value_info("go", TensorProto.BOOL, []),
         make_tensor_value_info("total", TensorProto.FLOAT, [None] * 3)],
        [make_tensor_value_info("on", TensorProto.BOOL, []),
         make_tensor_value_info("sum", TensorProto.FLOAT, [None] * 3)],
    )  # fmt: skip
    nodes = [
        gather(y="first"),
        make_node("Constant", [], ["times"], value_int=3),
        make_node("Loop", ["times", "", "first"], ["y"], "repeat", body=body),
    ]
    report = look(written(nodes, {"w": few()}, tmp_path), {"ids": BOTH_ENDS})
    assert [(one.name, one.uses) for one in report.tables] == [("w", 2)]


def _function(name: str, inputs: list[str], *nodes: NodeProto, opset: int = 21) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, inputs, ["r"], [*nodes], opsets)


@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.parametrize("where", ["argument", "inside", "nested"])
def test_tables_of_functions_are_packed_once(where: str, opset: int, tmp_path: Path) -> None:
    constant = make_node("Constant", [], ["w"], value=numpy_helper.from_array(few()))
    unrelated = _function("Twice", ["x"], make_node("Add", ["x", "x"], ["r"]), opset=opset)
    inside = where != "argument"
    find = _function(
        "Find", ["i"] if inside else ["i", "w"], *([constant] if inside else []), gather(ids="i", y="r"), opset=opset
    )
    outer = _function("Outer", ["i"], make_node("Find", ["i"], ["r"], domain="own"), opset=opset)
    functions = [unrelated, find, *([outer] if where == "nested" else [])]
    arguments = ["ids"] if inside else ["ids", "w"]
    nodes = [
        make_node("Outer" if where == "nested" else "Find", arguments, ["a"], "one", domain="own"),
        make_node("Find", arguments, ["b"], "two", domain="own"),
        make_node("Twice", ["a"], ["c"], "twice", domain="own"),
        make_node("Sub", ["c", "b"], ["y"]),
    ]
    source = written(nodes, {} if inside else {"w": few()}, tmp_path, functions=functions, opset=opset)
    made = onnx.load(source)
    made.opset_import.append(helper.make_opsetid("own", 1))
    onnx.save(made, source)
    small = tmp_path / "small.onnx"
    _, report = edge_embed.compress(source, "dpq", output=small, **DPQ)
    assert [(one.name, one.uses) for one in report.tables] == [("w", 2)]
    expected = ort.InferenceSession(source).run(None, {"ids": BOTH_ENDS})
    for portable in (True, False):
        np.testing.assert_allclose(run(small, {"ids": BOTH_ENDS}, portable=portable)[0], expected[0], rtol=0, atol=2e-5)
    found = onnx.load(small)
    assert [one.name for one in found.functions if one.domain == "own"] == ["Twice"]
    assert {"twice"} <= {node.name for node in found.graph.node if node.op_type == "Twice"}
    assert not any(len(node.metadata_props) for node in found.graph.node)
    assert list(packed_tables(small)) == ["w"]


def test_initializers_before_ir_4_stay_constant_though_inputs(tmp_path: Path) -> None:
    nodes = [gather(y="h"), make_node("Mul", ["h", "factor"], ["y"])]
    tensors = {"w": few(), "factor": np.float32([2])}
    inputs: dict[str, Callable[..., Any] | Any] = {"ids": ["b", "s"], "w": [ROWS, COLUMNS], "factor": [1]}
    made = model(nodes, tensors, {"y": ["b", "s", COLUMNS]}, inputs=inputs, opset=9, ir_version=3)
    source = tmp_path / "model.onnx"
    source.write_bytes(made.SerializeToString())
    look(source, {"ids": BOTH_ENDS})
    assert [value.name for value in onnx.load(tmp_path / "small.onnx").graph.input] == ["ids"]


def test_dequantised_rows_of_damaged_scales_warn_of_nothing() -> None:
    stored, scales = np.ones((2, 4), np.uint8), np.array([[np.inf], [3e38]], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = _dequantised(stored * np.uint8(9), scales, np.array([[9.0], [0.0]], np.float32), 1, 4)
    assert not np.isfinite(rows).any()
