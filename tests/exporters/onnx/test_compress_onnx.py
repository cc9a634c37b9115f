"""A compressed ONNX file gives the results of the dense model with the packed rows in it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node
from torch import nn

import edge_embed
from edge_embed.compression.onnx.compress import CompressedFile
from edge_embed.inspection.inspect import inspect_file

from .foreign_models import COLUMNS, ROWS, look_up, model, packed_tables, rows_of, run, saved, table, with_rows

EPS = np.finfo(np.float32).eps
DPQ = {"num_codes": 32, "num_groups": 4}
SIZES: dict[str, dict[str, Any]] = {
    "dpq": DPQ,
    "opq": DPQ,
    "ant": {"num_anchors": 16, "nonzeros": 2},
    "tt": {"rank": 4},
    "low_rank": {"rank": 4},
}
IDS = np.array([[3, 0, -1], [ROWS - 1, -ROWS, 7]])


def compressed(source: Path, method: str = "dpq", **wanted: Any) -> CompressedFile:
    sizes = {} if "ratio" in wanted else SIZES[method]
    found = edge_embed.compress(source, method, output=source.with_name("small.onnx"), **{**sizes, **wanted})
    assert isinstance(found, CompressedFile)
    onnx.checker.check_model(found.model, full_check=True)
    return found


def agree(source: Path, small: Path, feeds: dict[str, np.ndarray], tensors: dict[str, str]) -> None:
    """Assert that the packed model matches the dense one with the packed rows, with and without the library.

    Rows of DPQ are stored numbers; those of other methods are sums of at most 64 products, in another order. A product
    with all rows, another sum of d terms, has the magnitude of hidden states and rows.
    """
    rows = {dense: rows_of(small, name) for dense, name in tensors.items()}
    expected = ort.InferenceSession(with_rows(onnx.load(source), rows)).run(None, feeds)
    largest = max(float(np.abs(array).max()) for array in rows.values())
    for portable in (True, False):
        for got, wanted in zip(run(small, feeds, portable=portable), expected, strict=True):
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(got, wanted, rtol=0, atol=64 * EPS * COLUMNS * max(1, largest) ** 2)


def plain(**options: Any) -> onnx.ModelProto:
    return model([look_up()], {"words.weight": table()}, {"rows": ["batch", "sequence", COLUMNS]}, **options)


@pytest.mark.parametrize("method", SIZES)
@pytest.mark.parametrize("opset", [18, 21, 26])
def test_rows_of_session_match_packed_table(method: str, opset: int, tmp_path: Path) -> None:
    source = saved(plain(opset=opset), tmp_path)
    small, report = compressed(source, method)
    assert [(found.name, found.method) for found in report.tables] == [("words", method)]
    agree(source, small, {"ids": IDS}, {"words.weight": "words"})
    made = onnx.load(small)
    assert [function.opset_import[0].version for function in made.functions] == [opset]
    assert inspect_file(small, verify=True).exit_code == 0


@pytest.mark.parametrize("opset", [11, 13, 14, 16, 17])
def test_opset_older_than_18_is_raised(opset: int, tmp_path: Path) -> None:
    """ReduceMean and Unsqueeze store their axes elsewhere from opset 18 on."""
    unsqueeze = {"axes": [2]} if opset < 13 else {}
    nodes = [
        look_up(),
        make_node("ReduceMean", ["rows"], ["means"], "mean", axes=[1], keepdims=0),
        make_node("Unsqueeze", ["means", *([] if unsqueeze else ["axis"])], ["result"], "widen", **unsqueeze),
    ]
    tensors = {"words.weight": table()} | ({} if unsqueeze else {"axis": np.array([2])})
    source = saved(model(nodes, tensors, {"result": ["batch", COLUMNS, 1]}, opset=opset, ir_version=6), tmp_path)
    small, _ = compressed(source)
    agree(source, small, {"ids": IDS}, {"words.weight": "words"})
    made = onnx.load(small)
    assert {item.domain: item.version for item in made.opset_import} == {"": 18, "edge_embed": 1}
    assert {"mean", "widen"} <= {node.name for node in made.graph.node}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ids = {f"ids_{rank}": [None] * rank for rank in range(4)}
    outputs = {f"rows_{rank}": [None] * (rank + 1) for rank in range(4)}
    nodes = [look_up(ids=name, rows=rows) for name, rows in zip(ids, outputs, strict=True)]
    source = saved(model(nodes, {"words.weight": table()}, outputs, inputs=ids), tmp_path_factory.mktemp("ranks"))
    return compressed(source).model


@pytest.fixture(scope="module")
def sessions(small: Path) -> list[ort.InferenceSession]:
    return [edge_embed.create_session(small, portable) for portable in (True, False)]


class TestIds:
    @given(ids=hnp.arrays(np.int64, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
                          elements=st.integers(-ROWS, ROWS - 1)))  # fmt: skip
    @settings(max_examples=40)
    def test_ids_of_any_shape_count_from_both_ends(
        self, small: Path, sessions: list[ort.InferenceSession], ids: np.ndarray
    ) -> None:
        feeds = {f"ids_{rank}": np.zeros((0,) * rank, np.int64) for rank in range(4)} | {f"ids_{ids.ndim}": ids}
        (packed,) = packed_tables(small).values()
        for session in sessions:
            np.testing.assert_array_equal(session.run(None, feeds)[ids.ndim], packed.rows(ids % ROWS))

    @pytest.mark.parametrize("wrong", [ROWS, -ROWS - 1, 2**31 - 1, -(2**31), 2**62, -(2**63)])
    @pytest.mark.parametrize("portable", [True, False])
    def test_ids_out_of_range_are_refused_as_before(self, small: Path, wrong: int, portable: bool) -> None:
        feeds = {f"ids_{rank}": np.zeros((0,) * rank, np.int64) for rank in range(4)} | {"ids_1": np.array([0, wrong])}
        with pytest.raises(Exception, match=r"(?i)out of|bounds|range|ids|indices"):
            run(small, feeds, portable=portable)

    def test_ids_of_int32_give_packed_rows(self, tmp_path: Path) -> None:
        inputs = {"ids": (TensorProto.INT32, ["batch", "sequence"])}
        source = saved(plain(inputs=inputs), tmp_path)
        agree(source, compressed(source).model, {"ids": IDS.astype(np.int32)}, {"words.weight": "words"})

    def test_ids_of_undeclared_type_give_packed_rows(self, tmp_path: Path) -> None:
        nodes = [make_node("Cast", ["ids"], ["fewer"], to=TensorProto.INT32), look_up(ids="fewer")]
        source = saved(model(nodes, {"words.weight": table()}, {"rows": ["b", "s", COLUMNS]}), tmp_path)
        agree(source, compressed(source).model, {"ids": IDS}, {"words.weight": "words"})


def _turned(nodes: list[Any], tensors: dict[str, np.ndarray]) -> None:
    nodes += [
        make_node("Transpose", ["words.weight"], ["turned"], perm=[1, 0]),
        make_node("MatMul", ["rows", "turned"], ["logits"], "head"),
    ]


def _twin(nodes: list[Any], tensors: dict[str, np.ndarray]) -> None:
    tensors["folded"] = np.ascontiguousarray(tensors["words.weight"].T)
    nodes += [make_node("MatMul", ["rows", "folded"], ["logits"], "head")]


def _gemm(nodes: list[Any], tensors: dict[str, np.ndarray]) -> None:
    tensors |= {"bias": np.linspace(-1, 1, ROWS, dtype=np.float32), "flat": np.array([-1, COLUMNS])}
    nodes += [
        make_node("Reshape", ["rows", "flat"], ["states"]),
        make_node("Gemm", ["states", "words.weight", "bias"], ["logits"], "head", transB=1),
    ]


def _gemm_without_bias(nodes: list[Any], tensors: dict[str, np.ndarray]) -> None:
    _gemm(nodes, tensors)
    nodes[-1] = make_node("Gemm", ["states", "same"], ["logits"], "head", transB=1, beta=0.5)
    nodes.insert(0, make_node("Identity", ["words.weight"], ["same"]))


def _vector(nodes: list[Any], tensors: dict[str, np.ndarray]) -> None:
    tensors |= {"place": np.array(0)}
    nodes += [
        make_node("Gather", ["rows", "place"], ["line"]),
        make_node("Gather", ["line", "place"], ["state"]),
        make_node("Transpose", ["words.weight"], ["turned"]),
        make_node("MatMul", ["state", "turned"], ["logits"], "head"),
    ]


@pytest.mark.parametrize("output_layer", [_turned, _twin, _gemm, _gemm_without_bias, _vector])
@pytest.mark.parametrize("method", SIZES)
def test_output_layer_tied_to_table_follows_it(
    output_layer: Callable[[list[Any], dict[str, np.ndarray]], None], method: str, tmp_path: Path
) -> None:
    nodes, tensors = [look_up()], {"words.weight": table()}
    output_layer(nodes, tensors)
    rank = {_vector: 1, _gemm: 2, _gemm_without_bias: 2}.get(output_layer, 3)
    source = saved(
        model(nodes, tensors, {"rows": ["b", "s", COLUMNS], "logits": [f"l{at}" for at in range(rank)]}), tmp_path
    )
    small, report = compressed(source, method)
    assert [found.uses for found in report.tables] == [2]
    made = onnx.load(small)
    assert {"words.weight", "folded"}.isdisjoint({tensor.name for tensor in made.graph.initializer})
    rows = rows_of(small, "words")
    dense = onnx.load(source)
    expected = with_rows(dense, {"words.weight": rows, "folded": rows.T})
    wanted = ort.InferenceSession(expected).run(None, {"ids": IDS})
    largest = float(np.abs(rows).max())
    for portable in (True, False):
        for got, value in zip(run(small, {"ids": IDS}, portable=portable), wanted, strict=True):
            np.testing.assert_allclose(got, value, rtol=0, atol=64 * EPS * COLUMNS * max(1, largest) ** 2)


def test_table_in_float16_gives_float16(tmp_path: Path) -> None:
    outputs = {"rows": (TensorProto.FLOAT16, ["batch", "sequence", COLUMNS])}
    source = saved(model([look_up()], {"words.weight": table(dtype=np.float16)}, outputs), tmp_path)
    for value_type in ("float16", "float32", "int8"):
        small, report = compressed(source, value_type=value_type, force=True)
        fidelity = report.tables[0].fidelity
        assert fidelity is not None
        assert fidelity.dense_bytes == ROWS * COLUMNS * 2
        (packed,) = packed_tables(small).values()
        for portable in (True, False):
            (rows,) = run(small, {"ids": IDS}, portable=portable)
            np.testing.assert_array_equal(rows, packed.rows(IDS % ROWS).astype(np.float16))


def test_compress_interrupted_resumes_in_next_call(tmp_path: Path) -> None:
    source, kept = saved(plain(), tmp_path), tmp_path / "kept"

    def stop(step: str, done: int, total: int) -> None:
        if kept.exists() and any(path.is_file() for path in kept.rglob("*")):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compressed(source, ratio=4, checkpoint=kept, progress=stop)
    assert not source.with_name("small.onnx").exists()
    small, _ = compressed(source, ratio=4, checkpoint=kept)
    agree(source, small, {"ids": IDS}, {"words.weight": "words"})
    assert not kept.exists()


def test_output_layer_that_differs_by_one_bit_is_untied(tmp_path: Path) -> None:
    tensors = {"words.weight": table(), "output": np.ascontiguousarray(table().T)}
    tensors["words.weight"][-1, -1], tensors["output"][-1, -1] = 0.0, -0.0
    nodes = [look_up(), make_node("MatMul", ["rows", "output"], ["logits"], "head")]
    source = saved(model(nodes, tensors, {"logits": ["batch", "sequence", ROWS]}), tmp_path)
    small, report = compressed(source)
    assert [(found.uses, found.reason[:15]) for found in report.tables] == [(1, ""), (1, "an output layer")]
    agree(source, small, {"ids": IDS}, {"words.weight": "words"})
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(small).graph.initializer}
    np.testing.assert_array_equal(stored["output"], tensors["output"])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_table_in_typed_fields_is_compressed(dtype: Any, tmp_path: Path) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made = model([look_up()], {}, {"rows": (kind, ["batch", "sequence", COLUMNS])})
    numbers = table(dtype=dtype)
    made.graph.initializer.append(helper.make_tensor("words.weight", kind, numbers.shape, numbers.flatten()))
    assert not made.graph.initializer[0].HasField("raw_data")
    source = saved(made, tmp_path)
    agree(source, compressed(source).model, {"ids": IDS}, {"words.weight": "words"})


def test_rows_of_float16_are_cast_to_type_of_table(tmp_path: Path) -> None:
    source = saved(plain(), tmp_path)
    small, _ = compressed(source, value_type="float16")
    agree(source, small, {"ids": IDS}, {"words.weight": "words"})


def test_model_beside_table_keeps_its_bytes(tmp_path: Path) -> None:
    nodes = [
        look_up(),
        make_node("Twice", ["rows"], ["doubled"], "twice", domain="own"),
        make_node("Relu", ["doubled"], ["result"], "relu"),
    ]
    twice = helper.make_function(
        "own", "Twice", ["x"], ["y"], [make_node("Add", ["x", "x"], ["y"])], [helper.make_opsetid("", 18)]
    )
    made = model(nodes, {"words.weight": table(), "unused": np.zeros(3)}, {"result": ["batch", "sequence", COLUMNS]},
                 functions=[twice])  # fmt: skip
    made.opset_import.append(helper.make_opsetid("own", 1))
    made.metadata_props.add(key="task", value="similarity")
    made.graph.doc_string, made.doc_string, made.model_version = "of the graph", "of the model", 7
    made.graph.value_info.append(helper.make_tensor_value_info("doubled", TensorProto.FLOAT, ["batch", "sequence", 16]))
    made.graph.value_info.append(helper.make_tensor_value_info("words.weight", TensorProto.FLOAT, [ROWS, COLUMNS]))
    source = saved(made, tmp_path)
    small, _ = compressed(source)
    agree(source, small, {"ids": IDS}, {"words.weight": "words"})
    found = onnx.load(small)
    assert [node.op_type for node in found.graph.node][-3:] == ["DPQEmbedding", "Twice", "Relu"]
    # The compressed parts are removed from both models; the rest has the same bytes.
    for one in (made, found):
        del one.graph.node[:-2]
        del one.graph.initializer[:]
        one.opset_import.sort(key=lambda item: item.domain)
    del found.functions[1:]
    found.opset_import.remove(next(item for item in found.opset_import if item.domain == "edge_embed"))
    assert [item.key for item in found.metadata_props[1:]] == ["edge_embed.tables", "edge_embed.fidelity"]
    del found.metadata_props[1:]
    made.graph.value_info.pop()
    assert found.SerializeToString(deterministic=True) == made.SerializeToString(deterministic=True)
    assert "unused" in {tensor.name for tensor in onnx.load(small).graph.initializer}


def test_names_in_use_stay_unique(tmp_path: Path) -> None:
    nodes = [
        look_up(name="a/b c.weight", rows="a.b.c.codes"),
        make_node("Identity", ["a.b.c.codes"], ["a.b.c.ids.zero"], "a.b.c.ids.wide"),
        make_node("Identity", ["a.b.c.ids.zero"], ["result"], "a.b.c_1.ids.place"),
    ]
    source = saved(model(nodes, {"a/b c.weight": table()}, {"result": ["batch", "sequence", COLUMNS]}), tmp_path)
    small, report = compressed(source)
    assert [found.name for found in report.tables] == ["a/b c"]
    agree(source, small, {"ids": IDS}, {"a/b c.weight": "a.b.c_1"})
    assert inspect_file(small, verify=True).exit_code == 0


def test_tables_with_several_lookups_each_are_compressed(tmp_path: Path) -> None:
    inputs = {"ids": ["n"], "ids_b": ["m", "k"]}
    nodes = [
        look_up("a", rows="one"),
        look_up("a", "ids_b", rows="two"),
        look_up("b", rows="three", axis=-2),
        look_up("a", rows="four"),
        make_node("Constant", [], ["c"], "constant", value=numpy_helper.from_array(table(seed=3))),
        look_up("c", rows="five"),
    ]
    outputs = {
        name: ["m", "k", COLUMNS] if name == "two" else ["n", COLUMNS]
        for name in ("one", "two", "three", "four", "five")
    }
    source = saved(model(nodes, {"a": table(), "b": table(seed=2)}, outputs, inputs=inputs), tmp_path)
    small, report = compressed(source)
    assert {found.name: found.uses for found in report.tables} == {"a": 3, "b": 1, "c": 1}
    packed = packed_tables(small)
    feeds = {"ids": np.array([1, -4]), "ids_b": np.array([[0], [-1]])}
    for portable in (True, False):
        rows = run(small, feeds, portable=portable)
        for got, name, output in zip(rows, "aabac", outputs, strict=True):
            np.testing.assert_array_equal(got, packed[name].rows(feeds["ids_b" if output == "two" else "ids"] % ROWS))


def test_file_with_packed_tables_gets_more_of_them(tmp_path: Path) -> None:
    nodes = [look_up("a.weight", rows="one"), look_up("b.weight", rows="two")]
    made = model(
        nodes, {"a.weight": table(), "b.weight": table(seed=2)}, {"one": ["b", "s", 16], "two": ["b", "s", 16]}
    )
    source = saved(made, tmp_path)
    first, report = compressed(source, modules=["a.weight"])
    assert [found.reason for found in report.tables] == ["", "not among the given names"]
    first = first.rename(tmp_path / "first.onnx")
    small, report = compressed(first, "ant")
    assert [found.name for found in report.tables] == ["b"]
    agree(source, small, {"ids": IDS}, {"a.weight": "a", "b.weight": "b"})
    assert {name: found.method for name, found in packed_tables(small).items()} == {"a": "dpq", "b": "ant"}
    assert inspect_file(small, verify=True).exit_code == 0
    with pytest.raises(edge_embed.errors.BadInputError, match=r"got .a., .b. compressed already, expected dense rows"):
        compressed(small.rename(tmp_path / "both.onnx"))


@pytest.mark.parametrize("limit", [1 << 30, 1000])
@pytest.mark.parametrize("outside", [True, False])
def test_weights_stay_inside_or_beside_file(
    limit: int, outside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edge_embed.compression.onnx import write

    monkeypatch.setattr(write, "AUTO_THRESHOLD", limit)
    nodes = [look_up(), make_node("MatMul", ["rows", "dense"], ["result"])]
    other = np.random.default_rng(1).standard_normal((COLUMNS, 40)).astype(np.float32)
    tensors, outputs = {"words.weight": table(), "dense": other}, {"result": ["batch", "sequence", 40]}
    (tmp_path / "from").mkdir()
    source = saved(
        model(nodes, tensors, outputs),
        tmp_path / "from",
        save_as_external_data=outside,
        location="w.bin",
        size_threshold=100,
    )
    found = edge_embed.compress(source, "dpq", output=tmp_path / "small.onnx", **DPQ)
    files = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert files == (["small.onnx"] if limit > 1000 else ["small.onnx", "small.onnx.data"])
    assert found.report.compressed_bytes == sum((tmp_path / name).stat().st_size for name in files)
    assert found.report.dense_bytes == sum(path.stat().st_size for path in (tmp_path / "from").iterdir())
    for part in (tmp_path / "from").iterdir():  # these weights are no longer read
        part.unlink()
    onnx.save(model(nodes, tensors, outputs), source)
    onnx.checker.check_model(found.model, full_check=True)
    agree(source, found.model, {"ids": IDS}, {"words.weight": "words"})
    assert not inspect_file(found.model, verify=True).warnings


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(ROWS, COLUMNS)
        self.words.weight.data = torch.from_numpy(table())
        self.inner = nn.Linear(COLUMNS, COLUMNS)
        self.head = nn.Linear(COLUMNS, ROWS)
        self.head.weight = self.words.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.inner(self.words(ids))))  # type: ignore[no-any-return]


@pytest.mark.parametrize("optimize", [True, False])
def test_torch_export_model_is_compressed(optimize: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    source = tmp_path / "model.onnx"
    shapes = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")},)
    tagger = Tagger().eval()
    torch.onnx.export(
        tagger, (torch.tensor([[1, 2], [3, 4]]),), source, dynamo=True, dynamic_shapes=shapes, optimize=optimize,
        input_names=["ids"], verbose=False,
    )  # fmt: skip
    small, report = compressed(source, ratio=4)
    assert [(found.name, found.uses) for found in report.tables] == [("head", 2)]  # the name that torch gives
    assert small.stat().st_size < sum(part.stat().st_size for part in tmp_path.glob("model.onnx*"))
    (packed,) = packed_tables(small).values()
    tagger.words.weight.data = torch.from_numpy(np.array(packed.rows(np.arange(ROWS)), np.float32))
    with torch.no_grad():
        expected = tagger(torch.from_numpy(IDS % ROWS)).numpy()
    for portable in (True, False):
        (got,) = run(small, {"ids": IDS}, portable=portable)
        np.testing.assert_allclose(got, expected, rtol=0, atol=64 * EPS * COLUMNS * np.abs(expected).max())
